// SPDX-License-Identifier: GPL-2.0

//! Messages are delivered in their order.

use super::*;

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
fn mtu_can_be_learned_late() {
    let mut r = receiver(recv_config());
    r.set_mtu(2_048);
    take(&mut r, &packet(Opcode::Write, 0, 0, NONE), 2_048);
    take(&mut r, &packet(Opcode::Write, 0, 2_048, LAST), 2_048);
    assert_eq!(deliveries(&mut r), [Delivery::Write { byte_len: 4_096 }]);
}
