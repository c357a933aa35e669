// SPDX-License-Identifier: GPL-2.0

//! Which receive a message takes, and when there must be one.

use super::*;

#[test]
fn a_send_needs_its_receive() {
    let mut r = receiver(RecvConfig {
        min_rnr_timer: 12,
        ..recv_config()
    });
    let f = send(0, 0, 0, LAST);
    assert_eq!(
        r.on_packet(&f, 8, Rsn(0)),
        Verdict::Refuse(Refusal::ReceiverNotReady)
    );
    let nak = r.refuse(&f, Refusal::ReceiverNotReady).unwrap();
    assert_eq!((nak.code, nak.timer), (NakCode::Rnr, 12));
    assert_eq!((nak.msn, nak.epoch), (START, 0));
    assert_eq!((nak.qpn, nak.peer_qpn), (B, A));
    let later = send(1, 1, 0, LAST);
    assert_eq!(r.on_packet(&later, 8, Rsn(0)), Verdict::Discard);
    // The next attempt.
    let again = DataFields { epoch: 1, ..f };
    take(&mut r, &again, 8);
    assert_eq!(deliveries(&mut r).len(), 1);
}

#[test]
fn a_write_with_immediate_needs_it_at_the_end() {
    let r = receiver(recv_config());
    let first = packet(Opcode::WriteImm, 0, 0, NONE);
    assert!(matches!(
        r.on_packet(&first, 1_024, Rsn(0)),
        Verdict::Place(Target::Memory(_))
    ));
    let last = packet(Opcode::WriteImm, 0, 1_024, LAST);
    assert_eq!(
        r.on_packet(&last, 8, Rsn(0)),
        Verdict::Refuse(Refusal::ReceiverNotReady)
    );
    assert!(matches!(r.on_packet(&last, 8, Rsn(1)), Verdict::Place(_)));
}

#[test]
fn receive_numbers_are_plausible() {
    let mut r = receiver(recv_config());
    // Message 0 can only consume receive 0.
    assert_eq!(
        refused(&r, &send(0, 1, 0, LAST), 8),
        Some(Refusal::InvalidRequest)
    );
    take(&mut r, &send(3, 3, 0, LAST), 8);
    take(&mut r, &send(0, 0, 0, LAST), 8);
    assert_eq!(deliveries(&mut r).len(), 1);
    // A receive that is complete is nobody's target any more.
    assert_eq!(
        refused(&r, &send(1, 0, 0, LAST), 8),
        Some(Refusal::InvalidRequest)
    );
    // Skipping one is found out at the latest in order.
    take(&mut r, &packet(Opcode::Write, 1, 0, LAST), 8);
    take(&mut r, &packet(Opcode::Write, 2, 0, LAST), 8);
    assert_eq!(
        deliveries(&mut r),
        [
            Delivery::Write { byte_len: 8 },
            Delivery::Write { byte_len: 8 },
            Delivery::Failed {
                why: Refusal::InvalidRequest,
                receive: None
            }
        ]
    );
    assert!(!r.is_ready());
}
