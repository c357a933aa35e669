// SPDX-License-Identifier: GPL-2.0

//! Timers of a connection: the handshake's and one per path, all on one deadline.

use super::{Connection, NakStore, Paths, Slots, State};
use crate::packet::PathId;
use crate::path::{Expired, Route};
use crate::time::{Duration, Instant};
use crate::wire::ProbeHeader;

/// Every so many timeouts in a row a path tries another plane; at the others another UDP source port.
const PLANE_EVERY: u8 = 2;

/// How often paths that have left their planes look whether those work again.
const RETURN_EVERY: Duration = Duration::from_millis(1_000);

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
        for path in self.active {
            let deadline = self
                .path(path)
                .and_then(|p| p.tx.deadline(&self.cfg.timers));
            first = earlier(first, deadline);
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
        if self.return_at.is_some_and(|t| t <= now) {
            self.look_homewards(now);
        }
    }

    /// Tries out the planes that paths have left, with a probe each; the answer takes them back.
    fn look_homewards(&mut self, now: Instant) {
        let mut away = false;
        for i in 0..self.n_paths {
            let path = PathId(i);
            if self.is_home(path) {
                continue;
            }
            away = true;
            let route = self.home_route(path);
            if let Some(p) = self.path_mut(path) {
                p.tx.try_route(route);
            }
            self.refresh(path);
        }
        self.return_at = away.then(|| now.after(RETURN_EVERY));
    }

    /// Leaves a route on which nothing gets through.
    fn escape(&mut self, now: Instant, path: PathId, timeouts: u8) {
        if timeouts % PLANE_EVERY == 0 {
            self.change_planes(now, path);
            if self.return_at.is_none() {
                self.return_at = Some(now.after(RETURN_EVERY));
            }
        } else {
            self.change_port(now, path);
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
            let Some((stamp, route, next_psn)) = probe else {
                continue;
            };
            let header = ProbeHeader {
                path,
                route_epoch: route.epoch,
                stamp,
                next_psn,
            };
            return Some(ProbeTx { header, route });
        }
        None
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
