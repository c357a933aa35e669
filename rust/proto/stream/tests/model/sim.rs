// SPDX-License-Identifier: GPL-2.0

//! The run itself: two ends, a network, and turns that are drawn.

use super::*;

/// What is on its way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Request(TxDesc, Option<RequestPacket>),
    RequestAck(TxDesc),
    Response(TxDesc, Option<ResponsePacket>),
    ResponseAck(TxDesc),
    /// A NAK and the packet held for it.
    Nak(DataFields, Option<TxDesc>),
    NakAck(TxDesc),
}

pub(super) struct Sim {
    pub(super) rng: Rng,
    pub(super) setup: Setup,
    pub(super) now: Instant,
    pub(super) a: Sender,
    pub(super) b: Receiver,
    pub(super) net: Vec<Item>,
    pub(super) specs: Vec<Spec>,
    pub(super) by_msn: HashMap<Msn, usize>,
    // Requester.
    pub(super) posted: usize,
    pub(super) completed: usize,
    pub(super) failed: bool,
    pub(super) response_placed: HashMap<(usize, u32), u32>,
    // Responder.
    pub(super) refused_early: u32,
    pub(super) recv_posted: u32,
    pub(super) placed: HashMap<(usize, u32), u32>,
    /// Messages before this are delivered or are Reads that have been executed.
    pub(super) delivered: usize,
    pub(super) received: u32,
    /// Writes whose last bytes are in memory.
    pub(super) ended: HashSet<usize>,
    pub(super) atomic_originals: HashMap<usize, u64>,
    pub(super) counter: u64,
    pub(super) rnr_refusals: HashMap<usize, u32>,
    pub(super) responder_failed: bool,
    pub(super) broken_read: bool,
    pub(super) seen: Seen,
}

impl Sim {
    pub(super) fn new(seed: u64, setup: Setup) -> Self {
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

    pub(super) fn spec(&self, msn: Msn) -> (usize, Spec) {
        let i = self.by_msn[&msn];
        (i, self.specs[i])
    }

    /// The message that must fail, unless a finite RNR retry count gets in the way.
    pub(super) fn first_fault(&self) -> Option<usize> {
        self.specs.iter().position(|s| s.fault.is_some())
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

    fn finished(&self) -> bool {
        self.completed == self.specs.len() && self.net.is_empty()
    }

    pub(super) fn run(&mut self) {
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
