// SPDX-License-Identifier: GPL-2.0

use std::vec::Vec;

use super::*;
use crate::packet::{DataFields, NakCode, Opcode, StreamFlags};
use crate::psn::{Msn, Rsn};

const START: Msn = Msn(0xffff_fff0);
const LAST: StreamFlags = StreamFlags::LAST;
const NONE: StreamFlags = StreamFlags(0);

/// Enough receives for everybody.
const POSTED: Rsn = Rsn(1_000);

fn packet(opcode: Opcode, msn: u32, offset: u32, flags: StreamFlags) -> DataFields {
    let request = matches!(
        opcode,
        Opcode::Write | Opcode::WriteImm | Opcode::ReadRequest | Opcode::CmpSwap | Opcode::FetchAdd
    );
    DataFields {
        opcode,
        flags,
        dst_qpn: B,
        src_qpn: A,
        msn: START.add(msn),
        offset,
        va: if request { 0x10_0000 } else { 0 },
        rkey: if request { 9 } else { 0 },
        length: if opcode == Opcode::ReadRequest {
            3_000
        } else {
            0
        },
        ..DataFields::default()
    }
}

fn send(msn: u32, rsn: u32, offset: u32, flags: StreamFlags) -> DataFields {
    DataFields {
        rsn: Rsn(rsn),
        ..packet(Opcode::Send, msn, offset, flags)
    }
}

/// Takes a packet that must be welcome.
fn take(r: &mut Receiver, f: &DataFields, len: u32) -> Target {
    match r.on_packet(f, len, POSTED) {
        Verdict::Place(target) => {
            r.placed(f, len);
            target
        }
        other => panic!("{other:?} for {f:?}"),
    }
}

fn deliveries(r: &mut Receiver) -> Vec<Delivery> {
    core::iter::from_fn(|| r.pop_delivery()).collect()
}

fn refused(r: &Receiver, f: &DataFields, len: u32) -> Option<Refusal> {
    match r.on_packet(f, len, POSTED) {
        Verdict::Refuse(why) => Some(why),
        _ => None,
    }
}

#[test]
fn delivers_in_message_order() {
    let mut r = receiver(recv_config());
    let second = send(1, 0, 0, LAST);
    assert_eq!(
        take(&mut r, &second, 10),
        Target::Recv {
            rsn: Rsn(0),
            offset: 0
        }
    );
    assert_eq!(deliveries(&mut r), []);
    let tail = packet(Opcode::Write, 0, 2_048, LAST);
    let memory = |va, len| Target::Memory(MemoryRange { va, rkey: 9, len });
    assert_eq!(take(&mut r, &tail, 7), memory(0x10_0800, 7));
    let head = packet(Opcode::Write, 0, 0, NONE);
    assert_eq!(take(&mut r, &head, 1_024), memory(0x10_0000, 1_024));
    assert_eq!(deliveries(&mut r), []);
    take(&mut r, &packet(Opcode::Write, 0, 1_024, NONE), 1_024);
    assert_eq!(
        deliveries(&mut r),
        [
            Delivery::Write { byte_len: 2_055 },
            Delivery::Receive(Received {
                rsn: Rsn(0),
                opcode: Opcode::Send,
                byte_len: 10,
                imm: 0,
                invalidate: 0,
                solicited: false,
            })
        ]
    );
    assert_eq!(r.next_rsn(), Rsn(1));
    // They are behind now.
    assert_eq!(r.on_packet(&head, 1_024, POSTED), Verdict::Discard);
    assert_eq!(r.refuse(&head, Refusal::RemoteAccess), None);
}

#[test]
fn empty_messages() {
    let mut r = receiver(recv_config());
    take(&mut r, &send(0, 0, 0, LAST), 0);
    // Without payload there is nothing to check a key for.
    assert_eq!(
        take(&mut r, &packet(Opcode::Write, 1, 0, LAST), 0),
        Target::None
    );
    let read = DataFields {
        length: 0,
        ..packet(Opcode::ReadRequest, 2, 0, LAST)
    };
    assert_eq!(take(&mut r, &read, 0), Target::None);
    assert_eq!(deliveries(&mut r).len(), 2);
    let desc = r.next_response().unwrap();
    assert_eq!((desc.len, desc.flags), (0, LAST));
    assert!(r.commit_response(&desc));
    assert_eq!(r.next_response(), None);
}

#[test]
fn strangers_and_the_window() {
    let mut r = receiver(recv_config());
    let stranger = DataFields {
        src_qpn: Qpn(0x33),
        ..send(0, 0, 0, LAST)
    };
    assert_eq!(refused(&r, &stranger, 8), Some(Refusal::NotReady));
    let nak = r.refuse(&stranger, Refusal::NotReady).unwrap();
    assert_eq!((nak.code, nak.peer_qpn), (NakCode::NotReady, Qpn(0x33)));

    take(&mut r, &packet(Opcode::Write, 127, 0, LAST), 8);
    let beyond = packet(Opcode::Write, 128, 0, LAST);
    assert_eq!(refused(&r, &beyond, 8), Some(Refusal::InvalidRequest));
    assert!(r.refuse(&beyond, Refusal::InvalidRequest).is_some());
    // An earlier life of the QP has numbers elsewhere.
    let old = DataFields {
        msn: Msn(0x1234),
        ..beyond
    };
    assert_eq!(refused(&r, &old, 8), Some(Refusal::InvalidRequest));
    assert!(r.refuse(&old, Refusal::InvalidRequest).is_some());
    let older = DataFields {
        msn: START.sub(1),
        ..beyond
    };
    assert_eq!(r.on_packet(&older, 8, POSTED), Verdict::Discard);

    // None of this has done anything to the stream.
    take(&mut r, &send(0, 0, 0, LAST), 8);
    assert_eq!(deliveries(&mut r).len(), 1);
    assert!(r.is_ready());
    take(&mut r, &packet(Opcode::Write, 128, 0, LAST), 8);
}

#[test]
fn malformed_packets_are_invalid() {
    let r = receiver(recv_config());
    let mut cases = Vec::new();
    for opcode in [Opcode::Send, Opcode::Write] {
        cases.extend([
            // Not the last, and not as long as the MTU.
            (packet(opcode, 0, 0, NONE), 1_023),
            (packet(opcode, 0, 0, NONE), 1_025),
            (packet(opcode, 0, 0, NONE), 0),
            // The last, and longer.
            (packet(opcode, 0, 0, LAST), 1_025),
            // The last, and empty, but not the first.
            (packet(opcode, 0, 1_024, LAST), 0),
            // Not on a boundary.
            (packet(opcode, 0, 1, LAST), 8),
            // Too long a message.
            (packet(opcode, 0, 1 << 31, LAST), 8),
            (packet(opcode, 0, u32::MAX - 1_023, NONE), 1_024),
        ]);
    }
    for opcode in [Opcode::ReadRequest, Opcode::CmpSwap, Opcode::FetchAdd] {
        cases.extend([
            (packet(opcode, 0, 0, LAST), 1),
            (packet(opcode, 0, 1_024, LAST), 0),
            (packet(opcode, 0, 0, NONE), 0),
        ]);
    }
    for opcode in [Opcode::CmpSwap, Opcode::FetchAdd] {
        let crooked = DataFields {
            va: 0x10_0004,
            ..packet(opcode, 0, 0, LAST)
        };
        cases.push((crooked, 0));
    }
    let long = DataFields {
        length: MAX_MSG_LEN + 1,
        ..packet(Opcode::ReadRequest, 0, 0, LAST)
    };
    cases.push((long, 0));
    for opcode in [
        Opcode::Void,
        Opcode::ReadResponse,
        Opcode::AtomicResponse,
        Opcode::Nak,
    ] {
        cases.push((packet(opcode, 0, 0, LAST), 0));
    }
    for (f, len) in cases {
        assert_eq!(
            refused(&r, &f, len),
            Some(Refusal::InvalidRequest),
            "{f:?} with {len}"
        );
    }
}

#[test]
fn addresses_do_not_wrap() {
    let r = receiver(recv_config());
    let write = DataFields {
        va: u64::MAX - 1_024,
        ..packet(Opcode::Write, 0, 1_024, LAST)
    };
    assert_eq!(refused(&r, &write, 8), Some(Refusal::RemoteAccess));
    let write = DataFields {
        va: u64::MAX,
        ..write
    };
    assert_eq!(refused(&r, &write, 8), Some(Refusal::RemoteAccess));
    let read = DataFields {
        va: u64::MAX - 10,
        ..packet(Opcode::ReadRequest, 0, 0, LAST)
    };
    assert_eq!(refused(&r, &read, 0), Some(Refusal::RemoteAccess));
}

#[test]
fn packets_of_a_message_agree() {
    let first = DataFields {
        imm: 5,
        ..packet(Opcode::WriteImm, 0, 0, NONE)
    };
    let second = DataFields {
        offset: 1_024,
        ..first
    };
    let others = [
        DataFields {
            opcode: Opcode::Write,
            ..second
        },
        DataFields { va: 1, ..second },
        DataFields { rkey: 1, ..second },
        DataFields { imm: 1, ..second },
    ];
    let mut r = receiver(recv_config());
    take(&mut r, &first, 1_024);
    for f in &others {
        assert_eq!(
            refused(&r, f, 1_024),
            Some(Refusal::InvalidRequest),
            "{f:?}"
        );
    }
    take(&mut r, &second, 1_024);

    // Another receive.
    let mut r = receiver(recv_config());
    take(&mut r, &send(1, 0, 0, NONE), 1_024);
    let other = send(1, 1, 1_024, NONE);
    assert_eq!(refused(&r, &other, 1_024), Some(Refusal::InvalidRequest));

    // A second end, a packet behind the end, an end before what is known, one packet too many.
    let mut r = receiver(recv_config());
    take(&mut r, &packet(Opcode::Write, 1, 2_048, LAST), 1_024);
    for (f, len) in [
        (packet(Opcode::Write, 1, 2_048, LAST), 1_024),
        (packet(Opcode::Write, 1, 3_072, LAST), 8),
        (packet(Opcode::Write, 1, 3_072, NONE), 1_024),
        (packet(Opcode::Write, 1, 2_048, NONE), 1_024),
        (packet(Opcode::Write, 1, 1_024, LAST), 8),
    ] {
        assert_eq!(refused(&r, &f, len), Some(Refusal::InvalidRequest), "{f:?}");
    }
    take(&mut r, &packet(Opcode::Write, 1, 0, NONE), 1_024);
    take(&mut r, &packet(Opcode::Write, 1, 1_024, NONE), 1_024);
    let again = packet(Opcode::Write, 1, 0, NONE);
    assert_eq!(refused(&r, &again, 1_024), Some(Refusal::InvalidRequest));

    let mut r = receiver(recv_config());
    take(&mut r, &packet(Opcode::Write, 1, 2_048, NONE), 1_024);
    let early_end = packet(Opcode::Write, 1, 1_024, LAST);
    assert_eq!(refused(&r, &early_end, 8), Some(Refusal::InvalidRequest));
}

#[test]
fn access_must_be_enabled() {
    let all = RemoteAccess {
        write: true,
        read: true,
        atomic: true,
        flush: true,
    };
    let cases = [
        (
            Opcode::Write,
            RemoteAccess {
                write: false,
                ..all
            },
        ),
        (
            Opcode::WriteImm,
            RemoteAccess {
                write: false,
                ..all
            },
        ),
        (Opcode::ReadRequest, RemoteAccess { read: false, ..all }),
        (
            Opcode::CmpSwap,
            RemoteAccess {
                atomic: false,
                ..all
            },
        ),
        (
            Opcode::FetchAdd,
            RemoteAccess {
                atomic: false,
                ..all
            },
        ),
        (
            Opcode::AtomicWrite,
            RemoteAccess {
                write: false,
                ..all
            },
        ),
        (
            Opcode::Flush,
            RemoteAccess {
                flush: false,
                ..all
            },
        ),
    ];
    for (opcode, access) in cases {
        let f = packet(opcode, 0, 0, LAST);
        let mut r = receiver(RecvConfig {
            access,
            ..recv_config()
        });
        assert_eq!(refused(&r, &f, 0), Some(Refusal::InvalidRequest));
        r.set_limits(&recv_config());
        assert_eq!(refused(&r, &f, 0), None);
    }
}

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

#[test]
fn immediate_and_key_are_delivered() {
    let mut r = receiver(recv_config());
    let imm = DataFields {
        opcode: Opcode::SendImm,
        imm: 0xaabb,
        flags: LAST.with(StreamFlags::SOLICITED),
        ..send(0, 0, 0, LAST)
    };
    let inv = DataFields {
        opcode: Opcode::SendInv,
        rkey: 0xccdd,
        ..send(1, 1, 0, LAST)
    };
    let write = DataFields {
        rsn: Rsn(2),
        imm: 0xeeff,
        ..packet(Opcode::WriteImm, 2, 0, LAST)
    };
    for f in [imm, inv, write] {
        take(&mut r, &f, 8);
    }
    let received = |rsn, opcode, imm, invalidate, solicited| {
        Delivery::Receive(Received {
            rsn: Rsn(rsn),
            opcode,
            byte_len: 8,
            imm,
            invalidate,
            solicited,
        })
    };
    assert_eq!(
        deliveries(&mut r),
        [
            received(0, Opcode::SendImm, 0xaabb, 0, true),
            received(1, Opcode::SendInv, 0, 0xccdd, false),
            received(2, Opcode::WriteImm, 0xeeff, 0, false),
        ]
    );
}

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

#[test]
fn reads_are_answered_in_pieces() {
    let mut r = receiver(recv_config());
    let read = packet(Opcode::ReadRequest, 0, 0, LAST);
    let range = |va, len| MemoryRange { va, rkey: 9, len };
    assert_eq!(
        take(&mut r, &read, 0),
        Target::ReadFrom(range(0x10_0000, 3_000))
    );
    assert_eq!(r.next_response(), None, "not before its turn");
    assert_eq!(deliveries(&mut r), []);
    let mut descs = Vec::new();
    while let Some(desc) = r.next_response() {
        let packet = r.response_packet(&desc).unwrap();
        assert_eq!(packet.source.va, 0x10_0000 + u64::from(desc.offset));
        assert_eq!(packet.source.len, desc.len);
        assert_eq!(
            (packet.fields.opcode, packet.fields.msn),
            (Opcode::ReadResponse, START)
        );
        assert_eq!((packet.fields.dst_qpn, packet.fields.src_qpn), (A, B));
        assert!(r.commit_response(&desc));
        assert!(!r.commit_response(&desc));
        descs.push(desc);
    }
    let shape: Vec<_> = descs.iter().map(|d| (d.offset, d.len, d.flags)).collect();
    assert_eq!(
        shape,
        [(0, 1_024, NONE), (1_024, 1_024, NONE), (2_048, 952, LAST)]
    );
    for desc in &descs {
        assert!(r.response_packet(desc).is_some());
        r.on_response_acked(desc);
    }
    assert!(r.response_packet(&descs[0]).is_none());
}

#[test]
fn responses_of_an_earlier_life_do_not_count() {
    let mut r = receiver(recv_config());
    let read = DataFields {
        length: 8,
        ..packet(Opcode::ReadRequest, 0, 0, LAST)
    };
    take(&mut r, &read, 0);
    deliveries(&mut r);
    let old = r.next_response().unwrap();
    r.commit_response(&old);
    r.reset(recv_config());
    take(&mut r, &DataFields { epoch: 1, ..read }, 0);
    deliveries(&mut r);
    let new = r.next_response().unwrap();
    r.commit_response(&new);
    assert!(r.response_packet(&old).is_none());
    r.on_response_acked(&old);
    assert!(r.response_packet(&new).is_some());
}

#[test]
fn too_many_reads_are_invalid() {
    let mut r = receiver(RecvConfig {
        max_dest_rd_atomic: 2,
        ..recv_config()
    });
    let read = |msn| DataFields {
        length: 8,
        ..packet(Opcode::ReadRequest, msn, 0, LAST)
    };
    take(&mut r, &read(0), 0);
    take(&mut r, &read(2), 0);
    assert_eq!(refused(&r, &read(1), 0), Some(Refusal::InvalidRequest));
    let atomic = packet(Opcode::FetchAdd, 1, 0, LAST);
    assert_eq!(refused(&r, &atomic, 0), Some(Refusal::InvalidRequest));
    take(&mut r, &packet(Opcode::Write, 1, 0, LAST), 8);
    // Executed, but not answered: still outstanding.
    deliveries(&mut r);
    assert_eq!(refused(&r, &read(3), 0), Some(Refusal::InvalidRequest));
    // Answered: the requester may have it, whether or not we know.
    let desc = r.next_response().unwrap();
    r.commit_response(&desc);
    take(&mut r, &read(3), 0);

    let none = receiver(RecvConfig {
        max_dest_rd_atomic: 0,
        ..recv_config()
    });
    assert_eq!(refused(&none, &read(0), 0), Some(Refusal::InvalidRequest));
}

#[test]
fn a_full_response_ring_holds_everything_behind() {
    let mut r = RecvStream::new(
        std::vec![MsgSlot::default(); 128].into_boxed_slice(),
        std::vec![Response::default(); 1].into_boxed_slice(),
        recv_config(),
    );
    for msn in [0, 1] {
        let read = DataFields {
            length: 8,
            ..packet(Opcode::ReadRequest, msn, 0, LAST)
        };
        take(&mut r, &read, 0);
    }
    take(&mut r, &packet(Opcode::FetchAdd, 2, 0, LAST), 0);
    take(&mut r, &packet(Opcode::Write, 3, 0, LAST), 8);
    for _ in 0..2 {
        assert_eq!(deliveries(&mut r), []);
        let desc = r.next_response().unwrap();
        r.commit_response(&desc);
        assert_eq!(deliveries(&mut r), []);
        assert_eq!(r.next_response(), None);
        r.on_response_acked(&desc);
    }
    assert!(matches!(r.pop_delivery(), Some(Delivery::Atomic { .. })));
    assert_eq!(r.pop_delivery(), None, "not before the atomic is done");
    assert_eq!(r.atomic_result(Ok(42)), None);
    assert_eq!(deliveries(&mut r), [Delivery::Write { byte_len: 8 }]);
    let desc = r.next_response().unwrap();
    assert_eq!((desc.opcode, desc.len), (Opcode::AtomicResponse, 0));
    assert_eq!(r.response_packet(&desc).unwrap().fields.original, 42);
}

#[test]
fn atomics_execute_once() {
    let mut r = receiver(recv_config());
    let f = DataFields {
        compare_add: 3,
        swap: 4,
        ..packet(Opcode::CmpSwap, 0, 0, LAST)
    };
    take(&mut r, &f, 0);
    assert_eq!(
        r.pop_delivery(),
        Some(Delivery::Atomic {
            opcode: Opcode::CmpSwap,
            target: MemoryRange {
                va: 0x10_0000,
                rkey: 9,
                len: 8
            },
            what: 0,
            compare_add: 3,
            swap: 4,
        })
    );
    let newer = DataFields { epoch: 1, ..f };
    assert_eq!(r.on_packet(&newer, 0, POSTED), Verdict::Discard);
    r.atomic_result(Ok(1));
    assert_eq!(r.atomic_result(Ok(1)), None);
    assert_eq!(r.on_packet(&newer, 0, POSTED), Verdict::Discard);
    assert_eq!(deliveries(&mut r), []);
}

#[test]
fn a_failed_atomic_ends_the_stream_after_what_is_owed() {
    let mut r = receiver(recv_config());
    let read = DataFields {
        length: 8,
        ..packet(Opcode::ReadRequest, 0, 0, LAST)
    };
    take(&mut r, &read, 0);
    take(&mut r, &packet(Opcode::FetchAdd, 1, 0, LAST), 0);
    take(&mut r, &packet(Opcode::Write, 2, 0, LAST), 8);
    assert!(matches!(r.pop_delivery(), Some(Delivery::Atomic { .. })));
    let nak = r.atomic_result(Err(Refusal::RemoteAccess)).unwrap();
    assert_eq!((nak.code, nak.msn), (NakCode::RemoteAccess, START.add(1)));
    assert_eq!(deliveries(&mut r), []);
    let desc = r.next_response().unwrap();
    r.commit_response(&desc);
    assert!(r.response_packet(&desc).is_some());
    assert_eq!(deliveries(&mut r), []);
    r.on_response_acked(&desc);
    assert_eq!(
        deliveries(&mut r),
        [Delivery::Failed {
            why: Refusal::RemoteAccess,
            receive: None
        }]
    );
}

#[test]
fn a_flush_and_an_atomic_write_come_in_their_turn() {
    let mut r = receiver(recv_config());
    let flush = DataFields {
        va: 0x10_0003,
        length: 1 << 20,
        imm: 1,
        ..packet(Opcode::Flush, 1, 0, LAST)
    };
    let write = DataFields {
        swap: 77,
        ..packet(Opcode::AtomicWrite, 2, 0, LAST)
    };
    take(&mut r, &write, 0);
    take(&mut r, &flush, 0);
    assert_eq!(deliveries(&mut r), [], "the Write before them is missing");
    take(&mut r, &packet(Opcode::Write, 0, 0, LAST), 8);
    assert_eq!(r.pop_delivery(), Some(Delivery::Write { byte_len: 8 }));
    let Some(Delivery::Atomic {
        opcode: Opcode::Flush,
        target,
        what: 1,
        ..
    }) = r.pop_delivery()
    else {
        panic!("no flush");
    };
    assert_eq!((target.va, target.len), (0x10_0003, 1 << 20));
    assert_eq!(r.pop_delivery(), None, "it is under way");
    assert_eq!(r.atomic_result(Ok(0)), None);
    let Some(Delivery::Atomic {
        opcode: Opcode::AtomicWrite,
        target,
        swap: 77,
        ..
    }) = r.pop_delivery()
    else {
        panic!("no atomic write");
    };
    assert_eq!(target.len, 8);
    assert_eq!(r.atomic_result(Ok(0)), None);
    for msn in 1..3 {
        let desc = r.next_response().unwrap();
        assert_eq!(
            (desc.opcode, desc.msn, desc.len),
            (Opcode::AtomicResponse, START.add(msn), 0)
        );
        r.commit_response(&desc);
    }
    // Only the write must be aligned.
    let odd = DataFields {
        va: 3,
        ..packet(Opcode::AtomicWrite, 3, 0, LAST)
    };
    assert_eq!(refused(&r, &odd, 0), Some(Refusal::InvalidRequest));
}

#[test]
fn memory_can_go_away_under_a_response() {
    let mut r = receiver(recv_config());
    for msn in 0..3 {
        take(&mut r, &packet(Opcode::ReadRequest, msn, 0, LAST), 0);
    }
    take(&mut r, &packet(Opcode::Write, 3, 0, LAST), 8);
    assert_eq!(deliveries(&mut r), [Delivery::Write { byte_len: 8 }]);
    let mut first = Vec::new();
    for _ in 0..4 {
        let desc = r.next_response().unwrap();
        r.commit_response(&desc);
        first.push(desc);
    }
    let nak = r
        .response_failed(START.add(1), Refusal::RemoteAccess)
        .unwrap();
    assert_eq!(nak.msn, START.add(1));
    assert_eq!(r.response_failed(START.add(1), Refusal::RemoteAccess), None);
    assert_eq!(r.next_response(), None);
    // The one before is still owed; the failed one becomes Void.
    assert!(r.response_packet(&first[0]).is_some());
    assert!(r.response_packet(&first[3]).is_none());
    assert_eq!(deliveries(&mut r), []);
    for desc in &first {
        r.on_response_acked(desc);
    }
    assert!(matches!(
        r.pop_delivery(),
        Some(Delivery::Failed {
            why: Refusal::RemoteAccess,
            receive: None
        })
    ));
}

#[test]
fn memory_can_go_away_before_the_last_acknowledgements_of_a_response() {
    let mut r = receiver(recv_config());
    for msn in 0..2 {
        take(&mut r, &packet(Opcode::ReadRequest, msn, 0, LAST), 0);
    }
    assert_eq!(deliveries(&mut r), []);
    let mut sent = Vec::new();
    while let Some(desc) = r.next_response() {
        r.commit_response(&desc);
        sent.push(desc);
    }
    // A packet of the first response is to be sent again, but cannot be built.
    let nak = r.response_gone(START).unwrap();
    assert_eq!((nak.msn, nak.code), (START, NakCode::RemoteAccess));
    assert_eq!(r.response_gone(START), None);
    assert!(r.response_packet(&sent[0]).is_none());
    // The other one is owed as before, and the stream goes on.
    let other = sent.iter().find(|d| d.msn == START.add(1)).unwrap();
    assert!(r.response_packet(other).is_some());
    for desc in &sent {
        r.on_response_acked(desc);
    }
    assert_eq!(deliveries(&mut r), []);
    take(&mut r, &packet(Opcode::Write, 2, 0, LAST), 8);
    assert_eq!(deliveries(&mut r), [Delivery::Write { byte_len: 8 }]);
}

#[test]
fn a_response_can_fail_before_it_is_sent() {
    let mut r = receiver(recv_config());
    for msn in 0..3 {
        take(&mut r, &packet(Opcode::ReadRequest, msn, 0, LAST), 0);
    }
    assert_eq!(deliveries(&mut r), []);
    r.response_failed(START.add(1), Refusal::RemoteAccess)
        .unwrap();
    let mut sent = Vec::new();
    while let Some(desc) = r.next_response() {
        assert_eq!(desc.msn, START);
        r.commit_response(&desc);
        sent.push(desc);
    }
    assert_eq!(sent.len(), 3);
    assert_eq!(deliveries(&mut r), []);
    for desc in &sent {
        r.on_response_acked(desc);
    }
    assert!(matches!(r.pop_delivery(), Some(Delivery::Failed { .. })));
}

#[test]
fn a_stopped_stream_refuses_and_forgets() {
    let mut r = receiver(recv_config());
    take(&mut r, &packet(Opcode::ReadRequest, 0, 0, LAST), 0);
    deliveries(&mut r);
    let desc = r.next_response().unwrap();
    r.commit_response(&desc);
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
fn the_window_moves_on_for_ever() {
    let mut r = receiver(recv_config());
    for msn in (0..1_000u32).step_by(2) {
        take(&mut r, &packet(Opcode::Write, msn + 1, 0, LAST), 8);
        assert_eq!(deliveries(&mut r), []);
        take(&mut r, &send(msn, msn / 2, 0, LAST), 8);
        assert_eq!(deliveries(&mut r).len(), 2);
    }
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

#[test]
fn mtu_can_be_learned_late() {
    let mut r = receiver(recv_config());
    r.set_mtu(2_048);
    take(&mut r, &packet(Opcode::Write, 0, 0, NONE), 2_048);
    take(&mut r, &packet(Opcode::Write, 0, 2_048, LAST), 2_048);
    assert_eq!(deliveries(&mut r), [Delivery::Write { byte_len: 4_096 }]);
}
