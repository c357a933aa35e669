// SPDX-License-Identifier: GPL-2.0

//! Which path gets the next burst.
//!
//! Two levels. Between planes a virtual clock per local plane advances with the bytes put on it
//! over its speed (start-time fair queueing); the plane that is most behind and has a path with
//! window goes first, so equal planes share evenly to within a burst. Within the plane the path
//! with the least expected delivery time is taken, and now and then just the next one, so that all
//! usable paths keep a fresh estimate.

use super::{Connection, NakStore, Paths, Slots};
use crate::congestion::CongestionControl;
use crate::packet::PathId;
use crate::path::Path;
use crate::time::Instant;
use crate::wire::MAX_PLANES;

/// One burst in so many ignores the expected delivery time.
const EXPLORE: u32 = 16;
/// Bytes that a packet costs beside its payload: our header, UDP, IP, Ethernet.
const OVERHEAD: u64 = 122;
/// How far a plane's clock may fall behind the foremost: a plane that could not send for a while
/// does not get all of the traffic afterwards. 1 MiB at 1 Mbit/s.
const MAX_LAG: u64 = 1 << (20 + CLOCK_SHIFT);
/// Fraction bits of the clock.
const CLOCK_SHIFT: u32 = 20;

/// Leave to put packets on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The path.
    pub path: PathId,
    /// How many packets it takes now.
    pub max_packets: u32,
}

#[derive(Debug, Default)]
pub(super) struct Scheduler {
    clock: [u64; MAX_PLANES],
    turn: u16,
    bursts: u32,
}

impl Scheduler {
    fn clock(&self, plane: u8) -> u64 {
        self.clock.get(usize::from(plane)).copied().unwrap_or(0)
    }

    /// Charges `len` payload bytes to a plane.
    pub(super) fn charge(&mut self, plane: u8, len: u32, speed: u32) {
        let cost = (u64::from(len) + OVERHEAD) << CLOCK_SHIFT;
        let Some(c) = self.clock.get_mut(usize::from(plane)) else {
            return;
        };
        *c = c.saturating_add(cost / u64::from(speed.max(1)));
        let floor = c.saturating_sub(MAX_LAG / u64::from(speed.max(1)));
        for c in &mut self.clock {
            *c = (*c).max(floor);
        }
    }
}

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// Chooses a path for new data. `None` if no usable path has window: ask again after an ACK or
    /// a timeout. Nothing is kept for the caller; it assigns at most `max_packets` before it asks
    /// again.
    pub fn reserve(&mut self, _now: Instant) -> Option<Burst> {
        if !self.established() {
            return None;
        }
        let n = self.n_paths;
        self.scheduler.bursts = self.scheduler.bursts.wrapping_add(1);
        let explore = self.scheduler.bursts % EXPLORE == 0;
        let least_rtt = self.least_rtt();
        let mut best: Option<((u64, u64), PathId, u32)> = None;
        for k in 0..n {
            let path = PathId((self.scheduler.turn + k).checked_rem(n)?);
            if !self.is_usable(path) {
                continue;
            }
            let Some(p) = self.path(path) else {
                continue;
            };
            let room = p.tx.room();
            if room == 0 {
                continue;
            }
            let clock = self.scheduler.clock(p.tx.route().local_plane);
            let cost = if explore { 0 } else { delivery(p, least_rtt) };
            let key = (clock, cost);
            if best.is_none_or(|(b, ..)| key < b) {
                best = Some((key, path, room));
            }
        }
        let (_, path, room) = best?;
        self.scheduler.turn = (path.0 + 1).checked_rem(n)?;
        Some(Burst {
            path,
            max_packets: room.min(self.cfg.burst.max(1)),
        })
    }

    /// The least smoothed round-trip time of all paths, ns.
    fn least_rtt(&self) -> u64 {
        let all = self.paths.iter().take(usize::from(self.n_paths));
        all.filter_map(|p| p.tx.rtt().smoothed())
            .map(|d| d.0)
            .min()
            .unwrap_or(0)
    }
}

/// Expected time until a packet put on the path now is delivered, in arbitrary units: the round
/// trip, longer by the share of the window that is in use. Differences of a quarter in the round
/// trip are noise; a path without an estimate counts as good.
fn delivery<S: Slots>(p: &Path<S>, least_rtt: u64) -> u64 {
    let noise = least_rtt.saturating_add(least_rtt / 4).max(1_000);
    let rtt = p.tx.rtt().smoothed().map_or(0, |d| d.0).max(noise);
    let window = u64::from(p.tx.controller().window().max(1));
    let used = u64::from(p.tx.in_flight()).min(window);
    rtt.saturating_mul(window + used) / window
}
