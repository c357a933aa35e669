// SPDX-License-Identifier: GPL-2.0

//! Which path gets the next burst.
//!
//! The one with the least expected delivery time, in classes: what differs by less than hosts and
//! queues vary anyway is the same class. Within the best class the planes take turns by a virtual
//! clock each that advances with the bytes put on it over its speed (start-time fair queueing), so
//! equal planes share evenly to within a burst, and within the plane the path with the least time
//! is taken. Now and then the class is ignored, so that all usable paths keep a fresh estimate.
//!
//! A path that is silent gets nothing while others are not, and one that loses far more packets than
//! the best gets only what it takes to see whether that is still so. The shares of unequal planes
//! come by themselves: a window opens as fast as its plane delivers.

use super::timers::earlier;
use super::{Connection, NakStore, Paths, Slots};
use crate::congestion::{CongestionControl, Pace};
use crate::packet::PathId;
use crate::path::Path;
use crate::time::{Duration, Instant};
use crate::wire::{LINK_OVERHEAD, MAX_PLANES};

/// One burst in so many ignores the expected delivery time.
const EXPLORE: u32 = 16;
/// [`LINK_OVERHEAD`] as bytes are counted here.
// CAST: widening.
const OVERHEAD: u64 = LINK_OVERHEAD as u64;
/// How far a plane's clock may fall behind the foremost: a plane that could not send for a while
/// does not get all of the traffic afterwards. 1 MiB at 1 Mbit/s.
const MAX_LAG: u64 = 1 << (20 + CLOCK_SHIFT);
/// Fraction bits of the clock.
const CLOCK_SHIFT: u32 = 20;
/// Differences in delivery time that are noise, beside a factor of four: in grains.
const NOISE: u64 = 2;
/// Loss beyond twice that of the best path at which a path is shunned, of 1024: 3/16. At a tenth a
/// plane still carries most of its share, and what it loses comes within a round trip; at 30 %
/// nearly every message would wait for it, some twice.
const SHUN: u32 = 192;
/// How often a path that is shunned gets a burst, at the most; in grains.
const SHUN_EVERY: u64 = 5;
/// … and in round trips of the best path: what is lost holds its message up for one at least.
const SHUN_TRIPS: u64 = 16;
/// Packets of such a burst.
const SHUN_BURST: u32 = 4;

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
    /// When a path that is shunned may get something next.
    shunned_at: Instant,
}

impl Scheduler {
    /// Begins with one of `n` paths, picked by a random number.
    pub(super) fn start_at(&mut self, random: u32, n: u16) {
        let turn = random.checked_rem(u32::from(n)).unwrap_or(0);
        self.turn = u16::try_from(turn).unwrap_or(0);
    }

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

/// What the usable paths are measured by.
struct Best {
    /// The least expected delivery time, ns.
    delivery: u64,
    /// The least round trip of a path that is not silent.
    rtt: Duration,
    /// The least share of loss, of 1024.
    loss: u32,
}

/// A path that may take a burst; the least is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    silent: bool,
    class: u32,
    clock: u64,
    delivery: u64,
}

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// Chooses a path for new data. `None` if no usable path has window, or if pacing forbids it:
    /// ask again after an ACK or a timeout ([`Connection::poll_timeout`] covers it). Nothing is
    /// kept for the caller; it assigns at most `max_packets` before it asks again.
    pub fn reserve(&mut self, now: Instant) -> Option<Burst> {
        self.paced_until = None;
        if !self.established() {
            return None;
        }
        let n = self.n_paths;
        self.scheduler.bursts = self.scheduler.bursts.wrapping_add(1);
        let explore = self.scheduler.bursts % EXPLORE == 0;
        let best = self.best();
        let noise = self.grain().0.saturating_mul(NOISE);
        let mut choice: Option<(Candidate, PathId, u32)> = None;
        let mut paced = None;
        let mut rest = self.open;
        while let Some(path) = rest.first_from(PathId(self.scheduler.turn)) {
            rest.assign(path, false);
            if !self.is_usable(path) {
                continue;
            }
            let Some(p) = self.path(path) else {
                continue;
            };
            let mut room = match p.tx.room_paced(now) {
                Ok(0) => {
                    self.open.assign(path, false);
                    continue;
                }
                Ok(room) => room,
                Err(at) => {
                    paced = earlier(paced, Some(at));
                    continue;
                }
            };
            let shunned = p.tx.loss_share() > SHUN + 2 * best.loss;
            if shunned {
                if now < self.scheduler.shunned_at {
                    paced = earlier(paced, Some(self.scheduler.shunned_at));
                    continue;
                }
                room = room.min(SHUN_BURST);
            }
            let delivery = delivery(p);
            let candidate = Candidate {
                silent: p.tx.is_silent(),
                class: if explore || shunned {
                    0
                } else {
                    best.class(delivery, noise)
                },
                clock: self.scheduler.clock(p.tx.route().local_plane),
                delivery: if explore {
                    0
                } else {
                    delivery / (best.delivery / 4).max(1)
                },
            };
            if shunned && !candidate.silent {
                // It is due, and that is seldom.
                choice = Some((candidate, path, room));
                // This path is not silent, so there is a best round trip.
                let trips = best.rtt.saturating_mul(SHUN_TRIPS);
                let wait = self.grain().saturating_mul(SHUN_EVERY).max(trips);
                self.scheduler.shunned_at = now.after(wait);
                break;
            }
            if choice.is_none_or(|(c, ..)| candidate < c) {
                choice = Some((candidate, path, room));
            }
        }
        let Some((_, path, room)) = choice else {
            self.paced_until = paced;
            return None;
        };
        let max_packets = self.hinted(now, room.min(self.cfg.burst.max(1)))?;
        self.scheduler.turn = (path.0 + 1).checked_rem(n)?;
        Some(Burst { path, max_packets })
    }

    /// How many of `wanted` packets the peer's hint lets go now.
    fn hinted(&mut self, now: Instant, wanted: u32) -> Option<u32> {
        let packet = u64::from(self.payload_mtu) + OVERHEAD;
        let bytes = packet * u64::from(wanted);
        match self.hinted.credit(now, &self.hint_pace(), bytes) {
            Ok(n) => u32::try_from((n / packet).max(1)).ok(),
            Err(at) => {
                self.paced_until = Some(at);
                None
            }
        }
    }

    /// The pace, in bytes, that the peer's hint asks for.
    fn hint_pace(&self) -> Pace {
        let packet = u32::from(self.payload_mtu);
        Pace::of_rate(self.rate_hint, packet.saturating_mul(4), self.grain())
    }

    /// Charges a transmission of `len` payload bytes against the hint.
    pub(super) fn charge_hint(&mut self, now: Instant, len: u32) {
        let pace = self.hint_pace();
        self.hinted.charge(now, &pace, u64::from(len) + OVERHEAD);
    }

    fn best(&self) -> Best {
        let mut best = Best {
            delivery: u64::MAX,
            rtt: Duration(u64::MAX),
            loss: u32::MAX,
        };
        for i in 0..self.n_paths {
            let path = PathId(i);
            let Some(p) = self.path(path).filter(|_| self.is_usable(path)) else {
                continue;
            };
            best.loss = best.loss.min(p.tx.loss_share());
            if !p.tx.is_silent() {
                best.delivery = best.delivery.min(delivery(p));
                best.rtt = best.rtt.min(p.tx.rtt().smoothed().unwrap_or_default());
            }
        }
        best
    }
}

impl Best {
    /// Class of a delivery time: 0 up to noise above the best, then one for each doubling.
    fn class(&self, delivery: u64, noise: u64) -> u32 {
        let same = self
            .delivery
            .saturating_mul(4)
            .max(self.delivery.saturating_add(noise))
            .max(1);
        match delivery / same {
            0 => 0,
            n => 1 + n.ilog2(),
        }
    }
}

/// Expected time until a packet put on the path now is delivered, ns: the round trip, longer by the
/// share of the window that is in use, by that of packets that are marked, and by the further round
/// trip that a lost packet takes. A path without an estimate counts as good.
fn delivery<S: Slots>(p: &Path<S>) -> u64 {
    let rtt = p.tx.rtt().smoothed().map_or(0, |d| d.0);
    let window = u64::from(p.tx.controller().window().max(1));
    let used = u64::from(p.tx.in_flight()).min(window);
    let marked = u64::from(p.tx.controller().marked_share());
    let lost = u64::from(p.tx.loss_share());
    let queued = rtt.saturating_add(rtt / window * used);
    let bad = 1024 + marked + 2 * lost;
    queued.saturating_mul(bad) / 1024
}
