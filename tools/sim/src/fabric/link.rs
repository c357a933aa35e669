// SPDX-License-Identifier: GPL-2.0

//! One direction of a link, and the queue in front of it.
//!
//! The queue is a number: when the link will have sent all that waits. That is enough for a FIFO,
//! and a packet costs one event per link.

use crate::rng::Rng;
use crate::time::Ps;

/// What switches do at their output queues; thresholds in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Queueing {
    /// Up to here no packet is marked.
    pub mark_min: u64,
    /// From here on every packet is marked; between, the probability grows in proportion.
    pub mark_max: u64,
    /// What would go beyond is dropped.
    pub limit: u64,
}

impl Queueing {
    /// A queue without bounds: a host's own.
    pub const UNBOUNDED: Queueing = Queueing {
        mark_min: u64::MAX,
        mark_max: u64::MAX,
        limit: u64::MAX,
    };
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Link {
    /// When it has sent all that waits.
    free: Ps,
    /// Picoseconds that a byte takes.
    per_byte: u64,
    /// Propagation, and the forwarding delay of what is behind it.
    delay: Ps,
    queueing: Queueing,
    /// Whether anything gets through.
    pub up: bool,
    /// Packets lost at random, in 1/10,000.
    pub loss: u32,
    /// Bytes sent, of all layers.
    pub bytes: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets dropped because the queue was full.
    pub drops: u64,
    /// Packets lost because the link was down, or by chance.
    pub lost: u64,
    /// Longest queue, bytes.
    pub peak: u64,
}

impl Link {
    /// A link of `rate` Mbit/s.
    pub fn new(rate: u64, delay: Ps, queueing: Queueing) -> Self {
        Link {
            free: 0,
            per_byte: 8_000_000 / rate.max(1),
            delay,
            queueing,
            up: true,
            loss: 0,
            bytes: 0,
            marks: 0,
            drops: 0,
            lost: 0,
            peak: 0,
        }
    }

    /// Bytes that wait.
    pub fn backlog(&self, now: Ps) -> u64 {
        self.free.saturating_sub(now) / self.per_byte
    }

    /// When no more than `bytes` will wait, if nothing is added.
    pub fn below_at(&self, bytes: u64) -> Ps {
        self.free.saturating_sub(bytes * self.per_byte)
    }

    /// Puts a packet of `size` bytes into the queue. Returns when it is at the far end and whether
    /// it was marked; `None` if it was dropped. `rng` decides about marks.
    pub fn send(&mut self, now: Ps, size: u32, rng: &mut Rng) -> Option<(Ps, bool)> {
        let backlog = self.backlog(now);
        let after = backlog + u64::from(size);
        if after > self.queueing.limit {
            self.drops += 1;
            return None;
        }
        self.peak = self.peak.max(after);
        let q = &self.queueing;
        let ce = if backlog >= q.mark_max {
            true
        } else if backlog > q.mark_min {
            rng.below(q.mark_max - q.mark_min) < backlog - q.mark_min
        } else {
            false
        };
        self.marks += u64::from(ce);
        self.bytes += u64::from(size);
        self.free = self.free.max(now) + u64::from(size) * self.per_byte;
        Some((self.free + self.delay, ce))
    }

    /// Whether a packet that has come to the far end is lost. What was under way when the link went
    /// down is lost too.
    pub fn loses(&mut self, rng: &mut Rng) -> bool {
        let lost = !self.up || self.loss > 0 && rng.chance(self.loss);
        self.lost += u64::from(lost);
        lost
    }
}
