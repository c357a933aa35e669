// SPDX-License-Identifier: GPL-2.0

//! Timers of a connection: the handshake's and one per path, all on one deadline.

use super::{Connection, NakStore, Paths, Slots, State};
use crate::packet::PathId;
use crate::path::{Expired, Route};
use crate::time::Instant;
use crate::wire::ProbeHeader;

/// Timeouts in a row after which a path gets another UDP source port: one may be an accident.
const PORT_AFTER: u8 = 2;
/// Timeouts in a row after which, and then each so many, a path tries another plane.
const PLANE_AFTER: u8 = 4;

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
        for path in self.active {
            let deadline = self
                .path(path)
                .and_then(|p| p.tx.deadline(&self.cfg.timers));
            first = match (first, deadline) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        first
    }

    /// Acts on timers that have run out; then retransmissions, probes or an INIT are due.
    pub fn on_timeout(&mut self, now: Instant) {
        if !self.established() {
            return;
        }
        for path in self.active {
            let timers = self.cfg.timers;
            let expired = self
                .path_mut(path)
                .and_then(|p| p.tx.on_timeout(now, &timers));
            self.refresh(path);
            if let Some(Expired::Timeout(n)) = expired {
                self.escape(now, path, n);
            }
        }
    }

    /// Leaves a route on which nothing gets through.
    fn escape(&mut self, now: Instant, path: PathId, timeouts: u8) {
        if timeouts == PORT_AFTER {
            self.change_port(now, path);
        } else if timeouts >= PLANE_AFTER && timeouts % PLANE_AFTER == 0 {
            self.change_planes(now, path);
        } else {
            return;
        }
        self.stats.reroutes_timeout += 1;
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
            let Some((stamp, route_epoch, next_psn)) = probe else {
                continue;
            };
            let header = ProbeHeader {
                path,
                route_epoch,
                stamp,
                next_psn,
            };
            let route = self.route(path)?;
            return Some(ProbeTx { header, route });
        }
        None
    }
}
