// SPDX-License-Identifier: GPL-2.0

//! Epochs: what belongs to which attempt of the requester's.

use super::*;

#[test]
fn going_back_takes_a_failure_back() {
    let mut r = receiver(recv_config());
    let bad = packet(Opcode::Write, 1, 0, LAST);
    r.refuse(&bad, Refusal::RemoteAccess).unwrap();
    let send0 = send(0, 0, 0, LAST);
    r.refuse(&send0, Refusal::ReceiverNotReady).unwrap();
    take(&mut r, &DataFields { epoch: 1, ..send0 }, 8);
    assert_eq!(deliveries(&mut r).len(), 1);
    assert!(r.is_ready());
    // The key may be valid by now.
    take(&mut r, &DataFields { epoch: 1, ..bad }, 8);
    assert_eq!(deliveries(&mut r), [Delivery::Write { byte_len: 8 }]);
}

#[test]
fn a_refused_packet_stays_refused_until_its_nak_is_out() {
    let mut r = receiver(recv_config());
    let first = send(0, 0, 0, NONE);
    let second = send(0, 0, 1_024, LAST);
    r.refuse(&first, Refusal::ReceiverNotReady).unwrap();
    assert_eq!(r.on_packet(&second, 8, POSTED), Verdict::Discard);
    assert_eq!(refused(&r, &first, 1_024), Some(Refusal::ReceiverNotReady));
    let nak = r.refuse(&first, Refusal::ReceiverNotReady).unwrap();
    assert_eq!((nak.code, nak.epoch), (NakCode::Rnr, 0));
    // It is history once the requester has moved on.
    take(&mut r, &DataFields { epoch: 1, ..second }, 8);
    assert_eq!(r.on_packet(&first, 1_024, POSTED), Verdict::Discard);
    assert_eq!(r.refuse(&first, Refusal::ReceiverNotReady), None);
}

#[test]
fn a_newer_attempt_replaces_an_older_one() {
    let mut r = receiver(recv_config());
    // Half a Write, then a shorter one: the requester was told NotReady for another packet.
    take(&mut r, &packet(Opcode::Write, 0, 0, NONE), 1_024);
    let newer = DataFields {
        epoch: 1,
        ..packet(Opcode::Write, 0, 0, NONE)
    };
    take(&mut r, &newer, 1_024);
    assert_eq!(
        r.on_packet(&packet(Opcode::Write, 0, 1_024, LAST), 8, POSTED),
        Verdict::Discard
    );
    let end = DataFields {
        epoch: 1,
        ..packet(Opcode::Write, 0, 1_024, LAST)
    };
    take(&mut r, &end, 8);
    assert_eq!(deliveries(&mut r).len(), 1);
}

#[test]
fn a_late_old_refusal_keeps_the_newer_attempt() {
    let mut r = receiver(recv_config());
    let newer = DataFields {
        epoch: 1,
        ..packet(Opcode::Write, 1, 0, LAST)
    };
    take(&mut r, &newer, 8);
    let old = send(0, 0, 0, LAST);
    let nak = r.refuse(&old, Refusal::ReceiverNotReady).unwrap();
    assert_eq!(nak.epoch, 0);
    take(&mut r, &DataFields { epoch: 1, ..old }, 8);
    assert_eq!(deliveries(&mut r).len(), 2);
}

#[test]
fn epochs_wrap() {
    let mut r = receiver(recv_config());
    let f = send(0, 0, 0, LAST);
    for epoch in (0..=u16::MAX).chain(0..3) {
        let f = DataFields { epoch, ..f };
        assert_eq!(
            r.on_packet(&f, 8, Rsn(0)),
            Verdict::Refuse(Refusal::ReceiverNotReady)
        );
        assert_eq!(
            r.refuse(&f, Refusal::ReceiverNotReady).map(|n| n.epoch),
            Some(epoch)
        );
        let old = DataFields {
            epoch: epoch.wrapping_sub(1),
            ..f
        };
        assert_eq!(r.on_packet(&old, 8, POSTED), Verdict::Discard);
    }
}
