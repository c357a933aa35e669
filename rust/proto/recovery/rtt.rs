// SPDX-License-Identifier: GPL-2.0

//! Round-trip time of one path, after RFC 6298 section 2, in integer arithmetic.

use crate::time::Duration;

/// Smoothed round-trip time, its variation, and the least seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    /// `None` before the first sample.
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
}

impl Rtt {
    /// An estimate without samples.
    pub const fn new() -> Self {
        Rtt {
            smoothed: None,
            variation: Duration::ZERO,
            min: Duration::ZERO,
        }
    }

    /// Takes a sample: the time between sending a packet and its acknowledgement, less what the
    /// receiver says that it waited. Stamps are unique per transmission, so Karn's rule (RFC 6298
    /// section 3) is not needed.
    pub fn sample(&mut self, rtt: Duration) {
        let r = rtt.0.max(1);
        match self.smoothed {
            None => {
                self.smoothed = Some(Duration(r));
                self.variation = Duration(r / 2);
                self.min = Duration(r);
            }
            Some(Duration(s)) => {
                // alpha = 1/8, beta = 1/4; u128-free: a round trip is far below 2^61 ns.
                let v = self.variation.0;
                self.variation = Duration((v - v / 4).saturating_add(s.abs_diff(r) / 4));
                self.smoothed = Some(Duration((s - s / 8).saturating_add(r / 8)));
                self.min = Duration(self.min.0.min(r));
            }
        }
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

    /// The path got another route: the estimate stays as a guess, its deviation is widened, and
    /// the minimum starts over.
    pub fn on_route_change(&mut self) {
        if let Some(Duration(s)) = self.smoothed {
            self.variation = Duration(self.variation.0.max(s / 2));
            self.min = Duration(s);
        }
    }
}
