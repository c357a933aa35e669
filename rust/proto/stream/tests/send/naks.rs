// SPDX-License-Identifier: GPL-2.0

//! NAKs: messages that are sent again, or never.

use super::*;

#[test]
fn a_restart_sends_everything_again() {
    let mut s = sender(send_config());
    for cookie in 1..=3 {
        s.post(T0, &work(SendOp::Write, 1500, cookie)).unwrap();
    }
    let sent = pump(&mut s, T0);
    assert!(s.is_untouched());
    s.on_nak(T0, &nak(NakCode::NotReady, START, sent[0].epoch));
    assert!(pump(&mut s, T0).is_empty());
    s.restart(T0);
    s.assert_invariants();
    let again = pump(&mut s, T0);
    assert_eq!(again.len(), sent.len());
    assert!(again[0].epoch != sent[0].epoch);
    // What the other connection acknowledges late does not count.
    ack_all(&mut s, T0, &sent);
    assert!(s.is_untouched());
    assert!(completed(&mut s).is_empty());
    ack_all(&mut s, T0, &again[..1]);
    assert!(!s.is_untouched());
    ack_all(&mut s, T0, &again[1..]);
    assert!(!s.is_untouched());
    assert_eq!(completed(&mut s).len(), 3);
}

#[test]
fn rnr_retries_are_exact() {
    for retries in 0..7u8 {
        let mut s = sender(SendConfig {
            rnr_retry: retries,
            ..send_config()
        });
        s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
        let mut now = T0;
        let mut attempts = 0;
        while completed(&mut s).is_empty() {
            let sent = pump(&mut s, now);
            assert_eq!(sent.len(), 1);
            attempts += 1;
            s.on_nak(now, &nak(NakCode::Rnr, START, sent[0].epoch));
            if let Some(at) = s.poll_timeout() {
                assert_eq!(at, now.after(Duration::from_micros(10)));
                assert_eq!(s.next_segment(now), None);
                now = at;
                s.on_timeout(now, T0);
            }
        }
        assert_eq!(attempts, u32::from(retries) + 1);
    }
}

#[test]
fn rnr_status_and_infinite_retry() {
    let mut s = sender(SendConfig {
        rnr_retry: 0,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
    pump(&mut s, T0);
    s.on_nak(T0, &nak(NakCode::Rnr, START, 0));
    assert_eq!(completed(&mut s), [(1, WcStatus::RnrRetryExceeded)]);

    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
    let mut now = T0;
    for _ in 0..70_000 {
        // Past the wrap of the epoch.
        let sent = pump(&mut s, now);
        s.on_nak(now, &nak(NakCode::Rnr, START, sent[0].epoch));
        now = expire(&mut s);
    }
    let sent = pump(&mut s, now);
    ack_all(&mut s, now, &sent);
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
}

#[test]
fn rnr_count_starts_again_with_progress() {
    let mut s = sender(SendConfig {
        rnr_retry: 1,
        ..send_config()
    });
    let mut now = T0;
    for i in 0..5 {
        s.post(now, &work(SendOp::Send, 8, i)).unwrap();
        let sent = pump(&mut s, now);
        s.on_nak(now, &nak(NakCode::Rnr, START.add(i), sent[0].epoch));
        now = expire(&mut s);
        let sent = pump(&mut s, now);
        ack_all(&mut s, now, &sent);
        assert_eq!(completed(&mut s), [(i, WcStatus::Success)]);
    }
}

#[test]
fn a_refused_message_waits_for_those_before_it() {
    let mut s = sender(SendConfig {
        rnr_retry: 0,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    s.post(T0, &work(SendOp::Send, 8, 2)).unwrap();
    let sent = pump(&mut s, T0);
    s.on_nak(T0, &nak(NakCode::Rnr, START.add(1), 0));
    assert_eq!(completed(&mut s), [], "it overtook, so it does not count");
    let later = T0.after(Duration::from_millis(1));
    s.on_timeout(later, T0);
    assert_eq!(s.next_segment(later), None);
    ack_all(&mut s, later, &sent[..1]);
    let wait_over = later.after(Duration::from_millis(1));
    s.on_timeout(wait_over, T0);
    let again = pump(&mut s, wait_over);
    assert_eq!((again[0].msn, again[0].epoch), (START.add(1), 1));
    s.on_nak(wait_over, &nak(NakCode::Rnr, START.add(1), 1));
    assert_eq!(
        completed(&mut s),
        [(1, WcStatus::Success), (2, WcStatus::RnrRetryExceeded)]
    );
}

#[test]
fn go_back_discounts_the_earlier_attempt() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    s.post(T0, &work(SendOp::Send, 2_000, 2)).unwrap();
    s.post(T0, &work(SendOp::Write, 8, 3)).unwrap();
    let first = pump(&mut s, T0);
    // The Write behind is acknowledged because it was discarded.
    ack_all(&mut s, T0, &first[3..]);
    s.on_nak(T0, &nak(NakCode::Rnr, START.add(1), 0));
    s.assert_invariants();
    // What was in flight becomes Void, and its acknowledgements count for nothing.
    assert!(s.packet(&first[0]).is_some());
    assert!(s.packet(&first[1]).is_none() && s.packet(&first[3]).is_none());
    ack_all(&mut s, T0, &first);
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
    // The same NAK again, and one from before, say nothing new.
    let deadline = s.poll_timeout();
    s.on_nak(T0.after(Duration(5)), &nak(NakCode::Rnr, START.add(1), 0));
    assert_eq!(s.poll_timeout(), deadline);
    let now = deadline.unwrap();
    s.on_timeout(now, T0);
    let second = pump(&mut s, now);
    assert_eq!(second.len(), 3);
    assert!(second.iter().all(|d| d.epoch == 1));
    s.on_nak(now, &nak(NakCode::InvalidRequest, START.add(2), 0));
    ack_all(&mut s, now, &second);
    assert_eq!(
        completed(&mut s),
        [(2, WcStatus::Success), (3, WcStatus::Success)]
    );
}

#[test]
fn two_refusals_in_either_order() {
    // The responder refuses message 2, then message 1, both of the first attempt.
    let late = nak(NakCode::Rnr, START.add(2), 0);
    let early = nak(NakCode::Rnr, START.add(1), 0);
    for (order, epoch) in [([late, early], 2), ([early, late], 1)] {
        let mut s = sender(send_config());
        for i in 0..4 {
            s.post(T0, &work(SendOp::Send, 8, i)).unwrap();
        }
        let first = pump(&mut s, T0);
        for f in &order {
            s.on_nak(T0, f);
            s.assert_invariants();
        }
        ack_all(&mut s, T0, &first);
        assert_eq!(completed(&mut s), [(0, WcStatus::Success)]);
        let now = expire(&mut s);
        let second = pump(&mut s, now);
        assert_eq!(second.len(), 3);
        assert!(second.iter().all(|d| d.epoch == epoch), "{second:?}");
        ack_all(&mut s, now, &second);
        assert_eq!(completed(&mut s).len(), 3);
    }
}

#[test]
fn fatal_naks_let_earlier_messages_complete() {
    let cases = [
        (NakCode::InvalidRequest, WcStatus::RemoteInvalidRequest, 9),
        (NakCode::RemoteAccess, WcStatus::RemoteAccess, 10),
        (NakCode::RemoteOperation, WcStatus::RemoteOperation, 11),
    ];
    for (code, status, ib) in cases {
        assert_eq!(status.to_ib(), ib);
        let mut s = sender(send_config());
        for i in 0..4 {
            s.post(T0, &work(SendOp::Write, 8, i)).unwrap();
        }
        let sent = pump(&mut s, T0);
        s.on_nak(T0, &nak(code, START.add(2), 0));
        assert_eq!(completed(&mut s), []);
        assert!(s.packet(&sent[1]).is_some());
        assert!(s.packet(&sent[2]).is_none() && s.packet(&sent[3]).is_none());
        ack_all(&mut s, T0, &sent);
        assert_eq!(
            completed(&mut s),
            [
                (0, WcStatus::Success),
                (1, WcStatus::Success),
                (2, status),
                (3, WcStatus::Flushed)
            ]
        );
    }
}

#[test]
fn an_earlier_go_back_supersedes_a_fatal_nak() {
    let fatal = nak(NakCode::RemoteAccess, START.add(2), 0);
    let retry = nak(NakCode::Rnr, START.add(1), 0);
    for order in [[fatal, retry], [retry, fatal]] {
        let mut s = sender(send_config());
        for i in 0..3 {
            s.post(T0, &work(SendOp::Send, 8, i)).unwrap();
        }
        let first = pump(&mut s, T0);
        for f in &order {
            s.on_nak(T0, f);
        }
        ack_all(&mut s, T0, &first);
        let now = expire(&mut s);
        assert_eq!(pump(&mut s, now).len(), 2);
    }
}

#[test]
fn naks_of_strangers_and_for_nothing_are_ignored() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
    s.on_nak(T0, &nak(NakCode::RemoteAccess, START, 0));
    let sent = pump(&mut s, T0);
    let stranger = DataFields {
        src_qpn: Qpn(0x33),
        ..nak(NakCode::RemoteAccess, START, 0)
    };
    s.on_nak(T0, &stranger);
    s.on_nak(T0, &nak(NakCode::RemoteAccess, START.add(1), 0));
    s.on_nak(T0, &nak(NakCode::RemoteAccess, START.sub(1), 0));
    let anonymous = DataFields {
        src_qpn: Qpn(0),
        ..nak(NakCode::RemoteAccess, START, 0)
    };
    s.on_nak(T0, &anonymous);
    ack_all(&mut s, T0, &sent);
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
}
