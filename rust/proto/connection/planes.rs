// SPDX-License-Identifier: GPL-2.0

//! Which planes the paths use.
//!
//! Path i of both sides joins local plane i mod n and remote plane i mod m. With equally many
//! planes that is plane k to plane k, as separate fabrics need it; otherwise every plane of both
//! sides gets its share. A path whose planes are not both up moves to the next pair that is, at
//! once; it goes back after a probe there was answered.

use super::{Connection, Event, NakStore, Paths, Slots};
use crate::packet::PathId;
use crate::path::Route;
use crate::time::Instant;
use crate::wire::PlaneList;

/// First UDP source port, and how many there are: the dynamic ports of RFC 6335.
const PORT_FIRST: u16 = 49_152;
const PORT_BITS: u32 = 14;

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// A local plane went down or came up, see [`Connection::set_local_planes`].
    pub fn set_local_plane(&mut self, now: Instant, plane: u8, up: bool) {
        let mut planes = self.cfg.planes;
        if let Some(p) = planes.get_mut(plane) {
            p.up = up;
            self.set_local_planes(now, &planes);
        }
    }

    /// The local planes are these from now on; the peer is told. Paths of planes that are down
    /// move to others at once; planes that came up, or that are new, are tried out by the paths
    /// that belong there. The number of paths stays.
    ///
    /// A plane keeps its place in the list; one that is gone is down there, until another takes its
    /// place. An empty list changes nothing.
    pub fn set_local_planes(&mut self, now: Instant, planes: &PlaneList) {
        if planes.is_empty() || *planes == self.cfg.planes {
            return;
        }
        for (i, s) in (0..).zip(&mut self.planes) {
            let up = |list: &PlaneList| list.get(i).is_some_and(|p| p.up);
            s.downs += u64::from(up(&self.cfg.planes) && !up(planes));
        }
        self.cfg.planes = *planes;
        if self.established() {
            self.settle_routes(now);
        }
        self.announce(now);
    }

    /// Whether new packets may be put on the path: its planes are up.
    pub fn is_usable(&self, path: PathId) -> bool {
        self.route(path)
            .is_some_and(|r| self.pair_up((r.local_plane, r.remote_plane)))
    }

    /// The pair of planes that a path is on unless it had to leave.
    pub(super) fn home(&self, path: PathId) -> (u8, u8) {
        self.pair(u32::from(path.0))
    }

    /// Whether the path is on its own planes, or those are known to be down.
    pub(super) fn is_home(&self, path: PathId) -> bool {
        let home = self.home(path);
        let current = self.route(path).map(|r| (r.local_plane, r.remote_plane));
        current == Some(home) || !self.pair_up(home)
    }

    /// Moves a path to another UDP source port, same planes.
    pub fn change_port(&mut self, now: Instant, path: PathId) {
        if let Some(route) = self.route(path) {
            let src_port = self.next_port();
            self.reroute(now, path, Route { src_port, ..route }, true);
        }
    }

    /// Moves a path to the next pair of planes that is up, or to another UDP source port if there
    /// is none.
    pub fn change_planes(&mut self, now: Instant, path: PathId) {
        let Some(route) = self.route(path) else {
            return;
        };
        let current = (route.local_plane, route.remote_plane);
        let pair = self
            .pairs_of(path)
            .find(|p| *p != current && self.pair_up(*p));
        match pair {
            Some((local_plane, remote_plane)) => {
                let src_port = self.next_port();
                let route = Route {
                    local_plane,
                    remote_plane,
                    src_port,
                    ..route
                };
                self.reroute(now, path, route, true);
            }
            None => self.change_port(now, path),
        }
    }

    /// After a change of planes: takes paths off those that are down, and has those that are not at
    /// home look there.
    pub(super) fn settle_routes(&mut self, now: Instant) {
        let mut away = false;
        for i in 0..self.n_paths {
            self.settle_route(now, PathId(i));
            away |= !self.is_home(PathId(i));
        }
        if away {
            self.return_at = Some(now);
            self.return_tries = 0;
        }
        self.events.push(Event::PathsChanged);
    }

    /// Takes a path off planes that are down: home, if that is up, else to others.
    pub(super) fn settle_route(&mut self, now: Instant, path: PathId) {
        let Some(route) = self.route(path) else {
            return;
        };
        let current = (route.local_plane, route.remote_plane);
        let home = self.home(path);
        if self.pair_up(current) {
            return;
        }
        let mut others = self.pairs_of(path).filter(|p| self.pair_up(*p));
        let target = if self.pair_up(home) {
            Some(home)
        } else {
            others.next()
        };
        drop(others);
        if let Some((local_plane, remote_plane)) = target {
            let route = Route {
                local_plane,
                remote_plane,
                ..route
            };
            self.reroute(now, path, route, true);
            // Neither packets nor their ACKs come through any more.
            self.write_off(path);
            self.stats.reroutes_plane += 1;
            self.events.push(Event::Migrated);
        }
    }

    pub(super) fn home_route(&mut self, path: PathId) -> Route {
        let (local_plane, remote_plane) = self.home(path);
        Route {
            local_plane,
            remote_plane,
            src_port: self.next_port(),
            epoch: 0,
        }
    }

    /// What the path sent on earlier routes is lost.
    pub(super) fn write_off(&mut self, path: PathId) {
        if let Some(p) = self.path_mut(path) {
            p.tx.write_off();
        }
        self.refresh(path);
    }

    fn reroute(&mut self, now: Instant, path: PathId, route: Route, old_dead: bool) {
        if let Some(p) = self.path_mut(path) {
            p.tx.change_route(now, route, old_dead);
        }
        self.refresh(path);
    }

    /// The k-th pair of planes.
    fn pair(&self, k: u32) -> (u8, u8) {
        let index = |n: u8| u8::try_from(k.checked_rem(u32::from(n)).unwrap_or(0)).unwrap_or(0);
        (index(self.cfg.planes.len()), index(self.peer_planes.len()))
    }

    /// Pairs for a path that cannot use its home, so that neighbours spread over the others.
    fn pairs_of(&self, path: PathId) -> impl Iterator<Item = (u8, u8)> + '_ {
        let (n, m) = (
            u32::from(self.cfg.planes.len()),
            u32::from(self.peer_planes.len()),
        );
        let most = n.max(m).max(1);
        let k = u32::from(path.0);
        let skip = 1 + (k / most) % most.saturating_sub(1).max(1);
        (0..n * m).map(move |j| self.pair(k + skip + j))
    }

    pub(super) fn pair_up(&self, (local, remote): (u8, u8)) -> bool {
        match (self.cfg.planes.get(local), self.peer_planes.get(remote)) {
            (Some(l), Some(r)) => l.up && r.up && l.gid.is_v4() == r.gid.is_v4(),
            _ => false,
        }
    }

    /// Speed that a pair of planes allows, Mbit/s, at least 1.
    pub(super) fn pair_speed(&self, local: u8, remote: u8) -> u32 {
        let speed = |s: Option<u32>| s.filter(|s| *s > 0).unwrap_or(u32::MAX);
        speed(self.cfg.planes.get(local).map(|p| p.speed))
            .min(speed(self.peer_planes.get(remote).map(|p| p.speed)))
    }

    /// Another UDP source port.
    fn next_port(&mut self) -> u16 {
        self.port_counter = self.port_counter.wrapping_add(1);
        // Fibonacci hashing; the upper bits are the well mixed ones.
        let hash = self.port_counter.wrapping_mul(0x9e37_79b9) >> (32 - PORT_BITS);
        // CAST: PORT_BITS bits.
        PORT_FIRST + hash as u16
    }
}
