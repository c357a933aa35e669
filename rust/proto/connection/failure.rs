// SPDX-License-Identifier: GPL-2.0

//! Leaving routes that carry nothing, and coming back to them.
//!
//! A path that is silent asks with a probe, then times out. What that says depends on the others:
//!
//! * no path makes progress: a host or all of the network stands still. Timeouts come late, and
//!   routes are tried in turn;
//! * others do, on the same planes too: this route is bad. Another UDP source port;
//! * others do, but none on these planes: the planes carry nothing, although their links are up.
//!   All their paths move at once.
//!
//! Paths that are not at home have one of them, the scout, try the way there now and then.

use super::{Connection, Event, NakStore, Paths, Slots};
use crate::packet::PathId;
use crate::time::{Duration, Instant};

/// How long a path must be stuck before it gives its route up. A change of route costs little, but
/// hosts hold single packets up for a while, too. In grains.
const ROUTE_PATIENCE: u64 = 4;
/// How long all paths of a pair of planes must be stuck before they are given up, in
/// grains.
const PLANE_PATIENCE: u64 = 8;
/// Every so many timeouts in a row a path that is stuck alone tries other planes.
const PLANE_EVERY: u8 = 2;

/// How often scouts try the way home, in grains.
const RETURN_EVERY: u64 = 100;
/// How often after [`RETURN_OFTEN`] attempts.
const RETURN_SELDOM: u64 = 500;
/// Attempts at the quick pace: half a minute of them.
const RETURN_OFTEN: u16 = 300;

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// A path timed out, for the `n`-th time in a row.
    pub(super) fn escape(&mut self, now: Instant, path: PathId, n: u8) {
        let Some((since, base)) = self.path(path).and_then(|p| {
            let since = p.tx.busy_since()?;
            Some((since, self.cfg.timers.rto_base(p.tx.rtt())))
        }) else {
            return;
        };
        let stuck = now.since(since);
        let grain = self.grain();
        let patience = base.max(grain.saturating_mul(PLANE_PATIENCE));
        if self.planes_quiet(now, path).is_some_and(|d| d >= patience) {
            self.leave_planes(now, path);
        } else if stuck < base.max(grain.saturating_mul(ROUTE_PATIENCE)) {
            return;
        } else if n % PLANE_EVERY == 0 {
            self.change_planes(now, path);
        } else {
            self.change_port(now, path);
        }
        self.stats.reroutes_timeout += 1;
        if self.return_at.is_none() && !self.is_home(path) {
            self.return_tries = 0;
            self.return_at = Some(now.after(grain.saturating_mul(RETURN_EVERY)));
        }
    }

    /// For how long no path on the planes of this one has made progress, if others have meanwhile.
    /// The first of them to time out need not be the last that got through.
    fn planes_quiet(&self, now: Instant, path: PathId) -> Option<Duration> {
        let planes = self.planes_of(path)?;
        let same = |i: &u16| self.planes_of(PathId(*i)) == Some(planes);
        let progress = |i: u16| Some(self.path(PathId(i))?.tx.progress());
        let last = (0..self.n_paths).filter(same).filter_map(progress).max()?;
        (self.alive > last).then(|| now.since(last))
    }

    /// Moves all paths away from the planes that `path` is on.
    fn leave_planes(&mut self, now: Instant, path: PathId) {
        let Some(planes) = self.planes_of(path) else {
            return;
        };
        self.stats.planes_left += 1;
        self.events.push(Event::Migrated);
        for i in 0..self.n_paths {
            let path = PathId(i);
            if self.planes_of(path) != Some(planes) {
                continue;
            }
            self.change_planes(now, path);
            self.write_off(path);
        }
    }

    fn planes_of(&self, path: PathId) -> Option<(u8, u8)> {
        self.route(path).map(|r| (r.local_plane, r.remote_plane))
    }

    /// Has the first path of each home that others are away from try it out, with a probe; the
    /// answer takes it back, and the others with it.
    pub(super) fn look_homewards(&mut self, now: Instant) {
        let mut away = false;
        for i in 0..self.n_paths {
            let path = PathId(i);
            if self.is_home(path) {
                continue;
            }
            away = true;
            let home = self.home(path);
            let first = (0..i).all(|k| self.is_home(PathId(k)) || self.home(PathId(k)) != home);
            if first {
                self.try_home(path);
            }
        }
        self.return_tries = self.return_tries.saturating_add(1);
        let wait = if self.return_tries < RETURN_OFTEN {
            RETURN_EVERY
        } else {
            RETURN_SELDOM
        };
        self.return_at = away.then(|| now.after(self.grain().saturating_mul(wait)));
    }

    /// A path came home: the others of that home try, too.
    pub(super) fn came_home(&mut self, path: PathId) {
        self.stats.returns += 1;
        let home = self.home(path);
        for i in 0..self.n_paths {
            let other = PathId(i);
            if other != path && self.home(other) == home && !self.is_home(other) {
                self.try_home(other);
            }
        }
    }

    fn try_home(&mut self, path: PathId) {
        let route = self.home_route(path);
        if let Some(p) = self.path_mut(path) {
            p.tx.try_route(route);
        }
        self.refresh(path);
    }

    /// The first progress after none was made for a while: the other paths need not wait for their
    /// back-off to end.
    pub(super) fn wake_others(&mut self, now: Instant, path: PathId) {
        for other in self.active {
            if other == path {
                continue;
            }
            if let Some(p) = self.path_mut(other) {
                p.tx.retry_now(now);
            }
            self.refresh(other);
        }
    }
}
