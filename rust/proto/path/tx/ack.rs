// SPDX-License-Identifier: GPL-2.0

//! What acknowledgements change.

use core::ops::DerefMut;

use super::{index, AckOutcome, TxHalf, TxSlot, Waiting, Whose};
use crate::bits::Bits256;
use crate::congestion::{AckEvent, CongestionControl, LossEvent, MarkEvent};
use crate::recovery::{is_lost, LossCause, Transmission};
use crate::time::{Duration, Instant, Stamp};
use crate::wire::AckBlock;

impl<S: DerefMut<Target = [TxSlot]>> TxHalf<S> {
    /// Takes in what the receiver says of this path.
    pub fn on_ack(&mut self, now: Instant, block: &AckBlock) -> AckOutcome {
        let mut out = AckOutcome::default();
        let advance = block.cum.ahead_of(self.una);
        if block.cum.before(self.una) {
            self.stats.stale_acks += 1;
            return out;
        }
        if advance > self.next.ahead_of(self.una) {
            self.stats.bad_acks += 1;
            return out;
        }
        let Some(echo) = self.echo(block) else {
            self.stats.bad_acks += 1;
            return out;
        };
        // Beyond `next` the vectors must be silent; bits there alias the front of the ring.
        let beyond = self.next.ahead_of(block.cum);
        let after = block.cum.add(1);
        let vector = block
            .acked
            .rotate_left(index(after))
            .and(Bits256::range(index(after), beyond.saturating_sub(1)));
        let newly = Bits256::range(index(self.una), advance)
            .or(vector)
            .and(self.outstanding);
        let held = block
            .held
            .rotate_left(index(block.cum))
            .and(Bits256::range(index(block.cum), beyond));
        let in_flight_before = self.in_flight();

        let acked_bytes = self.settle(newly, block, &mut out);
        self.reordering.update(now, out.reordered, &self.rtt);
        out.moved = self.end_trial(now, block);
        if self.echoed.is_none_or(|t| echo > t) {
            out.progress = true;
            out.rtt = self.rtt_sample(now, echo, block.hold);
        }
        if self.echoed.is_none_or(|t| echo >= t) {
            self.echoed = Some(echo);
            out.marked = self.new_marks(block.ce_count);
            // What the peer holds it has, whatever was thought before.
            self.held = held.and(self.outstanding);
            self.lost = self.lost.without(self.held);
            self.picked = self.picked.without(self.held);
            self.find_lost(now, block, &mut out);
        }
        if out.progress || out.acked > 0 {
            self.progress = now;
            self.waiting = Waiting {
                since: now,
                began: now,
                ..Waiting::default()
            };
        } else {
            self.stats.stale_acks += 1;
        }
        self.loss.sample(out.acked, out.lost);
        self.tell_controller(now, &out, acked_bytes, in_flight_before);
        out
    }

    /// The echoed stamp as a tick; `None` if no such stamp was given out.
    fn echo(&self, block: &AckBlock) -> Option<u64> {
        // CAST: truncation is meant, stamps wrap.
        let age = (self.tick as u32).wrapping_sub(block.stamp.0);
        self.tick.checked_sub(u64::from(age))
    }

    /// Marks packets as acknowledged. Returns their bytes.
    fn settle(&mut self, newly: Bits256, block: &AckBlock, out: &mut AckOutcome) -> u64 {
        let mut bytes = 0u64;
        let mut rest = newly;
        while let Some(i) = rest.take_from(index(self.una)) {
            let Some(slot) = self.slots.get_mut(usize::from(i)) else {
                break;
            };
            out.acked += 1;
            bytes += u64::from(slot.desc.payload_len());
            // Eifel (RFC 3522): acknowledged before the retransmission can have arrived.
            if slot.again
                && !self.lost.get(i)
                && slot.route_epoch == block.route_epoch
                && slot.stamp.is_after(block.stamp)
            {
                if slot.whose == Whose::Caller {
                    slot.whose = Whose::CallerSpurious;
                }
                out.spurious += 1;
                out.reordered += u32::from(slot.cause != LossCause::Timeout);
            }
        }
        self.outstanding = self.outstanding.without(newly);
        self.lost = self.lost.without(newly);
        self.picked = self.picked.without(newly);
        self.held = self.held.without(newly);
        self.acked = self.acked.or(newly);
        self.count_in_flight();
        self.una = match self.outstanding.first_from(index(self.una)) {
            Some(i) => self.psn_at(i),
            None => self.next,
        };
        self.stats.acked += u64::from(out.acked);
        self.stats.spurious += u64::from(out.spurious);
        bytes
    }

    fn rtt_sample(&mut self, now: Instant, echo: u64, hold: u32) -> Option<Duration> {
        let ticks = (now.0 >> Stamp::SHIFT).checked_sub(echo)?;
        let rtt = Duration(ticks.checked_sub(u64::from(hold))?.max(1) << Stamp::SHIFT);
        self.rtt.sample(now, rtt);
        Some(rtt)
    }

    fn new_marks(&mut self, ce_count: u32) -> u32 {
        let marks = ce_count.wrapping_sub(self.ce_count);
        if marks >= 1 << 31 {
            return 0;
        }
        self.ce_count = ce_count;
        self.stats.marks += u64::from(marks);
        marks
    }

    /// Applies [`is_lost`] to what is outstanding.
    fn find_lost(&mut self, now: Instant, block: &AckBlock, out: &mut AckOutcome) {
        let arrived = Transmission {
            stamp: block.stamp,
            route_epoch: block.route_epoch,
        };
        let cause = if self.probe_stamp == Some(block.stamp) {
            LossCause::Probe
        } else {
            LossCause::Gap
        };
        let reordering = self.reordering.window();
        let allowance = self.allowance(block.route_epoch).max(reordering);
        let start = index(self.una);
        let mut rest = self.in_flight_bits();
        while let Some(i) = rest.take_from(start) {
            let Some(slot) = self.slot_mut(i) else {
                break;
            };
            if is_lost(slot.last(), arrived, reordering, allowance) {
                slot.cause = cause;
                self.lost.set(i);
                out.lost += 1;
            } else if !slot.again && !arrived.stamp.is_after(slot.stamp) {
                // Every packet behind went out later still.
                break;
            }
        }
        self.count_in_flight();
        if out.lost > 0 {
            let event = LossEvent {
                now,
                lost: out.lost,
                cause,
                in_flight: self.in_flight(),
            };
            self.cc.on_loss(&event);
        }
    }

    /// How much later than a packet on an earlier route something on this one must have been sent
    /// to prove it lost: a round trip, nothing if the earlier route is known to be dead.
    fn allowance(&self, route_epoch: u8) -> Duration {
        if self.old_route_dead && route_epoch == self.route.epoch {
            return Duration::ZERO;
        }
        self.rtt
            .smoothed()
            .unwrap_or(Duration::ZERO)
            .saturating_add(self.rtt.variation())
    }

    fn tell_controller(
        &mut self,
        now: Instant,
        out: &AckOutcome,
        acked_bytes: u64,
        in_flight_before: u32,
    ) {
        let in_flight = self.in_flight();
        if out.spurious > 0 {
            self.cc.on_spurious(now);
        }
        if out.marked > 0 {
            self.cc.on_mark(&MarkEvent {
                now,
                marked: out.marked,
                acked: out.acked,
                in_flight,
            });
        }
        if out.acked > 0 {
            self.cc.on_ack(&AckEvent {
                now,
                acked: out.acked,
                acked_bytes,
                in_flight,
                in_flight_before,
                rtt: out.rtt,
                min_rtt: match self.plane_rtt {
                    Duration::ZERO => self.rtt.min(),
                    plane => plane.min(self.rtt.min()),
                },
            });
        }
    }
}
