// SPDX-License-Identifier: GPL-2.0

//! The sending half of a path.

use core::ops::DerefMut;

use super::{Route, TxStats, ACK_EVERY, NAK_RESERVE, SPAN};
use crate::bits::Bits256;
use crate::congestion::{AckEvent, CongestionControl, Controller, LossEvent, MarkEvent};
use crate::packet::TxDesc;
use crate::psn::Psn;
use crate::recovery::{is_lost, LossCause, Rtt, Timers, Transmission};
use crate::time::{Duration, Instant, Stamp};
use crate::wire::AckBlock;

/// A packet that a path sent and that is not acknowledged, or acknowledged and not yet popped.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxSlot {
    desc: TxDesc,
    last: Transmission,
    /// Sent more than once.
    again: bool,
    /// Not the caller's: nothing is popped for it.
    internal: bool,
    cause: LossCause,
}

/// What goes into the header of a packet of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tx {
    /// The PSN.
    pub psn: Psn,
    /// The stamp of this transmission.
    pub stamp: Stamp,
    /// The route epoch; [`TxHalf::route`] is the route to take.
    pub route_epoch: u8,
    /// Whether the packet asks for an acknowledgement.
    pub ack_req: bool,
}

/// What an ACK block changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckOutcome {
    /// Packets acknowledged for the first time.
    pub acked: u32,
    /// Packets newly found lost.
    pub lost: u32,
    /// Newly reported CE marks.
    pub marked: u32,
    /// Retransmissions that turned out needless.
    pub spurious: u32,
    /// Whether the block tells of an arrival that no earlier block told of.
    pub progress: bool,
    /// A round-trip sample.
    pub rtt: Option<Duration>,
    /// A route on trial works, and is the path's route now.
    pub moved: bool,
}

/// What happened when the path's timer ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// A probe is due.
    Probe,
    /// The n-th retransmission timeout in a row; a probe is due as well.
    Timeout(u8),
}

/// Time without progress and what was tried.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Since when the timer runs.
    since: Instant,
    /// A probe went out since then.
    probed: bool,
    /// Timeouts in a row.
    timeouts: u8,
}

/// A route that nothing but a probe is sent on, to see whether it works.
#[derive(Clone, Copy, Debug)]
struct Trial {
    route: Route,
    /// Stamp of the probe, `None` while it is to be sent.
    sent: Option<Stamp>,
}

/// The sending half of a path.
///
/// # Invariants
///
/// * `una <= next <= una + SPAN` in serial order, and `outstanding` holds bits of `una .. next`
///   only, at index PSN modulo [`SPAN`], that of `una` included unless `una == next`;
/// * `picked` is in `lost`, `lost` and `held` are in `outstanding` and disjoint;
/// * `acked` and `outstanding` are disjoint;
/// * no two transmissions have the same stamp, later ones have later stamps.
#[derive(Debug)]
pub struct TxHalf<S> {
    slots: S,
    una: Psn,
    next: Psn,
    outstanding: Bits256,
    /// To be sent again.
    lost: Bits256,
    /// Lost, and handed to the caller to be rebuilt.
    picked: Bits256,
    /// At the receiver, but refused or not processed yet.
    held: Bits256,
    /// Acknowledged and not popped.
    acked: Bits256,
    route: Route,
    /// Nothing sent on an earlier route can still be on its way.
    old_route_dead: bool,
    trial: Option<Trial>,
    /// The last stamp given out, before truncation.
    tick: u64,
    /// Stamp of the last probe.
    probe_stamp: Option<Stamp>,
    /// Tick of the newest arrival that the peer reported.
    echoed: Option<u64>,
    ce_count: u32,
    since_ack_req: u32,
    waiting: Waiting,
    probe_due: bool,
    rtt: Rtt,
    cc: Controller,
    stats: TxStats,
}

impl<S: DerefMut<Target = [TxSlot]>> TxHalf<S> {
    pub(super) fn new(mut slots: S) -> Option<Self> {
        slots
            .get_mut(..usize::try_from(SPAN).ok()?)?
            .fill(TxSlot::default());
        Some(TxHalf {
            slots,
            una: Psn(0),
            next: Psn(0),
            outstanding: Bits256::EMPTY,
            lost: Bits256::EMPTY,
            picked: Bits256::EMPTY,
            held: Bits256::EMPTY,
            acked: Bits256::EMPTY,
            route: Route::default(),
            old_route_dead: false,
            trial: None,
            tick: 0,
            probe_stamp: None,
            echoed: None,
            ce_count: 0,
            since_ack_req: 0,
            waiting: Waiting::default(),
            probe_due: false,
            rtt: Rtt::new(),
            cc: Controller::default(),
            stats: TxStats::default(),
        })
    }

    pub(super) fn restart(&mut self, first: Psn, route: Route, cc: Controller) {
        self.una = first;
        self.next = first;
        self.outstanding = Bits256::EMPTY;
        self.lost = Bits256::EMPTY;
        self.picked = Bits256::EMPTY;
        self.held = Bits256::EMPTY;
        self.acked = Bits256::EMPTY;
        self.route = route;
        self.old_route_dead = false;
        self.trial = None;
        self.probe_stamp = None;
        self.echoed = None;
        self.ce_count = 0;
        self.since_ack_req = 0;
        self.waiting = Waiting::default();
        self.probe_due = false;
        self.rtt = Rtt::new();
        self.cc = cc;
    }

    /// Where the path's packets go just now.
    pub fn route(&self) -> Route {
        self.route
    }

    /// The round-trip estimate.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Counters.
    pub fn stats(&self) -> &TxStats {
        &self.stats
    }

    /// The congestion controller.
    pub fn controller(&self) -> &Controller {
        &self.cc
    }

    /// Sets the congestion controller, whatever the old one learnt.
    pub fn set_controller(&mut self, cc: Controller) {
        self.cc = cc;
    }

    /// Packets sent and neither acknowledged, nor held by the receiver, nor known to be lost.
    pub fn in_flight(&self) -> u32 {
        self.outstanding
            .without(self.lost)
            .without(self.held)
            .count()
    }

    /// Whether nothing awaits acknowledgement.
    pub fn is_idle(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Whether there are acknowledged packets to pop.
    pub fn has_acked(&self) -> bool {
        !self.acked.is_empty()
    }

    /// Whether there are lost packets to send again that nobody has picked yet.
    pub fn has_lost(&self) -> bool {
        !self.lost.without(self.picked).is_empty()
    }

    /// Whether `psn` awaits acknowledgement.
    pub fn is_outstanding(&self, psn: Psn) -> bool {
        self.covers(psn) && self.outstanding.get(index(psn))
    }

    /// How many new data packets may be sent now.
    pub fn room(&self) -> u32 {
        let span = (SPAN - NAK_RESERVE).saturating_sub(self.next.ahead_of(self.una));
        let window = self.cc.window().saturating_sub(self.in_flight());
        span.min(window).min(self.free_slots())
    }

    /// Whether a NAK may be sent now: it needs a place in the span, not in the window.
    pub fn room_for_nak(&self) -> bool {
        self.next.ahead_of(self.una) < SPAN && self.free_slots() > 0
    }

    /// Slots from `next` on that are not waiting to be popped; callers drain, so all are, mostly.
    fn free_slots(&self) -> u32 {
        match self.acked.first_from(index(self.next)) {
            None => SPAN,
            // The slot that `next` would use is the first in question.
            Some(i) => u32::from(i.wrapping_sub(index(self.next))),
        }
    }

    fn covers(&self, psn: Psn) -> bool {
        psn.ahead_of(self.una) < self.next.ahead_of(self.una)
    }

    fn slot_mut(&mut self, i: u8) -> Option<&mut TxSlot> {
        self.slots.get_mut(usize::from(i))
    }

    /// Gives out the next stamp: the time, or one more than the last.
    fn stamp(&mut self, now: Instant) -> Stamp {
        self.tick = (now.0 >> Stamp::SHIFT).max(self.tick.saturating_add(1));
        // CAST: truncation is meant, stamps wrap.
        Stamp(self.tick as u32)
    }

    /// Gives `desc` the next PSN and remembers it. `last`: nothing follows on this path for now.
    /// `None` if there is no room ([`TxHalf::room`]); ask again after an ACK.
    pub fn assign(&mut self, now: Instant, desc: TxDesc, last: bool) -> Option<Tx> {
        if self.room() == 0 {
            return None;
        }
        let last = last || self.room() == 1;
        self.push(now, desc, false, last)
    }

    /// As [`TxHalf::assign`] for a packet of the connection itself: it may use the reserve, always
    /// asks for an acknowledgement, and is not popped.
    pub fn assign_internal(&mut self, now: Instant, desc: TxDesc) -> Option<Tx> {
        if !self.room_for_nak() {
            return None;
        }
        self.push(now, desc, true, true)
    }

    fn push(&mut self, now: Instant, desc: TxDesc, internal: bool, ack: bool) -> Option<Tx> {
        let psn = self.next;
        let i = index(psn);
        let sent = Transmission {
            stamp: self.stamp(now),
            route_epoch: self.route.epoch,
        };
        *self.slot_mut(i)? = TxSlot {
            desc,
            last: sent,
            again: false,
            internal,
            cause: LossCause::Gap,
        };
        if self.outstanding.is_empty() {
            self.waiting = Waiting {
                since: now,
                ..Waiting::default()
            };
        }
        self.outstanding.set(i);
        self.next = psn.add(1);
        self.since_ack_req += 1;
        let ack_req = ack || self.since_ack_req >= ACK_EVERY;
        if ack_req {
            self.since_ack_req = 0;
        }
        self.stats.packets += 1;
        self.stats.bytes += u64::from(desc.payload_len());
        Some(Tx {
            psn,
            stamp: sent.stamp,
            route_epoch: sent.route_epoch,
            ack_req,
        })
    }

    /// Picks the lost packet with the lowest PSN. It is not offered again until it is sent
    /// ([`TxHalf::retransmit`]), given back ([`TxHalf::unpick`]) or the timer runs out.
    pub fn pick_lost(&mut self) -> Option<(Psn, TxDesc)> {
        let i = self.lost.without(self.picked).first_from(index(self.una))?;
        self.picked.set(i);
        let psn = self.psn_at(i);
        Some((psn, self.slot_mut(i)?.desc))
    }

    /// Gives a picked packet back unsent.
    pub fn unpick(&mut self, psn: Psn) {
        if self.covers(psn) {
            self.picked.clear(index(psn));
        }
    }

    /// The lost packet `psn` goes out again now. `None` if it was acknowledged, or sent again by
    /// someone else, meanwhile: do not send.
    pub fn retransmit(&mut self, now: Instant, psn: Psn) -> Option<Tx> {
        let i = index(psn);
        if !self.covers(psn) || !self.lost.get(i) {
            return None;
        }
        let sent = Transmission {
            stamp: self.stamp(now),
            route_epoch: self.route.epoch,
        };
        let slot = self.slot_mut(i)?;
        slot.last = sent;
        slot.again = true;
        let cause = slot.cause;
        self.lost.clear(i);
        self.picked.clear(i);
        let counter = match cause {
            LossCause::Gap => &mut self.stats.retransmits_gap,
            LossCause::Probe => &mut self.stats.retransmits_probe,
            LossCause::Timeout => &mut self.stats.retransmits_timeout,
        };
        *counter += 1;
        // A retransmission restarts the probe timer, but does not undo the back-off.
        self.waiting.since = now;
        self.waiting.probed = false;
        Some(Tx {
            psn,
            stamp: sent.stamp,
            route_epoch: sent.route_epoch,
            ack_req: true,
        })
    }

    /// The caller's descriptor of an acknowledged packet, each once, in no order that matters.
    pub fn pop_acked(&mut self) -> Option<TxDesc> {
        while let Some(i) = self.acked.take_from(index(self.una)) {
            let slot = self.slot_mut(i)?;
            if !slot.internal {
                return Some(slot.desc);
            }
        }
        None
    }

    fn psn_at(&self, i: u8) -> Psn {
        self.una.add(u32::from(i.wrapping_sub(index(self.una))))
    }

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
            self.waiting = Waiting {
                since: now,
                ..Waiting::default()
            };
        } else {
            self.stats.stale_acks += 1;
        }
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
            let Some(slot) = self.slots.get(usize::from(i)) else {
                break;
            };
            out.acked += 1;
            bytes += u64::from(slot.desc.payload_len());
            // Eifel (RFC 3522): acknowledged before the retransmission can have arrived.
            if slot.again
                && !self.lost.get(i)
                && slot.last.route_epoch == block.route_epoch
                && slot.last.stamp.is_after(block.stamp)
            {
                out.spurious += 1;
            }
        }
        self.outstanding = self.outstanding.without(newly);
        self.lost = self.lost.without(newly);
        self.picked = self.picked.without(newly);
        self.held = self.held.without(newly);
        self.acked = self.acked.or(newly);
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
        self.rtt.sample(rtt);
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
        let allowance = self.allowance(block.route_epoch);
        let start = index(self.una);
        let mut rest = self.outstanding.without(self.lost).without(self.held);
        while let Some(i) = rest.take_from(start) {
            let Some(slot) = self.slot_mut(i) else {
                break;
            };
            if is_lost(slot.last, arrived, allowance) {
                slot.cause = cause;
                self.lost.set(i);
                out.lost += 1;
            } else if !slot.again && !arrived.stamp.is_after(slot.last.stamp) {
                // Every packet behind went out later still.
                break;
            }
        }
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
                min_rtt: self.rtt.min(),
            });
        }
    }

    /// Replaces the route; PSNs and what is outstanding stay. `old_dead` says that nothing sent on
    /// the old route can still arrive. A probe becomes due, so that what was lost on the old route
    /// is found within a round trip of the new one.
    pub fn change_route(&mut self, now: Instant, route: Route, old_dead: bool) {
        self.route = Route {
            epoch: self.route.epoch.wrapping_add(1),
            ..route
        };
        self.old_route_dead = old_dead;
        self.trial = None;
        self.rtt.on_route_change();
        self.cc.on_route_change(now);
        self.stats.route_changes += 1;
        if !self.outstanding.is_empty() {
            self.probe_due = true;
        }
    }

    /// Puts a route on trial: a probe becomes due on it, under the epoch that it will have. If that
    /// is answered, the path moves there; the present route stays in use until then.
    pub fn try_route(&mut self, route: Route) {
        let epoch = self.route.epoch.wrapping_add(1);
        self.trial = Some(Trial {
            route: Route { epoch, ..route },
            sent: None,
        });
    }

    fn end_trial(&mut self, now: Instant, block: &AckBlock) -> bool {
        let answered = self.trial.filter(|t| t.sent == Some(block.stamp));
        let Some(trial) = answered else {
            return false;
        };
        self.change_route(now, trial.route, false);
        true
    }

    /// Whether a probe should go out.
    pub fn probe_due(&self) -> bool {
        self.probe_due || self.trial.is_some_and(|t| t.sent.is_none())
    }

    /// Makes a probe due whatever the timer says, e.g. to find out whether the peer lives.
    pub fn request_probe(&mut self) {
        self.probe_due = true;
    }

    /// Sends a probe if one is due: its stamp, the route to take, whose epoch it carries, and one
    /// past the highest PSN sent.
    pub fn probe(&mut self, now: Instant) -> Option<(Stamp, Route, Psn)> {
        let route = if core::mem::take(&mut self.probe_due) {
            self.route
        } else {
            self.trial.filter(|t| t.sent.is_none())?.route
        };
        let stamp = self.stamp(now);
        if route.epoch == self.route.epoch {
            self.probe_stamp = Some(stamp);
        } else if let Some(t) = &mut self.trial {
            t.sent = Some(stamp);
        }
        self.stats.probes += 1;
        Some((stamp, route, self.next))
    }

    /// When [`TxHalf::on_timeout`] is to be called, `None` while nothing is outstanding.
    pub fn deadline(&self, timers: &Timers) -> Option<Instant> {
        if self.outstanding.is_empty() {
            return None;
        }
        let w = &self.waiting;
        let wait = if w.probed || w.timeouts > 0 {
            timers.rto(&self.rtt, w.timeouts)
        } else {
            timers.probe(&self.rtt)
        };
        Some(w.since.after(wait))
    }

    /// Retransmission timeouts in a row without progress.
    pub fn timeouts(&self) -> u8 {
        self.waiting.timeouts
    }

    /// Acts on the timer. `None` if it has not run out: calls too many do no harm.
    pub fn on_timeout(&mut self, now: Instant, timers: &Timers) -> Option<Expired> {
        if self.deadline(timers)? > now {
            return None;
        }
        self.waiting.since = now;
        self.probe_due = true;
        if !self.waiting.probed && self.waiting.timeouts == 0 {
            self.waiting.probed = true;
            return Some(Expired::Probe);
        }
        self.waiting.timeouts = self.waiting.timeouts.saturating_add(1);
        self.stats.timeouts += 1;
        self.give_up_waiting(now);
        Some(Expired::Timeout(self.waiting.timeouts))
    }

    /// The oldest packet counts as lost, so that data flows again even where probes do not help;
    /// what was picked is offered again, and what was held must be confirmed by the next ACK.
    fn give_up_waiting(&mut self, now: Instant) {
        // CAST: truncation is meant, stamps wrap.
        let tick = self.tick as u32;
        let una = index(self.una);
        self.picked = Bits256::EMPTY;
        let mut rest = self.outstanding.without(self.lost).without(self.held);
        self.held = Bits256::EMPTY;
        let mut lost = 0;
        while let Some(i) = rest.take_from(una) {
            let Some(slot) = self.slot_mut(i) else {
                break;
            };
            // A stamp must be judged before it wraps, so very old ones go as well.
            if lost > 0 && tick.wrapping_sub(slot.last.stamp.0) < 1 << 30 {
                continue;
            }
            slot.cause = LossCause::Timeout;
            self.lost.set(i);
            lost += 1;
        }
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

/// Place of a PSN in the ring.
fn index(psn: Psn) -> u8 {
    let [.., low] = psn.0.to_be_bytes();
    low
}
