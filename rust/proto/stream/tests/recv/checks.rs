// SPDX-License-Identifier: GPL-2.0

//! Packets that no requester in its senses sends.

use super::*;

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
