// SPDX-License-Identifier: GPL-2.0

//! Operations that send nothing.

use super::*;

#[test]
fn local_operations_keep_their_place() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Read, 8, 1)).unwrap();
    s.post(
        T0,
        &SendWork {
            fence: true,
            ..work(SendOp::Local, 0, 2)
        },
    )
    .unwrap();
    s.post(T0, &work(SendOp::Send, 8, 3)).unwrap();
    assert_eq!(pump(&mut s, T0).len(), 1);
    assert_eq!(s.next_local(), None, "fenced");
    respond(&mut s, START, 8);
    assert_eq!(s.next_local(), Some(2));
    assert_eq!(s.next_segment(T0), None);
    s.local_done(T0, Ok(()));
    s.assert_invariants();
    let sent = pump(&mut s, T0);
    assert_eq!(sent[0].msn, START.add(1), "it has no message number");
    // A go-back does not execute it again.
    s.on_nak(T0, &nak(NakCode::Rnr, START.add(1), 0));
    assert_eq!(s.next_local(), None);
    let now = expire(&mut s);
    let sent = pump(&mut s, now);
    ack_all(&mut s, now, &sent);
    assert_eq!(completed(&mut s).len(), 3);

    s.post(T0, &work(SendOp::Local, 0, 4)).unwrap();
    s.post(T0, &work(SendOp::Send, 0, 5)).unwrap();
    s.local_done(T0, Err(WcStatus::MwBind));
    assert_eq!(
        completed(&mut s),
        [(4, WcStatus::MwBind), (5, WcStatus::Flushed)]
    );
}

#[test]
fn a_local_operation_can_wait_for_all_before_it() {
    let mut s = sender(send_config());
    let invalidate = SendWork {
        after_all: true,
        ..work(SendOp::Local, 0, 3)
    };
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    s.post(T0, &work(SendOp::Send, 8, 2)).unwrap();
    s.post(T0, &invalidate).unwrap();
    s.post(T0, &work(SendOp::Send, 8, 4)).unwrap();
    let sent = pump(&mut s, T0);
    assert_eq!(sent.len(), 2, "what follows waits as well");
    ack_all(&mut s, T0, &sent[1..]);
    assert_eq!(s.next_local(), None, "the first is outstanding");
    ack_all(&mut s, T0, &sent[..1]);
    assert_eq!(s.next_local(), Some(3));
    s.local_done(T0, Ok(()));
    s.assert_invariants();
    let sent = pump(&mut s, T0);
    ack_all(&mut s, T0, &sent);
    assert_eq!(completed(&mut s).len(), 4);
    // With nothing before it, it need not wait.
    s.post(T0, &invalidate).unwrap();
    assert_eq!(s.next_local(), Some(3));
}

#[test]
fn many_local_operations_between_messages() {
    let mut s = sender(send_config());
    let mut cookie = 0;
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    for round in 0..500u32 {
        while s.can_post() {
            let op = if cookie % (1 + round % 7) == 0 {
                SendOp::Write
            } else {
                SendOp::Local
            };
            s.post(T0, &work(op, 8, cookie)).unwrap();
            expected.push((cookie, WcStatus::Success));
            cookie += 1;
        }
        loop {
            let sent = pump(&mut s, T0);
            ack_all(&mut s, T0, &sent);
            if s.next_local().is_none() && sent.is_empty() {
                break;
            }
            s.local_done(T0, Ok(()));
        }
        seen.append(&mut completed(&mut s));
    }
    assert_eq!(seen, expected);
}
