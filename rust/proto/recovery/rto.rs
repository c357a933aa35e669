// SPDX-License-Identifier: GPL-2.0

//! How long to wait for an acknowledgement: first for a probe, then for a retransmission timeout.

use super::Rtt;
use crate::time::Duration;

/// Settable bounds of the timers.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// Retransmission timeout before the first round-trip sample.
    pub rto_initial: Duration,
    /// Least retransmission timeout of a path while others of the connection make progress: that
    /// is evidence against the path. Well under a millisecond on a LAN.
    pub rto_min: Duration,
    /// Least retransmission timeout while none does: then rather a host than the network stands
    /// still. Above the scheduling noise of hosts.
    pub rto_patient: Duration,
    /// Up to where back-off goes at first. Below the usual timeouts of queue pairs (4.096 µs × 2^14
    /// is 67 ms), so that each of their tries has one of ours in it.
    pub rto_cap: Duration,
    /// Largest retransmission timeout, once nothing got through for a few seconds.
    pub rto_max: Duration,
    /// Least time without acknowledgement before a probe goes out.
    pub probe_min: Duration,
    /// What the hosts' schedulers and timers add to a round trip, in round figures. What is shorter
    /// than some part or multiple of it says nothing about the network, and is not worth a timer:
    /// pacing, the scheduler's classes, the patience with routes and planes, and the laws of
    /// congestion control go by it.
    pub granularity: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            rto_initial: Duration::from_millis(100),
            rto_min: Duration::from_micros(500),
            rto_patient: Duration::from_millis(4),
            rto_cap: Duration::from_millis(64),
            rto_max: Duration::from_millis(1_000),
            probe_min: Duration::from_micros(500),
            granularity: Duration::from_millis(1),
        }
    }
}

/// Timeouts in a row after which back-off goes on beyond [`Timers::rto_cap`]: from 4 ms these take
/// some two seconds.
const CAPPED: u8 = 40;

impl Timers {
    /// Retransmission timeout without back-off: SRTT + 4 RTTVAR (RFC 6298 section 2). However much
    /// round trips vary, twice the mean or [`Timers::rto_cap`] is long enough: a queue pair may
    /// have to wait for just this path, and its patience has an end.
    pub fn rto_base(&self, rtt: &Rtt) -> Duration {
        let base = match rtt.smoothed() {
            None => self.rto_initial,
            Some(s) => s
                .saturating_add(rtt.variation().saturating_mul(4))
                .min(s.saturating_mul(2).max(self.rto_cap)),
        };
        base.max(self.rto_min)
    }

    /// Retransmission timeout after `timeouts` of them in a row without progress: doubled (RFC 6298
    /// section 5.5) every second time, as most timeouts bring another route, which is not to blame
    /// for the last one.
    pub fn rto(&self, rtt: &Rtt, timeouts: u8) -> Duration {
        let base = self.rto_base(rtt);
        let most = if timeouts < CAPPED {
            self.rto_cap.max(base.saturating_mul(2))
        } else {
            self.rto_max
        };
        base.saturating_mul(1 << u32::from(timeouts / 2).min(20))
            .min(most)
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
