// SPDX-License-Identifier: GPL-2.0

//! How much later than a missing packet another must have been sent to prove it lost.

use super::Rtt;
use crate::time::{Duration, Instant};

/// How long a window stays without further need for it.
const LASTS: Duration = Duration::from_millis(500);

/// The reordering window of a path.
///
/// Paths are FIFO by design, so it is zero, until retransmissions turn out needless because packets
/// had been overtaken (a network that balances by packet, or netem). Then it opens, as RACK's does
/// (RFC 8985 section 6.2, step 4), up to a round trip, and closes again with time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reordering {
    window: Duration,
    since: Instant,
}

impl Reordering {
    /// The window.
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// Takes in that so many packets were acknowledged after they had been taken for lost because
    /// of later ones.
    pub fn update(&mut self, now: Instant, reordered: u32, rtt: &Rtt) {
        if reordered > 0 {
            let srtt = rtt.smoothed().unwrap_or(Duration::ZERO);
            if now.since(self.since) >= Duration(srtt.0 / 2) {
                let step = Duration(rtt.min().0 / 4);
                self.window = self.window.saturating_add(step).min(srtt);
                self.since = now;
            }
        } else if self.window > Duration::ZERO && now.since(self.since) >= LASTS {
            self.window = Duration(self.window.0 / 2);
            self.since = now;
        }
    }
}
