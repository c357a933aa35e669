// SPDX-License-Identifier: GPL-2.0

//! Waits that end, and patience that does.

use core::ops::DerefMut;

use super::{Hold, SendStream};
use crate::stream::{before, local_ack_timeout, SendMsg, SendOp, WcStatus};
use crate::time::{Duration, Instant};

impl<B: DerefMut<Target = [SendMsg]>> SendStream<B> {
    /// When [`on_timeout`](Self::on_timeout) is due next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if let Some(until) = self.wait_end() {
            return Some(until);
        }
        if !self.expects_progress() {
            return None;
        }
        Some(self.silent_since().after(self.period()?))
    }

    /// Acts on time passed. `conn_progress` is when the peer last acknowledged anything on the
    /// connection: while it does, a stream does not give up for not having got its turn.
    ///
    /// A try is over when this finds a whole period without progress, not when the period is: where
    /// the machine itself stood still (a stalled VM, a starved CPU), what the peer has answered may
    /// still be on its way here, and costs one try, not all of them.
    pub fn on_timeout(&mut self, now: Instant, conn_progress: Instant) {
        if let Some(until) = self.wait_end() {
            if now >= until {
                self.hold = self.hold.map(|h| Hold { until: None, ..h });
                self.progress = now;
            }
            return;
        }
        let Some(period) = self.period().filter(|_| self.expects_progress()) else {
            return;
        };
        let in_flight = self.head != self.cursor || self.cursor_offset != 0;
        if !in_flight && conn_progress > self.progress {
            self.progress = conn_progress;
        }
        if self.progress > self.looked {
            self.silent_tries = 0;
        }
        if now < self.silent_since().after(period) {
            return;
        }
        self.looked = now;
        if self.silent_tries >= self.cfg.retry_cnt {
            if self.cfg.unreliable {
                return self.lose();
            }
            self.set_failure(self.head, WcStatus::RetryExceeded);
        }
        self.silent_tries = self.silent_tries.saturating_add(1);
    }

    /// Begin of the current try.
    fn silent_since(&self) -> Instant {
        self.progress.max(self.looked)
    }

    /// End of the wait that the oldest message is in.
    fn wait_end(&self) -> Option<Instant> {
        self.hold.filter(|h| h.pos == self.head)?.until
    }

    /// Whether it is up to the peer or the network that the oldest message gets done.
    fn expects_progress(&self) -> bool {
        if self.flushing || self.head == self.next {
            return false;
        }
        let started = before(self.head, self.started);
        let failed = self.failure.is_some_and(|f| f.pos == self.head);
        let local = self.at(self.head).is_some_and(|m| m.op == SendOp::Local);
        !failed && !local && (started || !self.draining)
    }

    /// How long the peer may stay silent in each of `retry_cnt` + 1 tries (IBTA 1.4, 9.7.6.1.3),
    /// `None` without limit.
    fn period(&self) -> Option<Duration> {
        local_ack_timeout(self.cfg.ack_timeout)
    }
}
