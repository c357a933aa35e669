// SPDX-License-Identifier: GPL-2.0

//! What one sender wants.

use super::{Inbound, Want, ACTIVE};
use crate::time::{Duration, Instant};

/// Packets over which a rate is measured at least, unless they take too long.
const MEASURE: u32 = 32;
/// Of 8: a sender that gets so much of the level would take more.
const GREEDY: u64 = 7;

/// Measures what a connection receives on one plane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    since: Instant,
    packets: u32,
    bytes: u64,
    /// kbit/s, zero before the first measurement.
    rate: u64,
    want: Want,
    /// The epoch in which that was told.
    epoch: u64,
    /// Its length; zero if it is not known yet.
    length: Duration,
}

impl Meter {
    /// Notes a packet of `bytes` on the wire. Returns whether [`Meter::update`] is due.
    ///
    /// `grain`: [`crate::recovery::Timers::granularity`].
    pub fn on_packet(&mut self, now: Instant, bytes: u32, grain: Duration) -> bool {
        if self.packets == 0 {
            self.since = now;
        }
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::from(bytes));
        let time = now.since(self.since);
        if self.want == Want::Nothing && self.packets >= ACTIVE {
            return true;
        }
        if self.want == Want::Nothing {
            // Whether that was all in an epoch. How long one is, a first look tells.
            return time >= self.length.max(grain);
        }
        // Often enough not to be forgotten.
        (time >= grain && self.packets >= MEASURE) || time.0 >= self.length.0 / 8 * 5
    }

    /// Tells the plane what the sender seems to want, going by what came since the last time.
    pub fn update(&mut self, now: Instant, plane: &mut Inbound) {
        let time = now.since(self.since);
        let measured = time > Duration::ZERO && self.packets > 1;
        plane.roll(now);
        let known = self.length > Duration::ZERO;
        self.length = plane.length();
        let forgotten = plane.epoch > self.epoch.saturating_add(1);
        if self.want == Want::Nothing || forgotten {
            self.want = Want::Nothing;
            if self.packets < ACTIVE {
                if known || time >= self.length {
                    self.packets = 0;
                    self.bytes = 0;
                }
                return;
            }
            // It may want anything; others make room at once.
            self.rate = 0;
            self.epoch = plane.tell(Want::Nothing, 0, Want::All);
            self.want = Want::All;
        } else if measured {
            // bytes × 8 / ns = Gbit/s.
            let rate = self.bytes.saturating_mul(8_000_000) / time.0;
            self.rate = if self.rate == 0 {
                rate
            } else {
                (self.rate + rate) / 2
            };
            let level = u64::from(plane.level());
            let want = if level == 0 || self.rate >= level / 8 * GREEDY {
                Want::All
            } else {
                // Its hint is the level all the same: it can grow, and is then seen to.
                Want::Some(self.rate)
            };
            self.epoch = plane.tell(self.want, self.epoch, want);
            self.want = want;
        }
        self.packets = 0;
        self.bytes = 0;
    }

    /// Whether the sender is one of those that share the plane.
    pub fn is_active(&self) -> bool {
        self.want != Want::Nothing
    }

    /// What the sender sent of late, kbit/s.
    pub fn rate(&self) -> u64 {
        self.rate
    }
}
