// SPDX-License-Identifier: GPL-2.0

//! Receiver-driven fair share: who may send how much into a plane.
//!
//! The inbound capacity of a plane is divided among the senders that are active by max-min
//! fairness: there is one *level*; who wants less gets what it wants, all others get the level, and
//! together they fill the plane (water filling). So a hint is the level, and is the same for all.
//!
//! A sender is one connection. Its [`Meter`] sees what arrives; every so often it tells the
//! [`Inbound`] of the plane, which all connections of a device share, what the sender seems to want.
//! That costs the shared state a few additions, whatever the number of senders, and is not done
//! for each packet. The level is worked out anew with each such message, so a new sender changes
//! the hints in the very next acknowledgements of all.
//!
//! A sender that falls silent is forgotten: contributions count for the epoch in which they are
//! made and the next one only. Epochs are as long as it takes to hear of everyone.

mod meter;
#[cfg(test)]
mod tests;

pub use meter::Meter;

use crate::time::{Duration, Instant};

/// Least length of an epoch, in grains ([`crate::recovery::Timers::granularity`]).
const EPOCH: u64 = 16;
/// The most, likewise.
const EPOCH_MOST: u64 = 1000;
/// Packets, within an epoch, that make a sender active. Who sends less needs no limit, and would
/// only take from the others for as long as it takes to see that.
const ACTIVE: u32 = 16;
/// Bits of a packet of the largest path MTU (4 KiB).
const PACKET_BITS: u64 = (4096 + 128) * 8;

/// What senders have told of themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    senders: u32,
    /// Of those, the ones that would take more than the level.
    greedy: u32,
    /// What the others want together, kbit/s.
    demand: u64,
}

/// One sender's part of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Want {
    /// It is not active.
    #[default]
    Nothing,
    /// So many kbit/s.
    Some(u64),
    /// All that it can get.
    All,
}

impl Sums {
    fn add(&mut self, want: Want) {
        match want {
            Want::Nothing => {}
            Want::Some(kbps) => {
                self.senders += 1;
                self.demand = self.demand.saturating_add(kbps);
            }
            Want::All => {
                self.senders += 1;
                self.greedy += 1;
            }
        }
    }

    fn remove(&mut self, want: Want) {
        match want {
            Want::Nothing => {}
            Want::Some(kbps) => {
                self.senders = self.senders.saturating_sub(1);
                self.demand = self.demand.saturating_sub(kbps);
            }
            Want::All => {
                self.senders = self.senders.saturating_sub(1);
                self.greedy = self.greedy.saturating_sub(1);
            }
        }
    }
}

/// The inbound side of a plane, shared by all connections of a device.
#[derive(Clone, Copy, Debug)]
pub struct Inbound {
    /// Mbit/s, 0 if unknown.
    capacity: u32,
    grain: Duration,
    epoch: u64,
    began: Instant,
    now: Sums,
    before: Sums,
}

impl Inbound {
    /// A plane that takes in `capacity` Mbit/s, 0 if that is not known: then there are no hints.
    pub const fn new(capacity: u32, grain: Duration) -> Self {
        const NONE: Sums = Sums {
            senders: 0,
            greedy: 0,
            demand: 0,
        };
        Inbound {
            capacity,
            grain,
            epoch: 0,
            began: Instant(0),
            now: NONE,
            before: NONE,
        }
    }

    /// Sets what the plane takes in, Mbit/s.
    pub fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity;
    }

    /// What the plane takes in, Mbit/s.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Senders that are active.
    pub fn senders(&self) -> u32 {
        self.now.senders + self.before.senders
    }

    /// The share of a sender that takes what it can get, kbit/s; 0 if there is no need to limit
    /// anyone: fewer than two are active, or the capacity is not known.
    ///
    /// A little is left over, so that a queue that has formed goes away again.
    pub fn level(&self) -> u32 {
        let senders = self.senders();
        if senders < 2 || self.capacity == 0 {
            return 0;
        }
        let capacity = u64::from(self.capacity) * 1000 * 63 / 64;
        let demand = self.now.demand.saturating_add(self.before.demand);
        let greedy = u64::from((self.now.greedy + self.before.greedy).max(1));
        let left = capacity.saturating_sub(demand) / greedy;
        let kbps = left.max(capacity / u64::from(senders));
        u32::try_from(kbps).unwrap_or(u32::MAX).max(1)
    }

    /// Length of an epoch: a slow plane with many senders takes its time to bring enough packets
    /// of each, and of one more, to know them as active; twice that, as they need not be in step.
    fn length(&self) -> Duration {
        let least = self.grain.saturating_mul(EPOCH);
        let packets = 2 * u64::from(ACTIVE) * (u64::from(self.senders()) + 1);
        let slow = packets
            .saturating_mul(PACKET_BITS * 1000)
            .checked_div(u64::from(self.capacity))
            .unwrap_or(0);
        least.max(Duration(slow).min(self.grain.saturating_mul(EPOCH_MOST)))
    }

    /// Begins another epoch if it is time: who did not tell anything in the one before is
    /// forgotten.
    fn roll(&mut self, now: Instant) {
        let length = self.length();
        let passed = now.since(self.began);
        if passed < length {
            return;
        }
        if passed < length.saturating_mul(2) {
            self.before = self.now;
            self.epoch += 1;
        } else {
            self.before = Sums::default();
            self.epoch += 2;
        }
        self.now = Sums::default();
        self.began = now;
    }

    /// Replaces what a sender told in `epoch`. Returns the present epoch.
    fn tell(&mut self, old: Want, epoch: u64, new: Want) -> u64 {
        match self.epoch.checked_sub(epoch) {
            Some(0) => self.now.remove(old),
            Some(1) => self.before.remove(old),
            _ => {}
        }
        self.now.add(new);
        self.epoch
    }
}
