// SPDX-License-Identifier: GPL-2.0

//! Atomics, atomic writes and flushes: once, and in their turn.

use super::*;

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
    take(&mut r, &read(0), 0);
    take(&mut r, &packet(Opcode::FetchAdd, 1, 0, LAST), 0);
    take(&mut r, &packet(Opcode::Write, 2, 0, LAST), 8);
    assert!(matches!(r.pop_delivery(), Some(Delivery::Atomic { .. })));
    let nak = r.atomic_result(Err(Refusal::RemoteAccess)).unwrap();
    assert_eq!((nak.code, nak.msn), (NakCode::RemoteAccess, START.add(1)));
    assert_eq!(deliveries(&mut r), []);
    let desc = respond(&mut r);
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
