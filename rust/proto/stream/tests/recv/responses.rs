// SPDX-License-Identifier: GPL-2.0

//! Reads and what is sent in answer.

use super::*;

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
    let read = read(0);
    take(&mut r, &read, 0);
    deliveries(&mut r);
    let old = respond(&mut r);
    r.reset(recv_config());
    take(&mut r, &DataFields { epoch: 1, ..read }, 0);
    deliveries(&mut r);
    let new = respond(&mut r);
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
    respond(&mut r);
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
        take(&mut r, &read(msn), 0);
    }
    take(&mut r, &packet(Opcode::FetchAdd, 2, 0, LAST), 0);
    take(&mut r, &packet(Opcode::Write, 3, 0, LAST), 8);
    for _ in 0..2 {
        assert_eq!(deliveries(&mut r), []);
        let desc = respond(&mut r);
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
fn memory_can_go_away_under_a_response() {
    let mut r = receiver(recv_config());
    for msn in 0..3 {
        take(&mut r, &packet(Opcode::ReadRequest, msn, 0, LAST), 0);
    }
    take(&mut r, &packet(Opcode::Write, 3, 0, LAST), 8);
    assert_eq!(deliveries(&mut r), [Delivery::Write { byte_len: 8 }]);
    let mut first = Vec::new();
    for _ in 0..4 {
        let desc = respond(&mut r);
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
