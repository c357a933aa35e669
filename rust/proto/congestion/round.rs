// SPDX-License-Identifier: GPL-2.0

//! One window's worth of packets, over which signals are gathered.

use super::{AckEvent, LossEvent, MarkEvent};
use crate::time::Duration;

/// Least packets of a round: with fewer, one odd packet would be taken for a trend.
const LEAST: u32 = 8;

/// Most losses and marks that are counted. A round of an honest peer has a window's worth of each;
/// but the peer says how many there were, and when the round ends.
const MOST: u32 = 1 << 16;

/// What was seen since the window before was sent.
///
/// A round ends when as many packets were acknowledged or lost as were in flight at its start, so
/// everything acknowledged in the next was sent after it began. No clock is needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    need: u32,
    /// Packets acknowledged.
    pub(super) acked: u32,
    /// Packets lost.
    pub(super) lost: u32,
    /// CE marks reported.
    pub(super) marked: u32,
    /// Most packets in flight.
    pub(super) peak: u32,
    /// Least round-trip sample, zero if there is none.
    pub(super) least: Duration,
}

impl Round {
    pub(super) const fn new() -> Self {
        Round {
            need: 0,
            acked: 0,
            lost: 0,
            marked: 0,
            peak: 0,
            least: Duration::ZERO,
        }
    }

    /// Takes in acknowledged packets. Returns the round if that ends it; the next has begun.
    pub(super) fn on_ack(&mut self, e: &AckEvent) -> Option<Round> {
        if self.need == 0 {
            self.need = e.in_flight_before.max(LEAST);
        }
        self.acked += e.acked;
        self.peak = self.peak.max(e.in_flight_before);
        if let Some(rtt) = e.rtt {
            if self.least == Duration::ZERO || rtt < self.least {
                self.least = rtt;
            }
        }
        if self.acked + self.lost < self.need {
            return None;
        }
        let next = Round {
            need: e.in_flight.max(LEAST),
            ..Round::new()
        };
        Some(core::mem::replace(self, next))
    }

    /// Takes in losses.
    pub(super) fn on_loss(&mut self, e: &LossEvent) {
        self.lost = self.lost.saturating_add(e.lost).min(MOST);
    }

    /// Takes in marks.
    pub(super) fn on_mark(&mut self, e: &MarkEvent) {
        self.marked = self.marked.saturating_add(e.marked).min(MOST);
    }
}
