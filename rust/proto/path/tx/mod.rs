// SPDX-License-Identifier: GPL-2.0

//! The sending half of a path.

mod ack;
mod reroute;
mod send;
mod state;
mod timer;

use core::ops::DerefMut;

use super::{Route, TxStats, NAK_RESERVE, SPAN};
use crate::bits::Bits256;
use crate::congestion::{CongestionControl, Controller, Pace, Pacer};
use crate::packet::TxDesc;
use crate::psn::Psn;
use crate::recovery::{LossCause, LossShare, Reordering, Rtt, Timers, Transmission};
use crate::time::{Duration, Instant, Stamp};
use crate::wire::AckBlock;

/// A packet that a path sent and that is not acknowledged, or acknowledged and not yet popped.
///
/// There are [`SPAN`] for each path, so its size is what a connection takes. Allocators round up to
/// a power of two.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxSlot {
    desc: TxDesc,
    /// With the route epoch: when it was last sent, and where.
    stamp: Stamp,
    route_epoch: u8,
    /// Sent more than once.
    again: bool,
    cause: LossCause,
    whose: Whose,
}

const _: () = assert!(size_of::<TxSlot>() == 32);

/// What is popped when a packet is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
enum Whose {
    /// The caller's packet.
    #[default]
    Caller,
    /// The caller's packet, which was sent again though it had arrived.
    CallerSpurious,
    /// Nothing: the connection sent it.
    Internal,
}

impl Whose {
    const fn new(internal: bool) -> Self {
        if internal {
            Self::Internal
        } else {
            Self::Caller
        }
    }
}

impl TxSlot {
    fn new(desc: TxDesc, sent: Transmission, whose: Whose) -> Self {
        Self {
            desc,
            stamp: sent.stamp,
            route_epoch: sent.route_epoch,
            again: false,
            cause: LossCause::Gap,
            whose,
        }
    }

    fn last(&self) -> Transmission {
        Transmission {
            stamp: self.stamp,
            route_epoch: self.route_epoch,
        }
    }

    fn sent_again(&mut self, sent: Transmission) {
        (self.stamp, self.route_epoch) = (sent.stamp, sent.route_epoch);
        self.again = true;
    }
}

/// A packet that the peer has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acked {
    /// What it was.
    pub desc: TxDesc,
    /// It was sent again needlessly: the earlier transmission had arrived.
    pub spurious: bool,
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
    /// Why it is sent again; [`None`] the first time.
    pub cause: Option<LossCause>,
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
    /// Of these, packets that had been overtaken.
    pub reordered: u32,
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
    /// Last progress, or when the path got busy.
    began: Instant,
    /// When the timer ran out first, no other path made progress either.
    patient: bool,
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

/// Most of the window that a burst is waited for, packets.
const WORTH: u32 = 8;

/// The sending half of a path.
///
/// # Invariants
///
/// * `una <= next <= una + SPAN` in serial order, and `outstanding` holds bits of `una .. next`
///   only, at index PSN modulo [`SPAN`], that of `una` included unless `una == next`;
/// * `picked` is in `lost`, `lost` and `held` are in `outstanding` and disjoint;
/// * `acked` and `outstanding` are disjoint;
/// * `flying` is the number of bits of `outstanding` that are neither in `lost` nor in `held`;
/// * no two transmissions have the same stamp, later ones have later stamps.
#[derive(Debug)]
pub struct TxHalf<S> {
    slots: S,
    una: Psn,
    next: Psn,
    outstanding: Bits256,
    /// In flight: counted once for each change, as the scheduler looks at all paths each time.
    flying: u32,
    /// To be sent again.
    lost: Bits256,
    /// Lost, and handed to the caller to be rebuilt.
    picked: Bits256,
    /// At the receiver, but refused or not processed yet.
    held: Bits256,
    /// Acknowledged and not popped.
    acked: Bits256,
    route: Route,
    /// What the route carries is on no link.
    local: bool,
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
    /// When the peer last told of an arrival.
    progress: Instant,
    probe_due: bool,
    rtt: Rtt,
    /// The least round-trip time of all paths of this plane, zero if unknown.
    plane_rtt: Duration,
    reordering: Reordering,
    cc: Controller,
    pacer: Pacer,
    /// [`crate::recovery::Timers::granularity`].
    grain: Duration,
    loss: LossShare,
    stats: TxStats,
}

impl<S: DerefMut<Target = [TxSlot]>> TxHalf<S> {
    pub(super) fn new(slots: S) -> Option<Self> {
        // What they hold does not matter: a slot is read only after it was written.
        slots.get(..usize::try_from(SPAN).ok()?)?;
        Some(TxHalf {
            slots,
            una: Psn(0),
            next: Psn(0),
            outstanding: Bits256::EMPTY,
            flying: 0,
            lost: Bits256::EMPTY,
            picked: Bits256::EMPTY,
            held: Bits256::EMPTY,
            acked: Bits256::EMPTY,
            route: Route::default(),
            local: false,
            old_route_dead: false,
            trial: None,
            tick: 0,
            probe_stamp: None,
            echoed: None,
            ce_count: 0,
            since_ack_req: 0,
            waiting: Waiting::default(),
            progress: Instant(0),
            probe_due: false,
            rtt: Rtt::new(),
            plane_rtt: Duration::ZERO,
            reordering: Reordering::default(),
            cc: Controller::default(),
            pacer: Pacer::default(),
            grain: Timers::default().granularity,
            loss: LossShare::default(),
            stats: TxStats::default(),
        })
    }

    pub(super) fn restart(&mut self, first: Psn, route: Route, cc: Controller) {
        self.una = first;
        self.next = first;
        self.outstanding = Bits256::EMPTY;
        self.flying = 0;
        self.lost = Bits256::EMPTY;
        self.picked = Bits256::EMPTY;
        self.held = Bits256::EMPTY;
        self.acked = Bits256::EMPTY;
        self.route = route;
        self.local = false;
        self.old_route_dead = false;
        self.trial = None;
        self.probe_stamp = None;
        self.echoed = None;
        self.ce_count = 0;
        self.since_ack_req = 0;
        self.waiting = Waiting::default();
        self.probe_due = false;
        self.rtt = Rtt::new();
        self.plane_rtt = Duration::ZERO;
        self.reordering = Reordering::default();
        self.cc = cc;
        self.pacer.reset();
        self.loss = LossShare::default();
    }

    /// Whether new packets need no CRC: the peer says that what comes this way is on no link.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Takes note of whether the peer said so in an ACK with `block`. That holds until it says
    /// otherwise, the route changes, or nothing arrives any more.
    pub fn note_local(&mut self, block: &AckBlock, local: bool) {
        if block.route_epoch == self.route.epoch {
            self.local = local;
        }
    }

    /// Where the path's packets go just now.
    pub fn route(&self) -> Route {
        self.route
    }

    /// The round-trip estimate.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Sets what of times is the hosts' doing, [`Timers::granularity`]; the controller's too.
    pub fn set_granularity(&mut self, grain: Duration) {
        self.grain = grain;
        self.cc.set_granularity(grain);
    }

    /// Tells the least round-trip time of all paths of this plane: that of this path alone may have
    /// the others' queue in it. To be called before [`TxHalf::on_ack`].
    pub fn set_plane_rtt(&mut self, rtt: Duration) {
        self.plane_rtt = rtt;
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
        self.cc.set_granularity(self.grain);
    }

    /// Packets sent and neither acknowledged, nor held by the receiver, nor known to be lost.
    pub fn in_flight(&self) -> u32 {
        debug_assert_eq!(self.flying, self.in_flight_bits().count());
        self.flying
    }

    fn in_flight_bits(&self) -> Bits256 {
        self.outstanding.without(self.lost).without(self.held)
    }

    /// To be called after a change of `outstanding`, `lost` or `held`.
    fn count_in_flight(&mut self) {
        self.flying = self.in_flight_bits().count();
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

    /// How many of those the pacer lets go now; `Err` with the time to ask again if it is the pacer
    /// alone that forbids it. Zero also where the room there is is not worth a burst.
    pub fn room_paced(&self, now: Instant) -> Result<u32, Instant> {
        let room = self.room();
        // Silly windows make small bursts, which cost hosts more than they give: what is in flight
        // brings an acknowledgement that makes room for more.
        let worth = (self.cc.window() / 4).clamp(1, WORTH);
        if room < worth && self.in_flight() > 0 {
            return Ok(0);
        }
        if room == 0 {
            return Ok(0);
        }
        let n = self.pacer.credit(now, &self.pace(), u64::from(room))?;
        Ok(u32::try_from(n).unwrap_or(u32::MAX))
    }

    fn pace(&self) -> Pace {
        Pace::of_window(self.cc.fine_window(), self.rtt.smoothed(), self.grain)
    }

    /// The share of packets that were lost of late, of 1024.
    pub fn loss_share(&self) -> u32 {
        self.loss.share()
    }

    /// Whether packets are outstanding and the path was silent for so long that it had to ask.
    pub fn is_silent(&self) -> bool {
        !self.outstanding.is_empty() && (self.waiting.probed || self.waiting.timeouts > 0)
    }

    /// When the path last made progress, or got busy; if it is busy.
    pub fn busy_since(&self) -> Option<Instant> {
        (!self.outstanding.is_empty()).then_some(self.waiting.began)
    }

    /// When the peer last told of an arrival on this path; the beginning of time if it never did.
    pub fn progress(&self) -> Instant {
        self.progress
    }

    /// Whether a NAK may be sent now: it needs a place in the span, not in the window.
    pub fn room_for_nak(&self) -> bool {
        self.next.ahead_of(self.una) < SPAN && self.free_slots() > 0
    }

    /// Slots from `next` on that are not waiting to be popped; callers drain, so all are, mostly.
    fn free_slots(&self) -> u32 {
        if self.acked.is_empty() {
            return SPAN;
        }
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

    fn psn_at(&self, i: u8) -> Psn {
        self.una.add(u32::from(i.wrapping_sub(index(self.una))))
    }
}

/// Place of a PSN in the ring.
fn index(psn: Psn) -> u8 {
    let [.., low] = psn.0.to_be_bytes();
    low
}
