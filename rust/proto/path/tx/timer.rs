// SPDX-License-Identifier: GPL-2.0

//! The path's timer: first a probe, then timeouts.

use core::ops::DerefMut;

use super::{index, Expired, TxHalf, TxSlot};
use crate::bits::Bits256;
use crate::congestion::{CongestionControl, LossEvent};
use crate::recovery::{LossCause, Timers};
use crate::time::Instant;

impl<S: DerefMut<Target = [TxSlot]>> TxHalf<S> {
    /// When [`TxHalf::on_timeout`] is to be called, `None` while nothing is outstanding.
    pub fn deadline(&self, timers: &Timers) -> Option<Instant> {
        if self.outstanding.is_empty() {
            return None;
        }
        let w = &self.waiting;
        let wait = if w.probed || w.timeouts > 0 {
            let rto = timers.rto(&self.rtt, w.timeouts);
            if w.patient {
                rto.max(timers.rto_patient)
            } else {
                rto
            }
        } else {
            timers.probe(&self.rtt)
        };
        Some(w.since.after(wait))
    }

    /// Retransmission timeouts in a row without progress.
    pub fn timeouts(&self) -> u8 {
        self.waiting.timeouts
    }

    /// Acts on the timer. `None` if it has not run out: calls too many do no harm. `alone`: others
    /// that are busy make progress. If not, the timeout is put off up to its patient bound.
    pub fn on_timeout(&mut self, now: Instant, timers: &Timers, alone: bool) -> Option<Expired> {
        if self.deadline(timers)? > now {
            return None;
        }
        // It may be for want of a CRC that nothing arrives.
        self.local = false;
        if !self.waiting.probed && self.waiting.timeouts == 0 {
            self.waiting.since = now;
            self.waiting.probed = true;
            self.probe_due = true;
            return Some(Expired::Probe);
        }
        if !alone && !self.waiting.patient {
            self.waiting.patient = true;
            if self.deadline(timers)? > now {
                return None;
            }
        }
        self.waiting.since = now;
        self.probe_due = true;
        self.waiting.timeouts = self.waiting.timeouts.saturating_add(1);
        self.stats.timeouts += 1;
        self.give_up_waiting(now);
        Some(Expired::Timeout(self.waiting.timeouts))
    }

    /// Others got through again after a while in which none did: asks at once, and back-off starts
    /// over.
    pub fn retry_now(&mut self, now: Instant) {
        if self.waiting.timeouts > 0 {
            self.waiting.since = now;
            self.waiting.timeouts = 1;
            self.probe_due = true;
        }
    }

    /// The oldest packet counts as lost, so that data flows again even where probes do not help;
    /// what was picked is offered again, and what was held must be confirmed by the next ACK.
    fn give_up_waiting(&mut self, now: Instant) {
        // CAST: truncation is meant, stamps wrap.
        let tick = self.tick as u32;
        let una = index(self.una);
        self.picked = Bits256::EMPTY;
        let mut rest = self.in_flight_bits();
        self.held = Bits256::EMPTY;
        let mut lost = 0;
        while let Some(i) = rest.take_from(una) {
            let Some(slot) = self.slot_mut(i) else {
                break;
            };
            // A stamp must be judged before it wraps, so very old ones go as well.
            if lost > 0 && tick.wrapping_sub(slot.stamp.0) < 1 << 30 {
                continue;
            }
            slot.cause = LossCause::Timeout;
            self.lost.set(i);
            lost += 1;
        }
        self.count_in_flight();
        if lost > 0 {
            let event = LossEvent {
                now,
                lost,
                cause: LossCause::Timeout,
                in_flight: self.in_flight(),
            };
            self.cc.on_loss(&event);
        }
    }
}
