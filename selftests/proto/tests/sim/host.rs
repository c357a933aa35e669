// SPDX-License-Identifier: GPL-2.0

//! Queue pairs on an endpoint: what the provider does with streams, on plain memory.

use std::collections::HashMap;

use proto::packet::{DataFields, Opcode, Qpn, TxDesc};
use proto::psn::Rsn;
use proto::stream::{
    Completion, Delivery, MemoryRange, MsgSlot, Nak, RecvConfig, RecvStream, Refusal, RemoteAccess,
    Response, ResponseTarget, SendConfig, SendMsg, SendOp, SendStream, SendWork, Tail, Target,
    Verdict, WcStatus, MSG_WINDOW,
};
use proto::time::{Duration, Instant};

use super::endpoint::{App, Taken};
use super::Rng;

/// Keys of a QP's memory: written by the peer, read by the peer, the counter.
pub const WRITE_KEY: u32 = 1;
pub const READ_KEY: u32 = 2;
pub const ATOMIC_KEY: u32 = 3;

/// One message of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub op: SendOp,
    pub len: u32,
    pub fence: bool,
    /// The peer does not allow it.
    pub bad: bool,
}

/// What QP `index` of a host sends, and so what its peer gets.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub messages: Vec<Message>,
    pub max_len: u32,
}

impl Plan {
    pub fn random(seed: u64, n: usize, max_len: u32) -> Self {
        let mut rng = Rng::new(seed);
        let ops = [
            SendOp::Send,
            SendOp::SendImm,
            SendOp::SendInv,
            SendOp::Write,
            SendOp::WriteImm,
            SendOp::Read,
            SendOp::FetchAdd,
            SendOp::Local,
        ];
        let messages = (0..n)
            .map(|_| {
                let op = ops[rng.below(ops.len() as u64) as usize];
                let len = match rng.below(4) {
                    0 => 0,
                    1 => rng.below(64) as u32,
                    _ => rng.below(u64::from(max_len) + 1) as u32,
                };
                Message {
                    op,
                    len: if op.is_atomic() { 8 } else { len },
                    fence: rng.chance(500),
                    bad: false,
                }
            })
            .collect();
        Plan {
            seed,
            messages,
            max_len,
        }
    }

    /// Byte `at` of message `k`.
    pub fn byte(&self, k: usize, at: u32) -> u8 {
        (self.seed as u32)
            .wrapping_add(k as u32 * 7919)
            .wrapping_add(at.wrapping_mul(31))
            .wrapping_add(at >> 8) as u8
    }

    pub fn bytes(&self, k: usize, at: u32, len: u32) -> Vec<u8> {
        (at..at + len).map(|i| self.byte(k, i)).collect()
    }

    /// Where message `k` goes in the peer's memory.
    pub fn va(&self, k: usize) -> u64 {
        0x1_0000_0000 + k as u64 * u64::from(self.max_len)
    }

    fn consumers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.messages.len()).filter(|k| self.messages[*k].op.consumes_receive())
    }
}

type Tx = SendStream<Vec<SendMsg>>;
type RxStream = RecvStream<Vec<MsgSlot>, Vec<Response>>;

pub struct Qp {
    pub tx: Tx,
    pub rx: RxStream,
    pub mine: Plan,
    pub theirs: Plan,
    posted: usize,
    pub completions: Vec<Completion>,
    /// Receives posted so far.
    receives: u32,
    /// Data of receives not completed, by RSN.
    buffers: HashMap<u32, Vec<u8>>,
    memory: Vec<u8>,
    counter: u64,
    /// Read results and atomics' originals, by message.
    results: HashMap<u32, Vec<u8>>,
    pub received: u32,
    /// Messages of the peer delivered, Reads not counted.
    pub delivered: u32,
    pub failed: Option<Refusal>,
    atomics_seen: u64,
    /// Not connected before.
    pub ready_at: Instant,
}

/// What a host's QPs have in common.
pub struct Host {
    pub qps: Vec<Qp>,
    turn: usize,
    rng: Rng,
    naks: Vec<TxDesc>,
    base: u32,
    /// When the next receives are posted.
    next_post: Instant,
    /// Time between receives; 0: all are posted at once.
    pub receive_gap: u64,
    pub now: Instant,
    /// No QP takes anything before.
    pub broken: bool,
}

pub struct Attributes {
    pub mtu: u32,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub ack_timeout: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u32,
}

impl Default for Attributes {
    fn default() -> Self {
        Attributes {
            mtu: 1024,
            retry_cnt: 7,
            rnr_retry: 7,
            ack_timeout: 18,
            min_rnr_timer: 1,
            max_rd_atomic: 4,
        }
    }
}

impl Host {
    /// `base` is added to the numbers of this host's QPs, `peer_base` to the peer's.
    pub fn new(
        seed: u64,
        base: u32,
        peer_base: u32,
        plans: Vec<(Plan, Plan)>,
        attr: &Attributes,
    ) -> Self {
        let qps = plans
            .into_iter()
            .enumerate()
            .map(|(i, (mine, theirs))| {
                let qpn = Qpn(base + i as u32);
                let peer_qpn = Qpn(peer_base + i as u32);
                let send = SendConfig {
                    qpn,
                    peer_qpn,
                    mtu: attr.mtu,
                    sq_psn: mine.seed as u32,
                    max_rd_atomic: attr.max_rd_atomic,
                    retry_cnt: attr.retry_cnt,
                    rnr_retry: attr.rnr_retry,
                    ack_timeout: attr.ack_timeout,
                    unreliable: false,
                };
                let recv = RecvConfig {
                    qpn,
                    peer_qpn,
                    mtu: attr.mtu,
                    rq_psn: theirs.seed as u32,
                    max_dest_rd_atomic: attr.max_rd_atomic,
                    min_rnr_timer: attr.min_rnr_timer,
                    access: RemoteAccess {
                        write: true,
                        read: true,
                        atomic: true,
                        flush: true,
                    },
                    unreliable: false,
                    // Every second one.
                    last_byte_ordered: i % 2 == 1,
                };
                let window = MSG_WINDOW as usize;
                let responses = 2 * attr.max_rd_atomic as usize;
                let memory = theirs.messages.len() * theirs.max_len as usize;
                Qp {
                    tx: SendStream::new(vec![SendMsg::default(); window], send),
                    rx: RecvStream::new(
                        vec![MsgSlot::default(); window],
                        vec![Response::default(); responses.next_power_of_two()],
                        recv,
                    ),
                    mine,
                    theirs,
                    posted: 0,
                    completions: Vec::new(),
                    receives: 0,
                    buffers: HashMap::new(),
                    memory: vec![0; memory],
                    counter: 0,
                    results: HashMap::new(),
                    received: 0,
                    delivered: 0,
                    failed: None,
                    atomics_seen: 0,
                    ready_at: Instant(0),
                }
            })
            .collect();
        Host {
            qps,
            turn: 0,
            rng: Rng::new(seed),
            naks: Vec::new(),
            base,
            next_post: Instant(0),
            receive_gap: 0,
            now: Instant(0),
            broken: false,
        }
    }

    fn index(&self, qpn: Qpn) -> Option<usize> {
        let i = qpn.0.checked_sub(self.base)? as usize;
        (i < self.qps.len()).then_some(i)
    }

    /// Posts receives and work requests, and takes what is complete.
    fn settle(&mut self, now: Instant) {
        let total: u32 = self
            .qps
            .iter()
            .map(|q| q.theirs.consumers().count() as u32)
            .max()
            .unwrap_or(0);
        if self.receive_gap == 0 {
            for q in &mut self.qps {
                q.receives = total;
            }
        } else if now >= self.next_post {
            let gap = 1 + self.rng.below(2 * self.receive_gap);
            self.next_post = now.after(Duration(gap));
            let n = self.qps.len() as u64;
            let q = &mut self.qps[self.rng.below(n) as usize];
            q.receives = (q.receives + self.rng.below(8) as u32).min(total);
        }
        for q in &mut self.qps {
            q.settle(now, &mut self.naks);
        }
    }

    fn receives_missing(&self) -> bool {
        self.qps
            .iter()
            .any(|q| (q.receives as usize) < q.theirs.consumers().count())
    }
}

impl Qp {
    fn settle(&mut self, now: Instant, naks: &mut Vec<TxDesc>) {
        while let Some(d) = self.rx.pop_delivery() {
            self.deliver(&d, naks);
        }
        while self.posted < self.mine.messages.len() && self.tx.can_post() {
            let k = self.posted;
            let m = self.mine.messages[k];
            let (va, rkey) = match m.op {
                SendOp::Write | SendOp::WriteImm => (self.mine.va(k), WRITE_KEY),
                SendOp::Read => (self.mine.va(k), READ_KEY),
                _ => (0x40, ATOMIC_KEY),
            };
            let work = SendWork {
                op: m.op,
                fence: m.fence,
                len: m.len,
                va,
                rkey: if m.bad { 99 } else { rkey },
                imm_or_inv: k as u32,
                compare_add: 1,
                cookie: k as u32,
                ..SendWork::default()
            };
            self.tx.post(now, &work).expect("room was checked");
            self.posted += 1;
        }
        loop {
            if self.tx.next_local().is_some() {
                self.tx.local_done(now, Ok(()));
            }
            let Some(c) = self.tx.pop_completed() else {
                if self.tx.next_local().is_some() {
                    continue;
                }
                break;
            };
            self.complete(&c);
        }
    }

    fn complete(&mut self, c: &Completion) {
        let k = self.completions.len();
        assert_eq!(c.cookie as usize, k, "completions out of order");
        let m = self.mine.messages[k];
        if c.status == WcStatus::Success {
            assert_eq!((c.op, c.byte_len), (m.op, m.len));
            match m.op {
                SendOp::Read if m.len > 0 => {
                    let got = &self.results[&c.cookie];
                    assert_eq!(*got, self.mine.bytes(k, 0, m.len), "Read {k}");
                }
                SendOp::FetchAdd => {
                    let before = self.mine.messages[..k]
                        .iter()
                        .filter(|m| m.op == SendOp::FetchAdd)
                        .count() as u64;
                    assert_eq!(self.results[&c.cookie], before.to_ne_bytes());
                }
                _ => {}
            }
        }
        self.completions.push(*c);
    }

    fn deliver(&mut self, d: &Delivery, naks: &mut Vec<TxDesc>) {
        match d {
            Delivery::Receive(r) => {
                let k = self
                    .theirs
                    .consumers()
                    .nth(r.rsn.0 as usize)
                    .expect("a planned message");
                assert_eq!(r.rsn.0, self.received, "receives out of order");
                let m = self.theirs.messages[k];
                assert_eq!((r.opcode, r.byte_len), (opcode(m.op), m.len));
                match m.op {
                    SendOp::SendImm | SendOp::WriteImm => assert_eq!(r.imm, k as u32),
                    SendOp::SendInv => assert_eq!(r.invalidate, k as u32),
                    _ => {}
                }
                if m.op != SendOp::WriteImm {
                    let data = self.buffers.remove(&r.rsn.0).unwrap_or_default();
                    assert!(data.len() >= m.len as usize);
                    assert_eq!(data[..m.len as usize], self.theirs.bytes(k, 0, m.len)[..]);
                }
                self.received += 1;
                self.delivered += 1;
                self.check_writes(k);
            }
            Delivery::Tail { target, tail } => {
                let at = (target.va - self.theirs.va(0)) as usize;
                self.memory[at..at + target.len as usize].copy_from_slice(tail.bytes());
                // All of it is there, and so is what was sent before it.
                self.check_writes(at / self.theirs.max_len as usize);
            }
            Delivery::Write { .. } => self.delivered += 1,
            Delivery::Atomic {
                opcode,
                compare_add,
                target,
                ..
            } => {
                assert_eq!(*opcode, Opcode::FetchAdd);
                assert_eq!((target.va, target.rkey), (0x40, ATOMIC_KEY));
                let original = self.counter;
                self.counter += compare_add;
                self.atomics_seen += 1;
                self.delivered += 1;
                let nak = self.rx.atomic_result(Ok(original));
                assert!(nak.is_none());
            }
            Delivery::Failed { why, .. } => {
                self.failed = Some(*why);
                self.fail();
            }
        }
        let _ = naks;
    }

    /// A message that consumes a receive fences all Writes before it.
    fn check_writes(&self, upto: usize) {
        let writes = (0..=upto).rev().take(8);
        for k in writes {
            let m = self.theirs.messages[k];
            if matches!(m.op, SendOp::Write | SendOp::WriteImm) && !m.bad {
                let at = k * self.theirs.max_len as usize;
                let got = &self.memory[at..at + m.len as usize];
                assert_eq!(*got, self.theirs.bytes(k, 0, m.len)[..], "Write {k}");
            }
        }
    }

    pub fn fail(&mut self) {
        self.rx.stop();
        self.tx.fail(WcStatus::Flushed);
    }

    fn copy(&mut self, target: &Target, payload: &[u8]) -> Result<(), Refusal> {
        match target {
            Target::None => Ok(()),
            Target::Recv { rsn, offset } => {
                let size = self.theirs.max_len as usize;
                let buf = self.buffers.entry(rsn.0).or_insert_with(|| vec![0; size]);
                buf.get_mut(*offset as usize..*offset as usize + payload.len())
                    .ok_or(Refusal::ReceiveTooShort)?
                    .copy_from_slice(payload);
                Ok(())
            }
            Target::Memory(r) | Target::Ordered(r) => {
                let kept = match target {
                    Target::Ordered(_) => Tail::len_of(r.len),
                    _ => 0,
                };
                assert_eq!(r.len as usize, payload.len() + kept);
                if r.rkey != WRITE_KEY {
                    return Err(Refusal::RemoteAccess);
                }
                let at = (r.va - self.theirs.va(0)) as usize;
                self.memory
                    .get_mut(at..at + payload.len())
                    .ok_or(Refusal::RemoteAccess)?
                    .copy_from_slice(payload);
                Ok(())
            }
            Target::ReadFrom(r) if r.rkey != READ_KEY && r.len > 0 => Err(Refusal::RemoteAccess),
            Target::ReadFrom(_) => Ok(()),
        }
    }

    fn request(&mut self, f: &DataFields, payload: &[u8]) -> Option<Nak> {
        if !self.rx.is_ready() {
            return Some(Nak::not_ready(f));
        }
        let len = payload.len() as u32;
        match self.rx.on_packet(f, len, Rsn(self.receives)) {
            Verdict::Discard => None,
            Verdict::Refuse(why) => self.rx.refuse(f, why),
            Verdict::Place(target) => {
                // What is kept for later.
                let (now, later) = match target {
                    Target::Ordered(_) => payload.split_at(payload.len() - Tail::len_of(len)),
                    _ => (payload, &payload[..0]),
                };
                match self.copy(&target, now) {
                    Ok(()) => {
                        self.rx.placed(f, len);
                        if !later.is_empty() {
                            self.rx.hold(f, &Tail::new(later));
                        }
                        None
                    }
                    Err(why) => self.rx.refuse(f, why),
                }
            }
        }
    }

    fn response(&mut self, now: Instant, f: &DataFields, payload: &[u8]) {
        match self.tx.on_response(f, payload.len() as u32) {
            ResponseTarget::Place { cookie, offset } => {
                let len = self.mine.messages[cookie as usize].len as usize;
                let buf = self.results.entry(cookie).or_insert_with(|| vec![0; len]);
                buf[offset as usize..offset as usize + payload.len()].copy_from_slice(payload);
            }
            ResponseTarget::Atomic { cookie, original } => {
                self.results.insert(cookie, original.to_ne_bytes().to_vec());
            }
            ResponseTarget::Nothing | ResponseTarget::Ignore => return,
            ResponseTarget::Mismatch(status) => panic!("response does not fit: {status:?}"),
        }
        self.tx.response_placed(now, f);
    }

    /// Where a Read takes its data from: the plan of the reader says what it expects.
    fn read(&self, r: &MemoryRange) -> Vec<u8> {
        if r.len == 0 {
            return Vec::new();
        }
        let at = r.va - self.theirs.va(0);
        let k = (at / u64::from(self.theirs.max_len)) as usize;
        let offset = (at % u64::from(self.theirs.max_len)) as u32;
        self.theirs.bytes(k, offset, r.len)
    }

    pub fn done(&self) -> bool {
        self.completions.len() == self.mine.messages.len()
    }
}

fn opcode(op: SendOp) -> Opcode {
    match op {
        SendOp::Send => Opcode::Send,
        SendOp::SendImm => Opcode::SendImm,
        SendOp::SendInv => Opcode::SendInv,
        SendOp::WriteImm => Opcode::WriteImm,
        op => panic!("{op:?} consumes no receive"),
    }
}

impl App for Host {
    fn next(&mut self, now: Instant) -> Option<TxDesc> {
        let n = self.qps.len();
        for i in 0..n {
            let at = (self.turn + i) % n;
            let q = &mut self.qps[at];
            if now < q.ready_at {
                continue;
            }
            let desc = q.rx.next_response().or_else(|| q.tx.next_segment(now));
            if desc.is_some() {
                self.turn = at;
                return desc;
            }
        }
        None
    }

    fn committed(&mut self, now: Instant, desc: &TxDesc) {
        let i = self.index(desc.qpn).expect("a QP of this host");
        let q = &mut self.qps[i];
        let ok = match desc.opcode {
            Opcode::ReadResponse | Opcode::AtomicResponse => q.rx.commit_response(desc),
            _ => q.tx.commit(now, desc),
        };
        assert!(ok);
        q.settle(now, &mut self.naks);
        // Messages of different QPs mix.
        self.turn = self.rng.below(self.qps.len() as u64) as usize;
    }

    fn build(&mut self, desc: &TxDesc, payload: &mut Vec<u8>) -> Option<DataFields> {
        let i = self.index(desc.qpn)?;
        let q = &self.qps[i];
        match desc.opcode {
            Opcode::ReadResponse | Opcode::AtomicResponse => {
                let p = q.rx.response_packet(desc)?;
                payload.extend(q.read(&p.source));
                Some(p.fields)
            }
            _ => {
                let p = q.tx.packet(desc)?;
                payload.extend(q.mine.bytes(p.cookie as usize, p.offset, p.len));
                Some(p.fields)
            }
        }
    }

    fn receive(&mut self, now: Instant, f: &DataFields, payload: &[u8]) -> Taken {
        let qp = self
            .index(f.dst_qpn)
            .filter(|i| self.qps[*i].ready_at <= now);
        let request = f.opcode.is_request();
        let Some(i) = qp else {
            return if request {
                Taken::Refuse(Nak::not_ready(f).to_desc())
            } else {
                Taken::Accept
            };
        };
        let q = &mut self.qps[i];
        let nak = match f.opcode {
            Opcode::Nak => {
                q.tx.on_nak(now, f);
                None
            }
            _ if request => q.request(f, payload),
            _ => {
                q.response(now, f, payload);
                None
            }
        };
        q.settle(now, &mut self.naks);
        match nak {
            Some(nak) => Taken::Refuse(nak.to_desc()),
            None => Taken::Accept,
        }
    }

    fn acked(&mut self, now: Instant, desc: &TxDesc) {
        let Some(i) = self.index(desc.qpn) else {
            return;
        };
        let q = &mut self.qps[i];
        match desc.opcode {
            Opcode::ReadResponse | Opcode::AtomicResponse => q.rx.on_response_acked(desc),
            _ => q.tx.on_acked(now, desc),
        }
        q.settle(now, &mut self.naks);
    }

    fn pop_nak(&mut self) -> Option<TxDesc> {
        self.naks.pop()
    }

    fn deadline(&self) -> Option<Instant> {
        let timers = self.qps.iter().filter_map(|q| q.tx.poll_timeout());
        let ready = self
            .qps
            .iter()
            .map(|q| q.ready_at)
            .filter(|t| *t > self.now);
        let post = self.receives_missing().then_some(self.next_post);
        timers.chain(ready).chain(post).min()
    }

    fn on_timeout(&mut self, now: Instant, progress: Instant) {
        self.now = now;
        for q in &mut self.qps {
            q.tx.on_timeout(now, progress);
        }
        self.settle(now);
    }

    fn established(&mut self, payload_mtu: u16) {
        for q in &mut self.qps {
            let mtu = q.tx.config().mtu.min(u32::from(payload_mtu));
            assert!(q.tx.set_mtu(mtu));
            q.rx.set_mtu(mtu);
        }
    }

    fn broken(&mut self) {
        self.broken = true;
        for q in &mut self.qps {
            q.rx.stop();
            q.tx.fail(WcStatus::RetryExceeded);
        }
    }
}
