// SPDX-License-Identifier: GPL-2.0

//! Failures come in their turn, and end the stream.

use super::*;

#[test]
fn failures_come_in_message_order() {
    let cases = [
        (Refusal::ReceiveTooShort, NakCode::InvalidRequest, 1),
        (Refusal::ReceiveProtection, NakCode::RemoteOperation, 4),
    ];
    for (why, code, ib) in cases {
        let mut r = receiver(recv_config());
        let bad = send(1, 1, 0, LAST);
        let nak = r.refuse(&bad, why).unwrap();
        assert_eq!((nak.code, nak.timer), (code, 0));
        assert_eq!(deliveries(&mut r), []);
        assert_eq!(
            r.on_packet(&send(2, 2, 0, LAST), 8, POSTED),
            Verdict::Discard
        );
        take(&mut r, &send(0, 0, 0, LAST), 8);
        let done = deliveries(&mut r);
        assert_eq!(done.len(), 2);
        let Delivery::Failed {
            why: reported,
            receive: Some((rsn, status)),
        } = done[1]
        else {
            panic!("{done:?}");
        };
        assert_eq!((reported, rsn, status.to_ib()), (why, Rsn(1), ib));
        assert!(!r.is_ready());
        assert_eq!(deliveries(&mut r), []);
        // Whoever did not understand is told again; what comes later is of no interest.
        let again = DataFields { epoch: 1, ..bad };
        assert_eq!(refused(&r, &again, 8), Some(why));
        let later = DataFields {
            epoch: 1,
            ..send(2, 2, 0, LAST)
        };
        assert_eq!(r.on_packet(&later, 8, POSTED), Verdict::Discard);
    }
}

#[test]
fn an_earlier_failure_wins() {
    let mut r = receiver(recv_config());
    let bad = |msn| packet(Opcode::Write, msn, 0, LAST);
    r.refuse(&bad(2), Refusal::RemoteAccess).unwrap();
    r.refuse(&bad(1), Refusal::InvalidRequest).unwrap();
    take(&mut r, &bad(0), 8);
    assert_eq!(
        deliveries(&mut r),
        [
            Delivery::Write { byte_len: 8 },
            Delivery::Failed {
                why: Refusal::InvalidRequest,
                receive: None
            }
        ]
    );
}

#[test]
fn a_stopped_stream_refuses_and_forgets() {
    let mut r = receiver(recv_config());
    take(&mut r, &packet(Opcode::ReadRequest, 0, 0, LAST), 0);
    deliveries(&mut r);
    let desc = respond(&mut r);
    r.stop();
    assert!(r.response_packet(&desc).is_none());
    assert_eq!(r.next_response(), None);
    let f = packet(Opcode::Write, 1, 0, LAST);
    assert_eq!(refused(&r, &f, 8), Some(Refusal::NotReady));
    let nak = r.refuse(&f, Refusal::NotReady).unwrap();
    assert_eq!(nak, Nak::not_ready(&f));

    r.reset(recv_config());
    r.on_response_acked(&desc);
    assert!(r.is_ready());
    take(&mut r, &packet(Opcode::Write, 0, 0, LAST), 8);
    assert_eq!(deliveries(&mut r).len(), 1);
}

#[test]
fn naks_survive_their_descriptor() {
    for code in [
        NakCode::Rnr,
        NakCode::NotReady,
        NakCode::InvalidRequest,
        NakCode::RemoteAccess,
        NakCode::RemoteOperation,
    ] {
        let nak = Nak {
            code,
            timer: 17,
            msn: Msn(5),
            epoch: 6,
            qpn: B,
            peer_qpn: A,
        };
        let f = Nak::fields(&nak.to_desc()).unwrap();
        assert_eq!((f.opcode, f.code, f.rnr_timer), (Opcode::Nak, code, 17));
        assert_eq!((f.msn, f.epoch), (Msn(5), 6));
        assert_eq!((f.dst_qpn, f.src_qpn), (A, B));
    }
    assert_eq!(Nak::fields(&crate::packet::TxDesc::default()), None);
}
