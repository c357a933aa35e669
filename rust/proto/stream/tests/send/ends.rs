// SPDX-License-Identifier: GPL-2.0

//! The error state, and the life after a reset.

use super::*;

#[test]
fn moving_to_error_flushes_in_order() {
    let mut s = sender(send_config());
    for i in 0..4 {
        s.post(T0, &work(SendOp::Write, 8, i)).unwrap();
    }
    let sent = pump(&mut s, T0);
    ack_all(&mut s, T0, &[sent[0], sent[2]]);
    s.fail(WcStatus::Flushed);
    assert!(sent.iter().all(|d| s.packet(d).is_none()));
    ack_all(&mut s, T0, &sent[1..2]);
    assert_eq!(
        completed(&mut s),
        [
            (0, WcStatus::Success),
            (1, WcStatus::Flushed),
            (2, WcStatus::Flushed),
            (3, WcStatus::Flushed)
        ]
    );

    // With nothing posted, what is posted later is flushed.
    let mut s = sender(send_config());
    s.fail(WcStatus::RetryExceeded);
    assert!(s.is_flushing());
    s.post(T0, &work(SendOp::Write, 8, 9)).unwrap();
    assert_eq!(completed(&mut s), [(9, WcStatus::Flushed)]);

    // Likewise with everything done but not taken.
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    let sent = pump(&mut s, T0);
    ack_all(&mut s, T0, &sent);
    s.fail(WcStatus::RetryExceeded);
    s.post(T0, &work(SendOp::Write, 8, 2)).unwrap();
    assert_eq!(
        completed(&mut s),
        [(1, WcStatus::Success), (2, WcStatus::Flushed)]
    );
    assert!(s.is_flushing());
}

#[test]
fn flushing_goes_on_past_the_ring() {
    let mut s = sender(send_config());
    s.fail(WcStatus::Flushed);
    for round in 0..3 {
        for i in 0..MSG_WINDOW {
            s.post(T0, &work(SendOp::Send, 8, i)).unwrap();
        }
        assert!(!s.can_post());
        assert_eq!(s.next_segment(T0), None);
        assert_eq!(completed(&mut s).len(), 128, "round {round}");
        s.assert_invariants();
    }
}

#[test]
fn reset_forgets_the_earlier_life() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    let old = pump(&mut s, T0);
    s.reset(SendConfig {
        sq_psn: 5,
        ..send_config()
    });
    assert!(s.is_empty());
    assert!(s.packet(&old[0]).is_none());
    s.post(T0, &work(SendOp::Write, 8, 2)).unwrap();
    pump(&mut s, T0);
    ack_all(&mut s, T0, &old);
    s.on_nak(T0, &nak(NakCode::RemoteAccess, START, 0));
    assert_eq!(completed(&mut s), []);
}

#[test]
fn lives_with_the_same_numbers_are_told_apart() {
    let mut s = sender(send_config());
    for life in 0..40_000u32 {
        s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
        s.post(T0, &work(SendOp::Read, 8, 2)).unwrap();
        let old = pump(&mut s, T0);
        assert!(old[0].epoch < 1 << 15, "a new receive stream takes it");
        s.reset(send_config());
        s.reset(send_config());
        s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
        s.post(T0, &work(SendOp::Read, 8, 2)).unwrap();
        let new = pump(&mut s, T0);
        assert_ne!(new[0].epoch, old[0].epoch, "life {life}");
        assert!(old.iter().all(|d| s.packet(d).is_none()));
        ack_all(&mut s, T0, &old);
        assert_eq!(completed(&mut s), []);
        if new[0].epoch != 0 {
            s.on_nak(T0, &nak(NakCode::RemoteAccess, START, old[0].epoch));
            let stale = DataFields {
                opcode: Opcode::ReadResponse,
                flags: StreamFlags::LAST,
                src_qpn: B,
                msn: START.add(1),
                epoch: old[1].epoch,
                ..DataFields::default()
            };
            assert_eq!(s.on_response(&stale, 8), ResponseTarget::Ignore);
        }
        ack_all(&mut s, T0, &new);
        assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
        s.reset(send_config());
    }
}
