// SPDX-License-Identifier: GPL-2.0

//! Streams whose peer says anything at all: whatever it is, nothing breaks that belongs to this
//! side.

use std::collections::HashSet;

use proptest::prelude::*;
use proto::packet::{DataFields, NakCode, Opcode, Qpn, StreamFlags, TxDesc};
use proto::psn::{Msn, Rsn};
use proto::stream::{
    Delivery, MsgSlot, RecvConfig, RecvStream, Refusal, RemoteAccess, Response, ResponseTarget,
    SendConfig, SendMsg, SendOp, SendStream, SendWork, Tail, Target, Verdict, WcStatus,
    MAX_MSG_LEN,
};
use proto::time::{Duration, Instant};

const ME: Qpn = Qpn(1);
const PEER: Qpn = Qpn(2);
const MTU: u32 = 256;
const FIRST: u32 = u32::MAX - 3;

fn opcode() -> impl Strategy<Value = Opcode> {
    let all: Vec<_> = (0..=u8::MAX).filter_map(Opcode::from_code).collect();
    prop::sample::select(all)
}

fn code() -> impl Strategy<Value = NakCode> {
    let all: Vec<_> = (0..=u8::MAX).filter_map(NakCode::from_code).collect();
    prop::sample::select(all)
}

/// Mostly numbers that mean something here, at times any.
fn msn() -> impl Strategy<Value = Msn> {
    prop_oneof![
        20 => (0u32..24).prop_map(|n| Msn(FIRST.wrapping_add(n))),
        1 => any::<u32>().prop_map(Msn),
    ]
}

fn epoch() -> impl Strategy<Value = u16> {
    prop_oneof![8 => 0u16..6, 1 => any::<u16>()]
}

fn offset() -> impl Strategy<Value = u32> {
    prop_oneof![8 => (0u32..4).prop_map(|n| n * MTU), 1 => any::<u32>()]
}

fn payload_len() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(MTU), 2 => Just(0u32), 2 => 0..MTU + 2, 1 => any::<u32>()]
}

prop_compose! {
    fn fields()(
        opcode in opcode(),
        last in any::<bool>(),
        src_qpn in prop_oneof![20 => Just(PEER), 1 => Just(Qpn(0)), 1 => Just(Qpn(9))],
        msn in msn(),
        epoch in epoch(),
        offset in offset(),
        va in prop_oneof![4 => Just(0x1000u64), 1 => any::<u64>()],
        rsn in prop_oneof![8 => 0u32..10, 1 => any::<u32>()],
        imm in 0u32..2,
        length in prop_oneof![4 => 0u32..1_000, 1 => any::<u32>()],
        code in code(),
        rnr_timer in any::<u8>(),
    ) -> DataFields {
        DataFields {
            opcode,
            flags: if last { StreamFlags::LAST } else { StreamFlags::default() },
            dst_qpn: ME,
            src_qpn,
            msn,
            epoch,
            offset,
            va,
            rsn: Rsn(rsn),
            imm,
            length,
            code,
            rnr_timer,
            ..DataFields::default()
        }
    }
}

/// What happens to a responder.
#[derive(Clone, Debug)]
enum RecvStep {
    /// A packet, and why it cannot be placed, if it cannot.
    Packet(DataFields, u32, Option<Refusal>),
    PostReceive,
    Deliver(bool),
    SendResponse,
    AckResponse(prop::sample::Index),
    FailResponse(prop::sample::Index),
}

fn recv_step() -> impl Strategy<Value = RecvStep> {
    let refusal = prop_oneof![
        10 => Just(None),
        1 => prop::sample::select(vec![
            Refusal::RemoteAccess,
            Refusal::ReceiveTooShort,
            Refusal::ReceiveProtection,
        ]).prop_map(Some),
    ];
    prop_oneof![
        20 => (fields(), payload_len(), refusal).prop_map(|(f, n, r)| RecvStep::Packet(f, n, r)),
        2 => Just(RecvStep::PostReceive),
        6 => prop::bool::weighted(0.95).prop_map(RecvStep::Deliver),
        4 => Just(RecvStep::SendResponse),
        3 => any::<prop::sample::Index>().prop_map(RecvStep::AckResponse),
        1 => any::<prop::sample::Index>().prop_map(RecvStep::FailResponse),
    ]
}

/// What happens to a requester.
#[derive(Clone, Debug)]
enum SendStep {
    Post(SendWork),
    Send,
    Ack(prop::sample::Index),
    Packet(DataFields, u32),
    Local(bool),
    Time(u64),
    Drain(bool),
    FailMessage(Msn),
    Fail,
}

fn send_step() -> impl Strategy<Value = SendStep> {
    let op = prop::sample::select(vec![
        SendOp::Send,
        SendOp::SendImm,
        SendOp::SendInv,
        SendOp::Write,
        SendOp::WriteImm,
        SendOp::Read,
        SendOp::CmpSwap,
        SendOp::FetchAdd,
        SendOp::AtomicWrite,
        SendOp::Flush,
        SendOp::Local,
    ]);
    let len = prop_oneof![20 => 0u32..1_000, 1 => Just(MAX_MSG_LEN + 1)];
    let work = (op, any::<bool>(), len).prop_map(|(op, fence, len)| SendWork {
        op,
        fence,
        len,
        ..SendWork::default()
    });
    let index = any::<prop::sample::Index>();
    prop_oneof![
        60 => work.prop_map(SendStep::Post),
        120 => Just(SendStep::Send),
        80 => index.prop_map(SendStep::Ack),
        80 => (fields(), payload_len()).prop_map(|(f, n)| SendStep::Packet(f, n)),
        20 => prop::bool::weighted(0.95).prop_map(SendStep::Local),
        20 => (0u64..1_000_000_000).prop_map(SendStep::Time),
        6 => any::<bool>().prop_map(SendStep::Drain),
        1 => msn().prop_map(SendStep::FailMessage),
        1 => Just(SendStep::Fail),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A responder delivers receives one by one, never lets a packet into a receive that is complete
    /// or not posted, nor payload outside a message, and reports one failure, at the end.
    #[test]
    fn responder(
        steps in prop::collection::vec(recv_step(), 1..300),
        last_byte_ordered in any::<bool>(),
    ) {
        let cfg = RecvConfig {
            qpn: ME,
            peer_qpn: PEER,
            mtu: MTU,
            rq_psn: FIRST,
            max_dest_rd_atomic: 2,
            min_rnr_timer: 1,
            access: RemoteAccess { write: true, read: true, atomic: true, flush: true },
            unreliable: false,
            last_byte_ordered,
        };
        let mut r = RecvStream::new(
            vec![MsgSlot::default(); 16],
            vec![Response::default(); 4],
            cfg,
        );
        let mut posted = 0;
        let mut received = 0;
        let mut failed = false;
        let mut sent: Vec<TxDesc> = Vec::new();
        for step in steps {
            match step {
                RecvStep::Packet(f, len, fault) => {
                    match r.on_packet(&f, len, Rsn(posted)) {
                        Verdict::Discard => {}
                        Verdict::Refuse(why) => {
                            if let Some(nak) = r.refuse(&f, why) {
                                prop_assert_eq!(nak.code, why.code());
                                prop_assert_eq!((nak.msn, nak.epoch), (f.msn, f.epoch));
                            }
                        }
                        Verdict::Place(target) => {
                            prop_assert!(!failed);
                            prop_assert_eq!(f.src_qpn, PEER);
                            prop_assert!(len <= MTU);
                            match target {
                                Target::Recv { rsn, offset } => {
                                    prop_assert!(rsn.0 >= received && rsn.0 < posted);
                                    prop_assert!(offset + len <= MAX_MSG_LEN);
                                }
                                Target::Memory(range) | Target::Ordered(range) => {
                                    prop_assert!(range.len == len && len != 0);
                                    prop_assert!(range.va.checked_add(len.into()).is_some());
                                }
                                Target::ReadFrom(range) => {
                                    prop_assert!(range.va.checked_add(range.len.into()).is_some());
                                }
                                Target::None => prop_assert_eq!(len, 0),
                            }
                            match fault {
                                None => {
                                    r.placed(&f, len);
                                    if let Target::Ordered(_) = target {
                                        prop_assert!(last_byte_ordered);
                                        r.hold(&f, &Tail::new(&[1; Tail::MAX][..Tail::len_of(len)]));
                                    }
                                }
                                Some(why) => prop_assert!(r.refuse(&f, why).is_some()),
                            }
                        }
                    }
                }
                RecvStep::PostReceive => posted += 1,
                RecvStep::Deliver(atomic_works) => {
                    while let Some(delivery) = r.pop_delivery() {
                        prop_assert!(!failed);
                        match delivery {
                            Delivery::Receive(x) => {
                                prop_assert_eq!(x.rsn, Rsn(received));
                                prop_assert!(received < posted);
                                received += 1;
                            }
                            Delivery::Atomic { opcode, target, .. } => {
                                prop_assert!(opcode == Opcode::Flush || target.va % 8 == 0);
                                let result = if atomic_works {
                                    Ok(1)
                                } else {
                                    Err(Refusal::RemoteAccess)
                                };
                                let nak = r.atomic_result(result);
                                prop_assert_eq!(nak.is_some(), !atomic_works);
                            }
                            Delivery::Failed { .. } => failed = true,
                            Delivery::Tail { target, tail } => {
                                prop_assert_eq!(tail.bytes().len(), target.len as usize);
                                prop_assert!(target.va.checked_add(target.len.into()).is_some());
                            }
                            Delivery::Write { .. } => {}
                        }
                    }
                    prop_assert_eq!(r.next_rsn(), Rsn(received));
                    prop_assert_eq!(r.is_ready(), !failed);
                }
                RecvStep::SendResponse => {
                    if let Some(desc) = r.next_response() {
                        prop_assert!(desc.len <= MTU);
                        prop_assert!(r.response_packet(&desc).is_some());
                        prop_assert!(r.commit_response(&desc));
                        sent.push(desc);
                    }
                }
                RecvStep::AckResponse(i) => {
                    if !sent.is_empty() {
                        let desc = sent.swap_remove(i.index(sent.len()));
                        let _ = r.response_packet(&desc);
                        r.on_response_acked(&desc);
                    }
                }
                RecvStep::FailResponse(i) => {
                    if !sent.is_empty() {
                        let msn = sent[i.index(sent.len())].msn;
                        r.response_failed(msn, Refusal::RemoteAccess);
                    }
                }
            }
        }
    }

    /// A requester completes every work request once, in order, successes before the one failure and
    /// flushes behind it, and never lets a response outside its buffers.
    #[test]
    fn requester(steps in prop::collection::vec(send_step(), 1..400)) {
        let cfg = SendConfig {
            qpn: ME,
            peer_qpn: PEER,
            mtu: MTU,
            sq_psn: FIRST,
            max_rd_atomic: 2,
            retry_cnt: 3,
            rnr_retry: 3,
            ack_timeout: 14,
            unreliable: false,
        };
        let mut s = SendStream::new(vec![SendMsg::default(); 16], cfg);
        let mut now = Instant(1);
        let mut posted: Vec<SendWork> = Vec::new();
        let mut completed = 0;
        let mut failed = false;
        let mut sent: Vec<TxDesc> = Vec::new();
        let mut locals = HashSet::new();
        for step in steps {
            match step {
                SendStep::Post(work) => {
                    let work = SendWork { cookie: posted.len() as u32, ..work };
                    let room = s.can_post();
                    prop_assert_eq!(room, posted.len() - completed < 16);
                    prop_assert_eq!(s.post(now, &work).is_ok(), room);
                    if room {
                        posted.push(work);
                    }
                }
                SendStep::Send => {
                    if let Some(desc) = s.next_segment(now) {
                        let packet = s.packet(&desc);
                        let packet = packet.expect("the next packet can be built");
                        let work = &posted[packet.cookie as usize];
                        prop_assert!(packet.cookie as usize >= completed);
                        if !work.op.has_response() {
                            prop_assert!(packet.offset + packet.len <= work.len);
                        }
                        prop_assert!(s.commit(now, &desc));
                        sent.push(desc);
                    }
                }
                SendStep::Ack(i) => {
                    if !sent.is_empty() {
                        let desc = sent.swap_remove(i.index(sent.len()));
                        let _ = s.packet(&desc);
                        s.on_acked(now, &desc);
                    }
                }
                SendStep::Packet(f, len) => {
                    s.on_nak(now, &f);
                    match s.on_response(&f, len) {
                        ResponseTarget::Place { cookie, offset } => {
                            let work = &posted[cookie as usize];
                            prop_assert!(cookie as usize >= completed);
                            prop_assert_eq!(work.op, SendOp::Read);
                            prop_assert!(u64::from(offset) + u64::from(len) <= work.len.into());
                            s.response_placed(now, &f);
                        }
                        ResponseTarget::Atomic { cookie, .. } => {
                            prop_assert!(posted[cookie as usize].op.is_atomic());
                            s.response_placed(now, &f);
                        }
                        ResponseTarget::Nothing => {
                            s.response_placed(now, &f);
                        }
                        ResponseTarget::Ignore | ResponseTarget::Mismatch(_) => {}
                    }
                }
                SendStep::Local(works) => {
                    if let Some(cookie) = s.next_local() {
                        prop_assert_eq!(posted[cookie as usize].op, SendOp::Local);
                        prop_assert!(locals.insert(cookie), "executed twice");
                        prop_assert_eq!(s.next_segment(now), None);
                        s.local_done(now, if works { Ok(()) } else { Err(WcStatus::MwBind) });
                    }
                }
                SendStep::Time(ns) => {
                    now = now.after(Duration(ns));
                    s.on_timeout(now, Instant(0));
                }
                SendStep::Drain(on) => s.set_draining(on),
                SendStep::FailMessage(msn) => s.fail_message(msn, WcStatus::LocalProtection),
                SendStep::Fail => s.fail(WcStatus::Flushed),
            }
            while let Some(c) = s.pop_completed() {
                prop_assert_eq!(c.cookie as usize, completed);
                let work = &posted[completed];
                prop_assert_eq!(c.op, work.op);
                completed += 1;
                if failed {
                    prop_assert_eq!(c.status, WcStatus::Flushed);
                } else if c.status == WcStatus::Success {
                    let done = work.op != SendOp::Local || locals.contains(&c.cookie);
                    prop_assert!(done, "complete before it was executed");
                } else {
                    failed = true;
                }
            }
            prop_assert_eq!(s.is_empty(), completed == posted.len());
            if failed {
                prop_assert!(s.is_flushing() && s.next_segment(now).is_none());
            }
        }
        // Whatever the peer did, the application gets everything back.
        s.fail(WcStatus::Flushed);
        while s.pop_completed().is_some() {
            completed += 1;
        }
        prop_assert_eq!(completed, posted.len());
        prop_assert!(s.is_empty());
    }
}
