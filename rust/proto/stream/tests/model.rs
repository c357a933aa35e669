// SPDX-License-Identifier: GPL-2.0

//! Both halves over a network that delivers every packet once, in any order, whenever it likes, with
//! a model beside them that knows what each message must do.

use std::collections::{HashMap, HashSet};
use std::vec::Vec;

use super::*;
use crate::packet::{DataFields, NakCode, Opcode, StreamFlags, TxDesc};
use crate::psn::{Msn, Rsn};
use crate::time::{Duration, Instant};

const MTU: u32 = 1024;

/// A small deterministic generator (xorshift64*).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let x = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from((x * u64::from(n)) >> 32).unwrap()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u32::try_from(len).unwrap())).unwrap()
    }
}

/// What goes wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The work request is invalid at the requester.
    Local,
    /// The remote key is not valid.
    Key,
    /// The key of a Read becomes invalid while the response is sent.
    KeyLater,
    /// The receive is too short.
    Short,
}

#[derive(Clone, Copy, Debug)]
struct Spec {
    op: SendOp,
    len: u32,
    fence: bool,
    fault: Option<Fault>,
    msn: Msn,
    rsn: Option<Rsn>,
}

impl Spec {
    fn packets(&self) -> u32 {
        self.len.div_ceil(MTU).max(1)
    }

    fn failure(&self) -> Option<WcStatus> {
        Some(match self.fault? {
            Fault::Local => WcStatus::LocalProtection,
            Fault::Key | Fault::KeyLater => WcStatus::RemoteAccess,
            Fault::Short => WcStatus::RemoteInvalidRequest,
        })
    }
}

/// What is on its way.
#[derive(Clone, Copy, Debug)]
enum Item {
    Request(TxDesc, Option<RequestPacket>),
    RequestAck(TxDesc),
    Response(TxDesc, Option<ResponsePacket>),
    ResponseAck(TxDesc),
    /// A NAK and the packet held for it.
    Nak(DataFields, Option<TxDesc>),
    NakAck(TxDesc),
}

/// How a run is set up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub messages: u32,
    pub max_rd_atomic: u32,
    pub responses: usize,
    pub rnr_retry: u8,
    /// Percentage of messages with a fault.
    pub faults: u32,
    /// Request packets that find no connected QP.
    pub not_ready: u32,
    /// Percentage of steps in which a receive is posted.
    pub receives: u32,
    /// Percentage of deliveries that take the oldest packet.
    pub in_order: u32,
    /// Longest message in packets.
    pub packets: u32,
    /// Percentage of NAKs for which there is no room.
    pub naks_dropped: u32,
    /// Whether the last bytes of Writes come last.
    pub last_byte_ordered: bool,
}

struct Sim {
    rng: Rng,
    setup: Setup,
    now: Instant,
    a: Sender,
    b: Receiver,
    net: Vec<Item>,
    specs: Vec<Spec>,
    by_msn: HashMap<Msn, usize>,
    // Requester.
    posted: usize,
    completed: usize,
    failed: bool,
    response_placed: HashMap<(usize, u32), u32>,
    // Responder.
    refused_early: u32,
    recv_posted: u32,
    placed: HashMap<(usize, u32), u32>,
    /// Messages before this are delivered or are Reads that have been executed.
    delivered: usize,
    received: u32,
    /// Writes whose last bytes are in memory.
    ended: HashSet<usize>,
    atomic_originals: HashMap<usize, u64>,
    counter: u64,
    rnr_refusals: HashMap<usize, u32>,
    responder_failed: bool,
    broken_read: bool,
    seen: Seen,
}

impl Sim {
    fn new(seed: u64, setup: Setup) -> Self {
        let mut rng = Rng(seed.wrapping_mul(2).wrapping_add(1));
        let first = Msn(rng.below(1 << 24));
        // Now and then start just before a wrap.
        let first = if rng.chance(30) {
            Msn(u32::MAX - 5)
        } else {
            first
        };
        let mut msn = first;
        let mut rsn = Rsn(0);
        let mut specs = Vec::new();
        let mut by_msn = HashMap::new();
        for i in 0..setup.messages {
            let op = [
                SendOp::Send,
                SendOp::SendImm,
                SendOp::SendInv,
                SendOp::Write,
                SendOp::Write,
                SendOp::WriteImm,
                SendOp::Read,
                SendOp::CmpSwap,
                SendOp::FetchAdd,
                SendOp::Local,
            ][rng.index(10)];
            let len = match rng.below(4) {
                0 => 0,
                1 => 1 + rng.below(MTU),
                2 => MTU * (1 + rng.below(setup.packets)),
                _ => rng.below(MTU * setup.packets),
            };
            let len = match op {
                SendOp::CmpSwap | SendOp::FetchAdd => 8,
                SendOp::Local => 0,
                _ => len,
            };
            let fault = rng.chance(setup.faults).then(|| match op {
                SendOp::Local => Fault::Local,
                SendOp::Send | SendOp::SendImm | SendOp::SendInv if len > 0 => {
                    [Fault::Local, Fault::Short][rng.index(2)]
                }
                SendOp::Write | SendOp::WriteImm if len > 0 => {
                    [Fault::Local, Fault::Key][rng.index(2)]
                }
                SendOp::Read if len > 0 => [Fault::Key, Fault::KeyLater][rng.index(2)],
                SendOp::CmpSwap | SendOp::FetchAdd => Fault::Key,
                _ => Fault::Local,
            });
            let spec = Spec {
                op,
                len,
                fence: rng.chance(10),
                fault,
                msn,
                rsn: op.consumes_receive().then_some(rsn),
            };
            if op.consumes_receive() {
                rsn = rsn.add(1);
            }
            if op != SendOp::Local {
                by_msn.insert(msn, usize::try_from(i).unwrap());
                msn = msn.add(1);
            }
            specs.push(spec);
        }
        let a = sender(SendConfig {
            mtu: MTU,
            sq_psn: first.0,
            max_rd_atomic: setup.max_rd_atomic,
            rnr_retry: setup.rnr_retry,
            ack_timeout: 0,
            ..send_config()
        });
        let b = RecvStream::new(
            std::vec![MsgSlot::default(); 128].into(),
            std::vec![Response::default(); setup.responses].into(),
            RecvConfig {
                mtu: MTU,
                rq_psn: first.0,
                max_dest_rd_atomic: setup.max_rd_atomic,
                last_byte_ordered: setup.last_byte_ordered,
                ..recv_config()
            },
        );
        Sim {
            rng,
            setup,
            now: Instant(1),
            a,
            b,
            net: Vec::new(),
            specs,
            by_msn,
            posted: 0,
            completed: 0,
            failed: false,
            response_placed: HashMap::new(),
            refused_early: 0,
            recv_posted: 0,
            placed: HashMap::new(),
            delivered: 0,
            received: 0,
            ended: HashSet::new(),
            atomic_originals: HashMap::new(),
            counter: 0,
            rnr_refusals: HashMap::new(),
            responder_failed: false,
            broken_read: false,
            seen: Seen::default(),
        }
    }

    fn spec(&self, msn: Msn) -> (usize, Spec) {
        let i = self.by_msn[&msn];
        (i, self.specs[i])
    }

    /// The message that must fail, unless a finite RNR retry count gets in the way.
    fn first_fault(&self) -> Option<usize> {
        self.specs.iter().position(|s| s.fault.is_some())
    }

    fn post(&mut self) -> bool {
        let Some(spec) = self.specs.get(self.posted).copied() else {
            return false;
        };
        if !self.a.can_post() {
            return false;
        }
        let work = SendWork {
            op: spec.op,
            fence: spec.fence,
            after_all: false,
            solicited: false,
            len: spec.len,
            va: 0x1000,
            rkey: spec.msn.0,
            imm_or_inv: !spec.msn.0,
            compare_add: 1,
            swap: 0,
            cookie: u32::try_from(self.posted).unwrap(),
        };
        if spec.fault == Some(Fault::Local) {
            let status = WcStatus::LocalProtection;
            self.a.post_broken(self.now, &work, status).unwrap();
        } else {
            self.a.post(self.now, &work).unwrap();
        }
        self.posted += 1;
        true
    }

    fn send_request(&mut self) -> bool {
        if let Some(cookie) = self.a.next_local() {
            let spec = self.specs[usize::try_from(cookie).unwrap()];
            assert_eq!(spec.op, SendOp::Local);
            self.a.local_done(self.now, Ok(()));
            return true;
        }
        let Some(desc) = self.a.next_segment(self.now) else {
            return false;
        };
        let packet = self.a.packet(&desc).expect("new packet");
        if self.rng.chance(10) {
            // No path had room after all.
            return true;
        }
        assert!(self.a.commit(self.now, &desc));
        assert_eq!(self.a.packet(&desc), Some(packet));
        self.net.push(Item::Request(desc, Some(packet)));
        true
    }

    fn send_response(&mut self) -> bool {
        let Some(desc) = self.b.next_response() else {
            return false;
        };
        let (i, spec) = self.spec(desc.msn);
        assert!(spec.op.has_response());
        assert!(
            self.specs[..i]
                .iter()
                .enumerate()
                .all(|(k, s)| k < self.delivered || matches!(s.op, SendOp::Read | SendOp::Local)),
            "executed before earlier messages were complete"
        );
        let packet = self.b.response_packet(&desc).expect("new response");
        if spec.fault == Some(Fault::KeyLater) && (self.rng.chance(50) || desc_is_last(&desc)) {
            self.break_read(desc.msn);
            return true;
        }
        if self.rng.chance(10) {
            return true;
        }
        assert!(self.b.commit_response(&desc));
        self.net.push(Item::Response(desc, Some(packet)));
        true
    }

    fn break_read(&mut self, msn: Msn) {
        self.broken_read = true;
        if let Some(nak) = self.b.response_failed(msn, Refusal::RemoteAccess) {
            let fields = Nak::fields(&nak.to_desc()).unwrap();
            self.net.push(Item::Nak(fields, None));
        }
    }

    /// The network asks for a packet again.
    fn rebuild(&mut self) {
        if self.net.is_empty() {
            return;
        }
        let i = self.rng.index(self.net.len());
        self.net[i] = match self.net[i] {
            Item::Request(desc, _) => Item::Request(desc, self.a.packet(&desc)),
            Item::Response(desc, _) => Item::Response(desc, self.b.response_packet(&desc)),
            other => other,
        };
    }

    fn deliver(&mut self) -> bool {
        if self.net.is_empty() {
            return false;
        }
        let i = if self.rng.chance(self.setup.in_order) {
            0
        } else {
            self.rng.index(self.net.len())
        };
        match self.net.remove(i) {
            Item::Request(desc, None) => self.net.push(Item::RequestAck(desc)),
            Item::Request(desc, Some(packet)) => self.on_request(desc, &packet),
            Item::RequestAck(desc) => self.a.on_acked(self.now, &desc),
            Item::Response(desc, packet) => {
                if let Some(packet) = packet {
                    self.on_response(&packet);
                }
                self.net.push(Item::ResponseAck(desc));
            }
            Item::ResponseAck(desc) => self.b.on_response_acked(&desc),
            Item::Nak(f, held) => {
                self.a.on_nak(self.now, &f);
                self.net.extend(held.map(Item::NakAck));
            }
            Item::NakAck(desc) => self.net.push(Item::RequestAck(desc)),
        }
        self.a.assert_invariants();
        self.pop_completions();
        self.pop_deliveries();
        true
    }

    fn on_request(&mut self, desc: TxDesc, packet: &RequestPacket) {
        let f = &packet.fields;
        if self.refused_early < self.setup.not_ready {
            self.refused_early += 1;
            self.hold(Nak::not_ready(f), desc, packet);
            return;
        }
        let (i, spec) = self.spec(f.msn);
        match self.b.on_packet(f, packet.len, Rsn(self.recv_posted)) {
            Verdict::Place(target) => {
                let is_turn = self.b.is_turn(f, packet.len);
                let bad = match target {
                    Target::Recv { rsn, offset } => {
                        assert_eq!(Some(rsn), spec.rsn);
                        assert!(rsn.0 < self.recv_posted);
                        assert_eq!(offset, packet.offset);
                        (spec.fault == Some(Fault::Short) && offset + packet.len == spec.len)
                            .then_some(Refusal::ReceiveTooShort)
                    }
                    Target::Memory(range) | Target::Ordered(range) => {
                        let is_last = packet.offset + packet.len == spec.len;
                        let ordered = self.setup.last_byte_ordered && is_last;
                        assert_eq!(matches!(target, Target::Ordered(_)), ordered);
                        assert_eq!(range.va, 0x1000 + u64::from(packet.offset));
                        assert_eq!((range.rkey, range.len), (spec.msn.0, packet.len));
                        (spec.fault == Some(Fault::Key)).then_some(Refusal::RemoteAccess)
                    }
                    Target::ReadFrom(range) => {
                        assert_eq!((range.rkey, range.len), (spec.msn.0, spec.len));
                        (spec.fault == Some(Fault::Key)).then_some(Refusal::RemoteAccess)
                    }
                    Target::None => None,
                };
                if let Some(why) = bad {
                    let nak = self.b.refuse(f, why).expect("judged under the same lock");
                    self.hold(nak, desc, packet);
                    return;
                }
                assert!(i >= self.delivered, "placed after delivery: {spec:?}");
                *self.placed.entry((i, packet.offset)).or_default() += 1;
                self.b.placed(f, packet.len);
                if let Target::Ordered(_) = target {
                    self.b.hold(f, &tail_of(i, packet.len));
                    let in_place = (self.delivered..=i).all(|k| self.is_placed(k));
                    assert!(!is_turn || in_place, "its turn has not come");
                    self.seen.early += u32::from(!is_turn);
                }
                self.net.push(Item::RequestAck(desc));
            }
            Verdict::Discard => self.net.push(Item::RequestAck(desc)),
            Verdict::Refuse(why) => {
                // A fatal one comes from here only if its NAK found no room before, or was an echo.
                let again = (self.setup.naks_dropped != 0 || self.responder_failed)
                    && spec.failure() == Some(WcStatus::from_nak(why.code()));
                assert!(
                    again || matches!(why, Refusal::ReceiverNotReady | Refusal::NotReady),
                    "{why:?} for {f:?}"
                );
                let nak = self.b.refuse(f, why).expect("judged under the same lock");
                if why == Refusal::ReceiverNotReady && self.setup.naks_dropped == 0 {
                    assert!(spec.rsn.unwrap().0 >= self.recv_posted);
                }
                self.hold(nak, desc, packet);
            }
        }
    }

    fn hold(&mut self, nak: Nak, desc: TxDesc, packet: &RequestPacket) {
        if self.rng.chance(self.setup.naks_dropped) {
            // No room for the NAK: the packet was never seen, and comes again.
            self.net.push(Item::Request(desc, Some(*packet)));
            return;
        }
        if matches!(nak.code, NakCode::Rnr | NakCode::NotReady) {
            self.seen.go_backs += 1;
        }
        if nak.code == NakCode::Rnr {
            *self.rnr_refusals.entry(self.by_msn[&nak.msn]).or_default() += 1;
        }
        let fields = Nak::fields(&nak.to_desc()).unwrap();
        assert_eq!((fields.dst_qpn, fields.src_qpn), (A, B));
        self.net.push(Item::Nak(fields, Some(desc)));
    }

    fn on_response(&mut self, packet: &ResponsePacket) {
        let f = &packet.fields;
        let (i, spec) = self.spec(f.msn);
        match self.a.on_response(f, packet.source.len) {
            ResponseTarget::Place { cookie, offset } => {
                assert_eq!(usize::try_from(cookie).unwrap(), i);
                assert_eq!(
                    packet.source,
                    MemoryRange {
                        va: 0x1000 + u64::from(offset),
                        rkey: spec.msn.0,
                        len: packet.source.len
                    }
                );
                *self.response_placed.entry((i, offset)).or_default() += 1;
                self.a.response_placed(self.now, f);
            }
            ResponseTarget::Atomic { cookie, original } => {
                assert_eq!(usize::try_from(cookie).unwrap(), i);
                assert_eq!(self.atomic_originals[&i], original);
                *self.response_placed.entry((i, 0)).or_default() += 1;
                self.a.response_placed(self.now, f);
            }
            ResponseTarget::Nothing => panic!("nobody asked for that"),
            ResponseTarget::Ignore => assert!(self.a_is_failing(i), "response ignored"),
            ResponseTarget::Mismatch(status) => panic!("{status:?}"),
        }
    }

    /// Whether the requester has a reason not to want responses for message `i` any more.
    fn a_is_failing(&self, i: usize) -> bool {
        self.failed || self.setup.rnr_retry != 7 || self.first_fault().is_some_and(|f| f <= i)
    }

    fn pop_completions(&mut self) {
        while let Some(c) = self.a.pop_completed() {
            let i = self.completed;
            let spec = self.specs[i];
            assert_eq!(usize::try_from(c.cookie).unwrap(), i, "out of order");
            assert_eq!((c.op, c.byte_len), (spec.op, spec.len));
            self.completed += 1;
            if self.failed {
                assert_eq!(c.status, WcStatus::Flushed);
                continue;
            }
            match c.status {
                WcStatus::Success => {
                    assert!(spec.fault.is_none(), "{spec:?} went unnoticed");
                    self.check_success(i, &spec);
                }
                WcStatus::RnrRetryExceeded => {
                    assert_ne!(self.setup.rnr_retry, 7);
                    let refusals = self.rnr_refusals[&i];
                    assert!(refusals > u32::from(self.setup.rnr_retry), "too early");
                    self.failed = true;
                }
                status => {
                    assert_eq!(Some(i), self.first_fault());
                    assert_eq!(Some(status), spec.failure());
                    self.failed = true;
                }
            }
        }
    }

    fn check_success(&self, i: usize, spec: &Spec) {
        if spec.op.has_response() {
            for p in 0..spec.packets() {
                let count = self.response_placed.get(&(i, p * MTU));
                assert_eq!(count, Some(&1), "response of {spec:?}");
            }
        } else if spec.op != SendOp::Local {
            assert!(i < self.delivered, "complete before delivery: {spec:?}");
        }
    }

    fn pop_deliveries(&mut self) {
        while let Some(delivery) = self.b.pop_delivery() {
            assert!(!self.responder_failed);
            if let Delivery::Failed { why, receive } = delivery {
                self.on_failed(why, receive);
                continue;
            }
            // Reads are executed without a word, and local operations never come here.
            while matches!(self.specs[self.delivered].op, SendOp::Read | SendOp::Local) {
                self.check_placed(self.delivered);
                self.delivered += 1;
            }
            let i = self.delivered;
            let spec = self.specs[i];
            self.check_placed(i);
            if let Delivery::Tail { target, tail } = delivery {
                assert!(
                    self.setup.last_byte_ordered
                        && matches!(spec.op, SendOp::Write | SendOp::WriteImm)
                );
                let len = u32::try_from(tail.bytes().len()).unwrap();
                assert_eq!((target.rkey, target.len), (spec.msn.0, len));
                assert_eq!(target.va, 0x1000 + u64::from(spec.len - len));
                let in_last = spec.len - (spec.packets() - 1) * MTU;
                assert_eq!(tail, tail_of(i, in_last));
                assert!(self.ended.insert(i), "written twice");
                continue;
            }
            if matches!(spec.op, SendOp::Write | SendOp::WriteImm) {
                let has_tail = self.setup.last_byte_ordered && spec.len > 0;
                assert_eq!(self.ended.contains(&i), has_tail, "{spec:?}");
            }
            match delivery {
                Delivery::Receive(r) => {
                    assert_eq!(Some(r.rsn), spec.rsn);
                    assert_eq!(r.rsn.0, self.received);
                    self.received += 1;
                    assert_eq!((r.opcode, r.byte_len), (spec.op.opcode(), spec.len));
                    let imm = matches!(spec.op, SendOp::SendImm | SendOp::WriteImm);
                    assert_eq!(r.imm, if imm { !spec.msn.0 } else { 0 });
                    let inv = spec.op == SendOp::SendInv;
                    assert_eq!(r.invalidate, if inv { !spec.msn.0 } else { 0 });
                }
                Delivery::Write { byte_len } => {
                    assert_eq!((spec.op, spec.len), (SendOp::Write, byte_len));
                }
                Delivery::Atomic { opcode, target, .. } => {
                    assert_eq!(opcode, spec.op.opcode());
                    assert_eq!((target.rkey, target.len), (spec.msn.0, 8));
                    if spec.fault.is_some() {
                        let nak = self.b.atomic_result(Err(Refusal::RemoteAccess)).unwrap();
                        let fields = Nak::fields(&nak.to_desc()).unwrap();
                        self.net.push(Item::Nak(fields, None));
                        continue;
                    }
                    let before = self.atomic_originals.insert(i, self.counter);
                    assert_eq!(before, None, "executed twice");
                    assert_eq!(self.b.atomic_result(Ok(self.counter)), None);
                    self.counter += 1;
                }
                Delivery::Failed { .. } | Delivery::Tail { .. } => unreachable!(),
            }
            self.delivered += 1;
        }
    }

    fn check_placed(&self, i: usize) {
        assert!(self.is_placed(i));
    }

    fn is_placed(&self, i: usize) -> bool {
        let spec = self.specs[i];
        if spec.op == SendOp::Local {
            return true;
        }
        let packets = if spec.op.has_response() {
            1
        } else {
            spec.packets()
        };
        (0..packets).all(|p| self.placed.contains_key(&(i, p * MTU)))
    }

    fn on_failed(&mut self, why: Refusal, receive: Option<(Rsn, WcStatus)>) {
        self.responder_failed = true;
        let i = self.first_fault().expect("no reason to fail");
        let spec = self.specs[i];
        match spec.fault.unwrap() {
            Fault::Short => {
                assert_eq!(why, Refusal::ReceiveTooShort);
                assert_eq!(receive, Some((spec.rsn.unwrap(), WcStatus::LocalLength)));
            }
            Fault::Key | Fault::KeyLater => {
                assert_eq!((why, receive), (Refusal::RemoteAccess, None));
            }
            Fault::Local => panic!("failed for {spec:?}"),
        }
        let missing = self.specs[self.delivered.min(i)..i]
            .iter()
            .find(|s| !matches!(s.op, SendOp::Read | SendOp::Local));
        assert!(missing.is_none(), "failed before {missing:?}");
        assert!(self.broken_read || self.delivered <= i);
        self.b.stop();
    }

    fn finished(&self) -> bool {
        self.completed == self.specs.len() && self.net.is_empty()
    }

    fn run(&mut self) {
        let mut idle = 0;
        let mut steps = 0;
        while !self.finished() {
            steps += 1;
            assert!(steps < 1_000 * (1_000 + self.setup.messages), "livelock");
            let busy = match self.rng.below(8) {
                0 => {
                    let posted = self.post();
                    self.pop_completions();
                    posted
                }
                1 | 2 => self.send_request(),
                3 => self.send_response(),
                4 => {
                    self.rebuild();
                    false
                }
                _ => self.deliver(),
            };
            self.a.assert_invariants();
            if self.rng.chance(self.setup.receives) {
                self.recv_posted += 1;
            }
            if self.rng.chance(20) {
                self.advance(Duration::from_micros(5));
            }
            idle = if busy { 0 } else { idle + 1 };
            if idle > 200 {
                let at = self.a.poll_timeout().expect("deadlock");
                self.recv_posted += 1;
                self.advance(at.since(self.now));
                idle = 0;
            }
        }
        self.check_end();
    }

    fn advance(&mut self, d: Duration) {
        self.now = self.now.after(d);
        self.a.on_timeout(self.now, self.now);
        self.a.assert_invariants();
        self.pop_completions();
    }

    fn check_end(&mut self) {
        self.pop_deliveries();
        assert!(self.a.is_empty());
        let fault = self.first_fault();
        if !self.failed {
            assert_eq!(fault, None);
            while self.delivered < self.specs.len()
                && matches!(self.specs[self.delivered].op, SendOp::Read | SendOp::Local)
            {
                self.delivered += 1;
            }
            assert_eq!(self.delivered, self.specs.len());
            assert_eq!(self.b.next_response(), None);
        } else if self.setup.rnr_retry == 7 {
            // Both sides failed, at the same message.
            let remote = self.specs[fault.unwrap()].fault != Some(Fault::Local);
            assert_eq!(self.responder_failed, remote);
        }
    }
}

/// The last bytes of message `i`, of a packet of `len` bytes.
fn tail_of(i: usize, len: u32) -> Tail {
    Tail::new(&[u8::try_from(i % 251).unwrap(); Tail::MAX][..Tail::len_of(len)])
}

fn desc_is_last(desc: &TxDesc) -> bool {
    desc.flags.has(StreamFlags::LAST) && desc.opcode == Opcode::ReadResponse
}

/// What happened in simulations, so that tests can see that they test something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub go_backs: u32,
    /// Last packets of Writes that were placed before others.
    pub early: u32,
}

/// Runs `seeds` simulations.
pub(super) fn run(seeds: core::ops::Range<u64>, setup: Setup) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        let result = std::panic::catch_unwind(|| {
            let mut sim = Sim::new(seed, setup);
            sim.run();
            sim.seen
        });
        match result {
            Ok(new) => {
                seen.go_backs += new.go_backs;
                seen.early += new.early;
            }
            Err(panic) => {
                std::eprintln!("seed {seed} of {setup:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    seen
}

pub(super) const PLAIN: Setup = Setup {
    messages: 120,
    max_rd_atomic: 4,
    responses: 8,
    rnr_retry: 7,
    faults: 0,
    not_ready: 0,
    receives: 50,
    in_order: 30,
    packets: 4,
    naks_dropped: 0,
    last_byte_ordered: false,
};

#[test]
fn any_order() {
    run(0..300, PLAIN);
}

#[test]
fn any_order_in_a_long_stream() {
    let setup = Setup {
        messages: 3_000,
        in_order: 80,
        ..PLAIN
    };
    run(0..10, setup);
}

#[test]
fn receiver_often_not_ready() {
    let setup = Setup {
        receives: 4,
        ..PLAIN
    };
    assert!(run(0..400, setup).go_backs > 1_000);
}

#[test]
fn no_room_for_naks() {
    for naks_dropped in [20, 80] {
        let setup = Setup {
            naks_dropped,
            receives: 4,
            ..PLAIN
        };
        assert!(run(0..300, setup).go_backs > 1_000);
        let setup = Setup {
            faults: 4,
            not_ready: 10,
            ..setup
        };
        run(0..300, setup);
    }
}

#[test]
fn few_reads_and_a_full_response_ring() {
    for (max_rd_atomic, responses) in [(1, 1), (1, 2), (2, 2), (4, 4), (16, 32)] {
        let setup = Setup {
            max_rd_atomic,
            responses,
            receives: 10,
            ..PLAIN
        };
        run(0..100, setup);
    }
}

#[test]
fn peer_connects_late() {
    for not_ready in [1, 2, 5, 40, 200] {
        let setup = Setup {
            not_ready,
            receives: 8,
            ..PLAIN
        };
        assert!(run(0..100, setup).go_backs > 100);
    }
}

#[test]
fn fatal_refusals() {
    for receives in [5, 60] {
        let setup = Setup {
            faults: 3,
            receives,
            messages: 60,
            ..PLAIN
        };
        run(0..600, setup);
    }
}

#[test]
fn fatal_refusals_of_a_late_peer() {
    let setup = Setup {
        faults: 5,
        receives: 6,
        messages: 60,
        not_ready: 20,
        in_order: 5,
        ..PLAIN
    };
    run(0..600, setup);
}

#[test]
fn finite_rnr_retries() {
    for rnr_retry in 0..3 {
        let setup = Setup {
            rnr_retry,
            receives: 4,
            messages: 60,
            faults: 1,
            ..PLAIN
        };
        run(0..300, setup);
    }
}

/// Draws the set-up as well. For long runs by hand: `SOAK=1000000 cargo test --release -- --ignored`.
#[test]
#[ignore = "takes as long as one likes"]
fn soak() {
    let runs = std::env::var("SOAK")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(100_000u64);
    for seed in 0..runs {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        rng.below(2);
        let max_rd_atomic = 1 + rng.below(6);
        let setup = Setup {
            messages: 1 + rng.below(200),
            max_rd_atomic,
            responses: 1 << rng.below(5),
            rnr_retry: if rng.chance(80) {
                7
            } else {
                u8::try_from(rng.below(7)).unwrap()
            },
            faults: if rng.chance(50) { 0 } else { rng.below(20) },
            not_ready: if rng.chance(50) { 0 } else { rng.below(100) },
            receives: 1 + rng.below(60),
            in_order: rng.below(101),
            packets: 1 + rng.below(6),
            naks_dropped: if rng.chance(50) { 0 } else { rng.below(90) },
            last_byte_ordered: rng.chance(30),
        };
        run(seed..seed + 1, setup);
    }
}
