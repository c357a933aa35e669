// SPDX-License-Identifier: GPL-2.0

//! Queue pairs on an endpoint: what the provider does with streams, on plain memory.

mod app;
mod plan;
mod qp;

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

pub use plan::{Message, Plan};

/// Keys of a QP's memory: written by the peer, read by the peer, the counter.
pub const WRITE_KEY: u32 = 1;
pub const READ_KEY: u32 = 2;
pub const ATOMIC_KEY: u32 = 3;

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

fn opcode(op: SendOp) -> Opcode {
    match op {
        SendOp::Send => Opcode::Send,
        SendOp::SendImm => Opcode::SendImm,
        SendOp::SendInv => Opcode::SendInv,
        SendOp::WriteImm => Opcode::WriteImm,
        op => panic!("{op:?} consumes no receive"),
    }
}
