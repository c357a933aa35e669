// SPDX-License-Identifier: GPL-2.0

//! The queue that stands on a path, from its round-trip times.

use crate::time::Duration;

/// Rounds with the least window and a queue above the target after which that queue is taken for
/// part of the path.
const STUCK: u8 = 4;

/// The least round-trip time of a route, and what lies above it.
///
/// Packets meet each other's bursts, and hosts their schedulers, so single samples say little. The
/// *least* sample of a round does: a queue that no packet of a whole window found shorter is one
/// that stands (compare CoDel, RFC 8289 section 3.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    /// Zero before the first sample.
    least: Duration,
    /// What was found to be above that for good.
    lift: Duration,
    stuck: u8,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Queue {
            least: Duration::ZERO,
            lift: Duration::ZERO,
            stuck: 0,
        }
    }

    /// Takes in the least sample known so far.
    pub(super) fn set_least(&mut self, rtt: Duration) {
        if rtt != Duration::ZERO {
            self.least = rtt;
        }
    }

    /// The round-trip time without queue, zero if unknown.
    pub(super) fn base(&self) -> Duration {
        self.least.saturating_add(self.lift)
    }

    /// What a round-trip time has above that.
    pub(super) fn delay(&self, rtt: Duration) -> Duration {
        Duration(rtt.0.saturating_sub(self.base().0))
    }

    /// A round was above the target. If the window was `small`, the queue is not this path's doing,
    /// or the route has become longer. After some of these the base moves up, lest the path starve
    /// for good.
    pub(super) fn above_target(&mut self, rtt: Duration, small: bool) {
        if !small {
            self.stuck = 0;
            return;
        }
        self.stuck = self.stuck.saturating_add(1);
        if self.stuck >= STUCK {
            self.stuck = 0;
            let above = self.delay(rtt);
            self.lift = self.lift.saturating_add(Duration(above.0 / 2));
        }
    }
}
