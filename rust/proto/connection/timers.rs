// SPDX-License-Identifier: GPL-2.0

//! Timers of a connection: the handshake's, the pacers' and one per path, all on one deadline.

use super::{Connection, NakStore, Paths, Slots, State};
use crate::path::{Expired, Route};
use crate::time::Instant;
use crate::wire::ProbeHeader;

/// A probe to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTx {
    /// The packet.
    pub header: ProbeHeader,
    /// The route to take.
    pub route: Route,
}

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// When [`Connection::on_timeout`] is to be called next, `None` if nothing waits. Any other
    /// call may change it.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let mut first = self.handshake.deadline();
        if self.handshake.state() != State::Established {
            return first;
        }
        first = earlier(first, self.return_at);
        first = earlier(first, self.paced_until);
        for path in self.active {
            let deadline = self
                .path(path)
                .and_then(|p| p.tx.deadline(&self.cfg.timers));
            first = earlier(first, deadline);
        }
        first
    }

    /// Acts on timers that have run out; then new data, retransmissions, probes or an INIT may be
    /// due.
    pub fn on_timeout(&mut self, now: Instant) {
        if !self.established() {
            return;
        }
        self.paced_until.take_if(|t| *t <= now);
        let (timers, alive) = (self.cfg.timers, self.alive);
        for path in self.active {
            let expired = self.path_mut(path).and_then(|p| {
                let others = p.tx.busy_since().is_some_and(|since| alive > since);
                p.tx.on_timeout(now, &timers, others)
            });
            self.refresh(path);
            if let Some(Expired::Timeout(n)) = expired {
                self.escape(now, path, n);
            }
        }
        if self.return_at.is_some_and(|t| t <= now) {
            self.look_homewards(now);
        }
    }

    /// The next probe to send. As with [`Connection::assign`], it is handed to the device under
    /// the lock.
    pub fn poll_probe(&mut self, now: Instant) -> Option<ProbeTx> {
        if !self.established() {
            return None;
        }
        for path in self.probe {
            if !self.is_usable(path) {
                continue;
            }
            let probe = self.path_mut(path).and_then(|p| p.tx.probe(now));
            self.refresh(path);
            let Some((stamp, route, next_psn)) = probe else {
                continue;
            };
            let header = ProbeHeader {
                path,
                route_epoch: route.epoch,
                stamp,
                next_psn,
                src_conn: self.cfg.local_id,
            };
            return Some(ProbeTx { header, route });
        }
        None
    }
}

/// The earlier of two deadlines.
pub(super) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
