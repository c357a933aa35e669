// SPDX-License-Identifier: GPL-2.0

//! When the next packet may go out.

use super::Window;
use crate::time::{Duration, Instant};

/// Rate over window by round trip, as a ratio: enough for the window, not the pacer, to be the
/// limit, and for slow start to double.
const HEADROOM: (u64, u64) = (3, 2);
/// Most packets that a wait makes up for.
const QUANTUM: u64 = 16;

/// A virtual clock that runs ahead of the time by what was sent (GCRA, ITU-T I.371).
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    due: Instant,
}

/// What a pacer goes by: time per unit, and how far ahead its clock may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time that one unit (a packet, a byte) takes, in 1/256 ns; zero for no limit.
    interval: u64,
    slack: Duration,
    /// Units below which it is not worth sending.
    quantum: u64,
}

impl Pace {
    /// No limit.
    pub const FREE: Pace = Pace {
        interval: 0,
        slack: Duration::ZERO,
        quantum: 1,
    };

    /// Packets of a path: a window per round trip, with headroom. A window below one packet is
    /// kept to exactly.
    ///
    /// `grain` time's worth may be sent at once. Hosts send in bursts anyway, and a timer for less
    /// costs more than it is good for; Linux paces TCP by a millisecond (`sk_pacing_shift`). So at
    /// round trips below that pacing does nothing.
    pub fn of_window(window: Window, srtt: Option<Duration>, grain: Duration) -> Self {
        let Some(srtt) = srtt else {
            return Pace::FREE;
        };
        // 1/256 ns over 1/256 packets.
        let exact = srtt.0.saturating_mul(1 << 16) / u64::from(window.raw().max(1));
        if window < Window::ONE {
            return Pace {
                interval: exact,
                slack: Duration::ZERO,
                quantum: 1,
            };
        }
        let interval = exact / HEADROOM.0 * HEADROOM.1;
        let in_slack = (grain.0 << 8).checked_div(interval).unwrap_or(QUANTUM);
        let quantum = in_slack.clamp(1, QUANTUM);
        Pace {
            interval,
            slack: grain.max(Duration((interval >> 8).saturating_mul(quantum))),
            quantum,
        }
    }

    /// Bytes at `kbits` kbit/s, sent in bursts of at least `burst` bytes or a quarter of `grain`;
    /// zero for no limit.
    pub fn of_rate(kbits: u32, burst: u32, grain: Duration) -> Self {
        if kbits == 0 {
            return Pace::FREE;
        }
        let interval = (8_000_000 << 8) / u64::from(kbits);
        let burst = u64::from(burst);
        Pace {
            interval,
            // Who comes late by as much as it waited for loses nothing.
            slack: Duration((interval.saturating_mul(2 * burst) >> 8).max(grain.0 / 4)),
            quantum: burst,
        }
    }

    fn time(&self, units: u64) -> Duration {
        Duration(self.interval.saturating_mul(units) >> 8)
    }
}

impl Pacer {
    /// How many units may go now. `Err` with the time to ask again if it is none.
    ///
    /// `wanted`: more than those are not asked for; a few that are all that is wanted may go
    /// before the burst that would be worth waiting for is due.
    pub fn credit(&self, now: Instant, pace: &Pace, wanted: u64) -> Result<u64, Instant> {
        if pace.interval == 0 {
            return Ok(wanted);
        }
        let worth = pace.quantum.min(wanted).max(1);
        // The last unit of those may start when the slack covers the ones before it.
        let ahead = self.due.since(now).saturating_add(pace.time(worth - 1));
        if ahead > pace.slack.max(pace.time(worth - 1)) {
            let wait = Duration(ahead.0 - pace.slack.max(pace.time(worth - 1)).0);
            return Err(now.after(wait));
        }
        let left = pace.slack.0.saturating_sub(self.due.since(now).0);
        let units = (left << 8) / pace.interval + 1;
        Ok(units.max(worth).min(wanted))
    }

    /// Accounts for `units` sent.
    pub fn charge(&mut self, now: Instant, pace: &Pace, units: u64) {
        if pace.interval > 0 {
            self.due = self.due.max(now).after(pace.time(units));
        }
    }

    /// Forgets what was sent.
    pub fn reset(&mut self) {
        self.due = Instant(0);
    }
}
