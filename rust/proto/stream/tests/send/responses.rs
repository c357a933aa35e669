// SPDX-License-Identifier: GPL-2.0

//! Answers to reads, atomics and flushes.

use super::*;

#[test]
fn a_flush_takes_one_packet_and_one_answer_whatever_it_covers() {
    let mut s = sender(send_config());
    s.post(
        T0,
        &SendWork {
            va: 0x1003,
            imm_or_inv: 0x101,
            ..work(SendOp::Flush, 1 << 20, 1)
        },
    )
    .unwrap();
    s.post(
        T0,
        &SendWork {
            swap: 9,
            ..work(SendOp::AtomicWrite, 0, 2)
        },
    )
    .unwrap();
    let sent = pump(&mut s, T0);
    assert_eq!(sent.len(), 2);
    let f = s.packet(&sent[0]).unwrap().fields;
    assert_eq!(
        (f.opcode, f.length, f.imm, f.va),
        (Opcode::Flush, 1 << 20, 0x101, 0x1003)
    );
    let f = s.packet(&sent[1]).unwrap().fields;
    assert_eq!((f.opcode, f.swap), (Opcode::AtomicWrite, 9));
    ack_all(&mut s, T0, &sent);
    assert_eq!(completed(&mut s), [], "the answers count");
    for msn in 0..2 {
        let answer = DataFields {
            opcode: Opcode::AtomicResponse,
            flags: StreamFlags::LAST,
            src_qpn: send_config().peer_qpn,
            msn: START.add(msn),
            ..DataFields::default()
        };
        assert_eq!(s.on_response(&answer, 0), ResponseTarget::Nothing);
        s.response_placed(T0, &answer);
        s.assert_invariants();
    }
    assert_eq!(completed(&mut s).len(), 2);
}

#[test]
fn responses_are_checked() {
    let response = |offset: u32, last: bool| DataFields {
        opcode: Opcode::ReadResponse,
        flags: if last {
            StreamFlags::LAST
        } else {
            StreamFlags::default()
        },
        dst_qpn: A,
        src_qpn: B,
        msn: START,
        offset,
        ..DataFields::default()
    };
    let fresh = || {
        let mut s = sender(send_config());
        s.post(T0, &work(SendOp::Read, 2_500, 1)).unwrap();
        pump(&mut s, T0);
        s
    };
    // (offset, last, length, status)
    let bad = [
        (2048, true, 453, WcStatus::LocalLength),
        (3072, true, 0, WcStatus::LocalLength),
        (u32::MAX, true, 1, WcStatus::LocalLength),
        (2048, true, 451, WcStatus::BadResponse),
        (0, false, 1023, WcStatus::BadResponse),
        (0, true, 1024, WcStatus::BadResponse),
        (1, false, 1024, WcStatus::BadResponse),
        (2048, false, 452, WcStatus::BadResponse),
    ];
    for (offset, last, len, status) in bad {
        let mut s = fresh();
        assert_eq!(
            s.on_response(&response(offset, last), len),
            ResponseTarget::Mismatch(status),
            "{offset} {last} {len}"
        );
        assert_eq!(completed(&mut s), [(1, status)]);
    }
    let mut s = fresh();
    let atomic = DataFields {
        opcode: Opcode::AtomicResponse,
        ..response(0, true)
    };
    assert_eq!(
        s.on_response(&atomic, 0),
        ResponseTarget::Mismatch(WcStatus::BadResponse)
    );

    let mut s = fresh();
    for (offset, last, len) in [(2048, true, 452), (0, false, 1024), (1024, false, 1024)] {
        let f = response(offset, last);
        assert_eq!(completed(&mut s), []);
        assert_eq!(
            s.on_response(&f, len),
            ResponseTarget::Place { cookie: 1, offset }
        );
        s.response_placed(T0, &f);
    }
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
    assert_eq!(
        s.on_response(&response(0, false), 1024),
        ResponseTarget::Ignore
    );
    // Nothing was asked for yet.
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Read, 2_500, 1)).unwrap();
    assert_eq!(
        s.on_response(&response(0, false), 1024),
        ResponseTarget::Ignore
    );
}
