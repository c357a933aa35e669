// SPDX-License-Identifier: GPL-2.0

//! Two hosts and the planes between them, on virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use proto::path::Route;
use proto::time::Instant;

use super::endpoint::{App, Endpoint};
use super::Rng;

/// How a plane treats packets. Probabilities are in 1/10,000.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// One-way delay, ns.
    pub delay: u64,
    /// Up to so much more for each packet, ns. Flows stay in order unless `reorder` strikes.
    pub jitter: u64,
    /// Link rate, Mbit/s; 0 is infinite.
    pub rate: u64,
    /// Queueing delay above which packets are dropped, ns.
    pub queue: u64,
    /// Queueing delay above which packets are CE-marked, ns.
    pub mark: u64,
    pub loss: u32,
    pub duplicate: u32,
    /// Packets that are late by up to ten times the delay, whatever is behind them.
    pub reorder: u32,
    /// Nothing gets through.
    pub dead: bool,
    /// Nothing gets through from this node.
    pub dead_from: Option<usize>,
}

impl Default for Plane {
    fn default() -> Self {
        Plane {
            delay: 50_000,
            jitter: 0,
            rate: 0,
            queue: 2_000_000,
            mark: u64::MAX,
            loss: 0,
            duplicate: 0,
            reorder: 0,
            dead: false,
            dead_from: None,
        }
    }
}

/// A packet on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    at: u64,
    serial: u64,
    to: usize,
    ce: bool,
    bytes: Vec<u8>,
}

/// A host.
pub trait Node {
    fn receive(&mut self, now: Instant, ce: bool, bytes: &[u8]);
    /// Called after each batch of packets and when the deadline is over.
    fn pump(&mut self, now: Instant, out: &mut Vec<(Route, Vec<u8>)>);
    fn deadline(&self) -> Option<Instant>;
}

impl<A: App> Node for Endpoint<A> {
    fn receive(&mut self, now: Instant, ce: bool, bytes: &[u8]) {
        Endpoint::receive(self, now, ce, bytes);
    }

    fn pump(&mut self, now: Instant, out: &mut Vec<(Route, Vec<u8>)>) {
        Endpoint::pump(self, now, out);
    }

    fn deadline(&self) -> Option<Instant> {
        Endpoint::deadline(self)
    }
}

/// Something that happens to the network at a given time.
pub type Action = Box<dyn FnOnce(&mut Sim)>;

pub struct Sim {
    pub now: Instant,
    pub rng: Rng,
    pub planes: Vec<Plane>,
    /// Packets that the network dropped.
    pub dropped: u64,
    pub delivered: u64,
    flying: BinaryHeap<Reverse<Flying>>,
    serial: u64,
    /// When the link of a direction and plane is free again.
    free: BTreeMap<(usize, u8), u64>,
    /// Arrival of the last packet of a flow, for FIFO.
    last: BTreeMap<(usize, u8, u8, u16), u64>,
}

impl Sim {
    pub fn new(seed: u64, planes: Vec<Plane>) -> Self {
        Sim {
            now: Instant(1_000_000_000),
            rng: Rng::new(seed),
            planes,
            dropped: 0,
            delivered: 0,
            flying: BinaryHeap::new(),
            serial: 0,
            free: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    fn send(&mut self, from: usize, route: Route, bytes: Vec<u8>) {
        let plane = self.planes[usize::from(route.local_plane) % self.planes.len()];
        let now = self.now.0;
        let free = self.free.entry((from, route.local_plane)).or_default();
        let mut sent = (*free).max(now);
        let queued = sent - now;
        if queued > plane.queue {
            self.dropped += 1;
            return;
        }
        // Frame overhead as on Ethernet.
        let bits = (bytes.len() as u64 + 66) * 8;
        sent += (bits * 1000).checked_div(plane.rate).unwrap_or(0);
        *free = sent;
        if plane.dead || plane.dead_from == Some(from) || self.rng.chance(plane.loss) {
            self.dropped += 1;
            return;
        }
        let mut at = sent + plane.delay + self.rng.below(plane.jitter + 1);
        if self.rng.chance(plane.reorder) {
            at += self.rng.below(10 * plane.delay);
        } else {
            let flow = (from, route.local_plane, route.remote_plane, route.src_port);
            let last = self.last.entry(flow).or_default();
            at = at.max(*last);
            *last = at;
        }
        let copies = 1 + usize::from(self.rng.chance(plane.duplicate));
        for copy in 0..copies {
            self.serial += 1;
            self.flying.push(Reverse(Flying {
                at: at + copy as u64 * plane.delay,
                serial: self.serial,
                to: 1 - from,
                ce: queued > plane.mark,
                bytes: bytes.clone(),
            }));
        }
    }

    /// Runs until `done` or `limit`; returns whether it was `done`.
    pub fn run<N: Node>(
        &mut self,
        nodes: &mut [N; 2],
        limit: Instant,
        mut done: impl FnMut(&mut Sim, &[N; 2]) -> bool,
    ) -> bool {
        let mut out = Vec::new();
        for n in 0..2 {
            self.pump(nodes, n, &mut out);
        }
        loop {
            if done(self, nodes) {
                return true;
            }
            let packet = self.flying.peek().map(|Reverse(f)| f.at);
            let timers = nodes.iter().filter_map(|n| n.deadline()).map(|d| d.0);
            let Some(next) = timers.chain(packet).min() else {
                return false;
            };
            if next > limit.0 {
                return false;
            }
            // A timer that is over already must not stop time.
            self.now = Instant(next.max(self.now.0 + 1));
            let mut hit = [false; 2];
            while let Some(Reverse(f)) = self.flying.peek() {
                if f.at > self.now.0 {
                    break;
                }
                let Some(Reverse(f)) = self.flying.pop() else {
                    break;
                };
                hit[f.to] = true;
                self.delivered += 1;
                nodes[f.to].receive(self.now, f.ce, &f.bytes);
            }
            for n in 0..2 {
                if hit[n] || nodes[n].deadline().is_some_and(|d| d <= self.now) {
                    self.pump(nodes, n, &mut out);
                }
            }
        }
    }

    fn pump<N: Node>(&mut self, nodes: &mut [N; 2], n: usize, out: &mut Vec<(Route, Vec<u8>)>) {
        nodes[n].pump(self.now, out);
        for (route, bytes) in out.drain(..) {
            self.send(n, route, bytes);
        }
    }
}
