// SPDX-License-Identifier: GPL-2.0

//! What is taken, and what waits for its turn.

use super::*;

#[test]
fn ring_bounds_what_is_outstanding() {
    let mut s = sender(send_config());
    for i in 0..MSG_WINDOW {
        assert!(s.can_post());
        s.post(T0, &work(SendOp::Write, 1, i)).unwrap();
    }
    assert!(!s.can_post());
    assert_eq!(s.post(T0, &work(SendOp::Write, 1, 0)), Err(QueueFull));
    let sent = pump(&mut s, T0);
    ack_all(&mut s, T0, &sent);
    assert!(!s.can_post(), "room comes when the completion is taken");
    assert_eq!(completed(&mut s).len(), 128);
    assert!(s.can_post());
}

#[test]
fn empty_storage_takes_nothing() {
    let mut s = SendStream::new(Vec::<SendMsg>::new(), send_config());
    assert!(!s.can_post());
    assert_eq!(s.post(T0, &work(SendOp::Write, 1, 0)), Err(QueueFull));
    assert_eq!(s.next_segment(T0), None);
    assert_eq!(s.pop_completed(), None);
}

#[test]
fn fence_waits_for_reads() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Read, 8, 1)).unwrap();
    s.post(
        T0,
        &SendWork {
            fence: true,
            ..work(SendOp::Send, 8, 2)
        },
    )
    .unwrap();
    let sent = pump(&mut s, T0);
    assert_eq!(sent.len(), 1);
    s.on_acked(T0, &sent[0]);
    assert_eq!(s.next_segment(T0), None, "the ack of the request is not it");
    respond(&mut s, START, 8);
    assert_eq!(pump(&mut s, T0).len(), 1);
}

#[test]
fn reads_are_limited() {
    let mut s = sender(SendConfig {
        max_rd_atomic: 2,
        ..send_config()
    });
    for i in 0..3 {
        s.post(T0, &work(SendOp::Read, 8, i)).unwrap();
    }
    s.post(T0, &work(SendOp::Send, 8, 3)).unwrap();
    assert_eq!(pump(&mut s, T0).len(), 2, "and nothing passes the third");
    respond(&mut s, START.add(1), 8);
    assert_eq!(pump(&mut s, T0).len(), 2);
    assert_eq!(completed(&mut s), []);
    respond(&mut s, START, 8);
    assert_eq!(
        completed(&mut s),
        [(0, WcStatus::Success), (1, WcStatus::Success)]
    );
}

#[test]
fn invalid_requests_fail_in_their_turn() {
    let cases = [
        (work(SendOp::Read, 8, 2), WcStatus::LocalQpOperation),
        (
            work(SendOp::Write, MAX_MSG_LEN + 1, 2),
            WcStatus::LocalLength,
        ),
    ];
    for (bad, status) in cases {
        let mut s = sender(SendConfig {
            max_rd_atomic: 0,
            ..send_config()
        });
        s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
        s.post(T0, &bad).unwrap();
        s.post(T0, &work(SendOp::Send, 8, 3)).unwrap();
        let sent = pump(&mut s, T0);
        assert_eq!(sent.len(), 1);
        assert_eq!(completed(&mut s), []);
        ack_all(&mut s, T0, &sent);
        assert_eq!(
            completed(&mut s),
            [(1, WcStatus::Success), (2, status), (3, WcStatus::Flushed)]
        );
        assert!(s.is_flushing());
        s.post(T0, &work(SendOp::Send, 8, 4)).unwrap();
        assert_eq!(s.next_segment(T0), None);
        assert_eq!(completed(&mut s), [(4, WcStatus::Flushed)]);
        assert_eq!(s.poll_timeout(), None);
    }
}

#[test]
fn broken_work_ends_with_the_callers_status() {
    let mut s = sender(send_config());
    s.post_broken(T0, &work(SendOp::Send, 8, 1), WcStatus::LocalProtection)
        .unwrap();
    assert_eq!(completed(&mut s), [(1, WcStatus::LocalProtection)]);
}

#[test]
fn draining_finishes_what_is_started() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Send, 2_000, 1)).unwrap();
    s.post(T0, &work(SendOp::Write, 8, 2)).unwrap();
    let first = s.next_segment(T0).unwrap();
    s.commit(T0, &first);
    s.set_draining(true);
    assert!(!s.is_drained());
    let rest = pump(&mut s, T0);
    assert_eq!(rest.len(), 1, "the second packet, not the second message");
    // A refusal does not make it a new message.
    s.on_nak(T0, &nak(NakCode::Rnr, START, 0));
    let now = expire(&mut s);
    let again = pump(&mut s, now);
    assert_eq!(again.len(), 2);
    ack_all(&mut s, now, &again);
    assert!(s.is_drained());
    assert_eq!(s.poll_timeout(), None);
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
    s.set_draining(false);
    assert_eq!(pump(&mut s, now).len(), 1);
}
