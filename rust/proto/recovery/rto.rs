// SPDX-License-Identifier: GPL-2.0

//! How long to wait for an acknowledgement: first for a probe, then for a retransmission timeout.

use super::Rtt;
use crate::time::Duration;

/// Settable bounds of the timers.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// Retransmission timeout before the first round-trip sample.
    pub rto_initial: Duration,
    /// Least retransmission timeout; above the scheduling noise of the hosts.
    pub rto_min: Duration,
    /// Largest retransmission timeout, back-off included.
    pub rto_max: Duration,
    /// Least time without acknowledgement before a probe goes out.
    pub probe_min: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            rto_initial: Duration::from_millis(100),
            rto_min: Duration::from_millis(4),
            rto_max: Duration::from_millis(1_000),
            probe_min: Duration::from_millis(2),
        }
    }
}

impl Timers {
    /// Retransmission timeout after `timeouts` of them in a row without progress: SRTT + 4 RTTVAR
    /// (RFC 6298 section 2), doubled (section 5.5) every second time: most timeouts bring another
    /// route, which is not to blame for the last one.
    pub fn rto(&self, rtt: &Rtt, timeouts: u8) -> Duration {
        let base = match rtt.smoothed() {
            None => self.rto_initial,
            Some(s) => s.saturating_add(rtt.variation().saturating_mul(4)),
        };
        let base = base.max(self.rto_min);
        base.saturating_mul(1 << u32::from(timeouts / 2).min(20))
            .min(self.rto_max)
    }

    /// Time without acknowledgement after which a path with packets outstanding sends a probe:
    /// 2 SRTT, as for the tail loss probe of RFC 8985 section 7.2.
    pub fn probe(&self, rtt: &Rtt) -> Duration {
        let base = match rtt.smoothed() {
            None => Duration(self.rto_initial.0 / 2),
            Some(s) => s.saturating_mul(2),
        };
        base.max(self.probe_min).min(self.rto_max)
    }
}
