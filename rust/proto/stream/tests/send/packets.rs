// SPDX-License-Identifier: GPL-2.0

//! How messages become packets.

use super::*;

#[test]
fn segments_by_mtu() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 2_500, 1)).unwrap();
    s.post(T0, &work(SendOp::Send, 0, 2)).unwrap();
    let sent = pump(&mut s, T0);
    let shape: Vec<_> = sent
        .iter()
        .map(|d| (d.msn, d.offset, d.len, d.flags.has(StreamFlags::LAST)))
        .collect();
    assert_eq!(
        shape,
        [
            (START, 0, 1024, false),
            (START, 1024, 1024, false),
            (START, 2048, 452, true),
            (START.add(1), 0, 0, true)
        ]
    );
    // Any order of acknowledgement, completions in order.
    ack_all(&mut s, T0, &sent[3..]);
    assert_eq!(completed(&mut s), []);
    ack_all(&mut s, T0, &[sent[2], sent[0]]);
    assert_eq!(completed(&mut s), []);
    ack_all(&mut s, T0, &sent[1..2]);
    assert_eq!(
        completed(&mut s),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );
    assert!(s.is_empty());
    assert_eq!(s.poll_timeout(), None);
}

#[test]
fn exact_multiple_of_mtu_has_no_empty_packet() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 2_048, 1)).unwrap();
    let sent = pump(&mut s, T0);
    assert_eq!(sent.len(), 2);
    assert!(sent[1].flags.has(StreamFlags::LAST));
}

#[test]
fn peek_without_commit_changes_nothing() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 2_048, 1)).unwrap();
    let first = s.next_segment(T0).unwrap();
    assert_eq!(s.next_segment(T0), Some(first));
    assert!(s.commit(T0, &first));
    assert!(!s.commit(T0, &first), "a packet is taken once");
    assert_eq!(s.next_segment(T0).unwrap().offset, 1024);
}

#[test]
fn fields_carry_what_the_opcode_needs() {
    let mut s = sender(send_config());
    let ops = [
        SendOp::Send,
        SendOp::SendImm,
        SendOp::SendInv,
        SendOp::Write,
        SendOp::WriteImm,
        SendOp::Read,
        SendOp::CmpSwap,
        SendOp::FetchAdd,
    ];
    for (i, op) in ops.iter().enumerate() {
        let w = SendWork {
            imm_or_inv: 0xabcd,
            compare_add: 11,
            swap: 12,
            solicited: true,
            ..work(*op, 8, u32::try_from(i).unwrap())
        };
        s.post(T0, &w).unwrap();
    }
    let fields: Vec<_> = pump(&mut s, T0)
        .iter()
        .map(|d| s.packet(d).unwrap().fields)
        .collect();
    assert!(fields
        .iter()
        .all(|f| f.dst_qpn == B && f.src_qpn == A && f.flags.has(StreamFlags::SOLICITED)));
    let rsns: Vec<_> = fields.iter().map(|f| f.rsn).collect();
    // Receives are numbered over the messages that consume one.
    assert_eq!(rsns[..3], [Rsn(0), Rsn(1), Rsn(2)]);
    assert_eq!(rsns[4], Rsn(3));
    assert_eq!((fields[1].imm, fields[1].rkey), (0xabcd, 0));
    assert_eq!((fields[2].imm, fields[2].rkey), (0, 0xabcd));
    assert_eq!((fields[3].va, fields[3].rkey), (0x1_0000, 7));
    assert_eq!((fields[4].imm, fields[4].rkey), (0xabcd, 7));
    assert_eq!((fields[5].length, fields[5].va), (8, 0x1_0000));
    assert_eq!((fields[6].compare_add, fields[6].swap), (11, 12));
    assert_eq!(fields[7].opcode, Opcode::FetchAdd);
}

#[test]
fn mtu_can_be_learned_before_the_first_packet() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 1_000, 1)).unwrap();
    assert!(s.set_mtu(512));
    assert_eq!(pump(&mut s, T0).len(), 2);
    assert!(!s.set_mtu(256));
    assert!(s.set_mtu(512));
    s.reset(SendConfig {
        mtu: 256,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Write, 1_000, 1)).unwrap();
    assert_eq!(pump(&mut s, T0).len(), 4);
}

#[test]
fn the_longest_message_is_allowed() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, MAX_MSG_LEN, 1)).unwrap();
    assert_eq!(s.next_segment(T0).map(|d| d.len), Some(1_024));
}
