// SPDX-License-Identifier: GPL-2.0

//! Round-trip time of one path, after RFC 6298 section 2, in integer arithmetic.

use crate::time::{Duration, Instant};

/// Deviation is let go by a quarter in so many round trips, …
const DECAY_ROUNDS: u64 = 8;
/// … and not more often than this: hosts that stand still for a moment do so again.
const DECAY_MIN: Duration = Duration::from_millis(4);

/// Smoothed round-trip time, its variation, and the least seen.
///
/// Acknowledgements give many samples per round trip, so a deviation averaged over samples would be
/// forgotten within one, and the next hiccup taken for a loss (RFC 7323 appendix G). Therefore the
/// deviation follows its average upwards at once, and downwards by time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    /// `None` before the first sample.
    smoothed: Option<Duration>,
    /// Mean deviation of samples.
    deviation: Duration,
    /// The most that was since `decayed`.
    deviation_most: Duration,
    variation: Duration,
    decayed: Instant,
    min: Duration,
    /// What is known is from another route: a guess until the first sample.
    guess: bool,
}

impl Rtt {
    /// An estimate without samples.
    pub const fn new() -> Self {
        Rtt {
            smoothed: None,
            deviation: Duration::ZERO,
            deviation_most: Duration::ZERO,
            variation: Duration::ZERO,
            decayed: Instant(0),
            min: Duration::ZERO,
            guess: false,
        }
    }

    /// Takes a sample: the time between sending a packet and its acknowledgement, less what the
    /// receiver says that it waited. Stamps are unique per transmission, so Karn's rule (RFC 6298
    /// section 3) is not needed.
    pub fn sample(&mut self, now: Instant, rtt: Duration) {
        let r = rtt.0.max(1);
        let Some(Duration(s)) = self.smoothed.filter(|_| !self.guess) else {
            *self = Rtt {
                smoothed: Some(Duration(r)),
                deviation: Duration(r / 2),
                deviation_most: Duration(r / 2),
                variation: Duration(r / 2),
                decayed: now,
                min: Duration(r),
                guess: false,
            };
            return;
        };
        // alpha = 1/8, beta = 1/4; u128-free: a round trip is far below 2^61 ns.
        let d = self.deviation.0;
        self.deviation = Duration((d - d / 4).saturating_add(s.abs_diff(r) / 4));
        self.deviation_most = self.deviation_most.max(self.deviation);
        self.variation = self.variation.max(self.deviation);
        let every = DECAY_MIN.0.max(s.saturating_mul(DECAY_ROUNDS));
        if now.since(self.decayed).0 >= every {
            let v = self.variation.0;
            self.variation = Duration(v - v.saturating_sub(self.deviation_most.0) / 4);
            self.deviation_most = self.deviation;
            self.decayed = now;
        }
        self.smoothed = Some(Duration((s - s / 8).saturating_add(r / 8)));
        self.min = Duration(self.min.0.min(r));
    }

    /// The smoothed round-trip time, `None` before the first sample.
    pub const fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Mean deviation, zero before the first sample.
    pub const fn variation(&self) -> Duration {
        self.variation
    }

    /// The least sample on this route, zero before the first.
    pub const fn min(&self) -> Duration {
        self.min
    }

    /// The path got another route: the estimate stays as a guess, its deviation widened, until the
    /// first sample.
    pub fn on_route_change(&mut self) {
        if let Some(Duration(s)) = self.smoothed {
            self.variation = Duration(self.variation.0.max(s / 2));
            self.guess = true;
        }
    }
}
