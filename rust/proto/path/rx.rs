// SPDX-License-Identifier: GPL-2.0

//! The receiving half of a path.

use super::{RxStats, ACK_EVERY, SPAN};
use crate::bits::Bits256;
use crate::packet::PathId;
use crate::psn::Psn;
use crate::state::{fields, Reader, StateError, Writer};
use crate::time::{Instant, Stamp};
use crate::wire::AckBlock;

/// What to do with a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rx {
    /// First arrival: process it, then report with `rx_done` or `rx_abort`.
    New,
    /// It arrived before: drop it.
    Duplicate,
    /// Not of this path's window: drop it.
    Outside,
    /// No room to refuse it if need be: drop it, the peer sends it again.
    Busy,
}

/// What the network did with a packet on its way here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// It set a CE mark in the IP header.
    pub ce: bool,
    /// Nothing: the packet was on no link, only in memory.
    pub local: bool,
}

/// What the path needs to know of a packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// When.
    pub now: Instant,
    /// Its PSN.
    pub psn: Psn,
    /// The sender's stamp.
    pub stamp: Stamp,
    /// Epoch of the route that carried it.
    pub route_epoch: u8,
    /// The sender asks for an acknowledgement.
    pub ack_req: bool,
    /// How it came.
    pub arrival: Arrival,
}

/// What became of a packet that was processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Acknowledged, at the latest with the next ACK.
    Acked,
    /// Not acknowledged until its NAK is.
    Held,
    /// Forgotten; the peer will send it again.
    Dropped,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    stamp: Stamp,
    route_epoch: u8,
    arrival: Instant,
}

fields!(Newest {
    stamp,
    route_epoch,
    arrival,
});

/// The receiving half of a path.
///
/// # Invariants
///
/// `acked` is a subset of `seen`; both hold bits of PSNs in `cum .. cum + SPAN` only, at index PSN
/// modulo [`SPAN`]; the bit of `cum` itself is not in `acked`.
#[derive(Debug)]
pub struct RxHalf {
    /// Everything before is acknowledged.
    cum: Psn,
    /// One past the highest PSN seen.
    end: Psn,
    seen: Bits256,
    acked: Bits256,
    ce_count: u32,
    newest: Option<Newest>,
    /// A probe that no ACK has echoed yet.
    probe: Option<Newest>,
    /// Being processed, with room for a NAK set aside.
    promised: Bits256,
    /// Arrivals since the last ACK.
    unreported: u32,
    /// All of them were local; if there are none, those that the last ACK told of.
    local: bool,
    /// An ACK is due at the end of the batch.
    ack_due: bool,
    /// The last ACK reported packets as held: the peer waits for news of them.
    owes: bool,
    /// How many paths further on the route for ACKs of this path is taken from.
    ack_detour: u16,
    /// Nothing new came since the last probe.
    probed: bool,
    stats: RxStats,
}

impl RxHalf {
    pub(super) const fn new() -> Self {
        RxHalf {
            cum: Psn(0),
            end: Psn(0),
            seen: Bits256::EMPTY,
            acked: Bits256::EMPTY,
            ce_count: 0,
            newest: None,
            probe: None,
            promised: Bits256::EMPTY,
            unreported: 0,
            local: false,
            ack_due: false,
            owes: false,
            ack_detour: 0,
            probed: false,
            stats: RxStats {
                packets: 0,
                duplicates: 0,
                outside: 0,
                marks: 0,
                local: 0,
                gaps: 0,
                held: 0,
                aborted: 0,
                probes: 0,
            },
        }
    }

    pub(super) fn restart(&mut self, first: Psn) {
        let stats = self.stats;
        *self = RxHalf::new();
        self.cum = first;
        self.end = first;
        self.stats = stats;
    }

    /// Writes what the peer relies on. Of packets that are neither acknowledged nor in `held` nobody
    /// knows what becomes: they come again.
    pub(crate) fn save(&self, w: &mut Writer<'_>, held: Bits256) -> Option<()> {
        w.put(&self.cum)?;
        w.put(&self.end)?;
        w.put(&self.seen.and(self.acked.or(held)))?;
        w.put(&self.acked)?;
        w.put(&self.ce_count)?;
        w.put(&self.newest)
    }

    /// Goes on from a state.
    pub(crate) fn load(&mut self, r: &mut Reader<'_>) -> Result<(), StateError> {
        self.restart(r.get()?);
        self.end = r.get()?;
        self.seen = r.get()?;
        self.acked = r.get()?;
        self.ce_count = r.get()?;
        self.newest = r.get()?;
        self.owes = true;
        self.ack_due = self.newest.is_some();
        Ok(())
    }

    /// Counters.
    pub fn stats(&self) -> &RxStats {
        &self.stats
    }

    /// The next PSN to be acknowledged.
    pub fn cum(&self) -> Psn {
        self.cum
    }

    /// Takes note of a packet's arrival.
    pub fn check(&mut self, p: &Received) -> Rx {
        let d = p.psn.ahead_of(self.cum);
        let old = d >= 1 << 31;
        if !old && d >= SPAN {
            self.stats.outside += 1;
            return Rx::Outside;
        }
        self.note_local(p.arrival);
        self.stats.local += u64::from(p.arrival.local);
        if p.arrival.ce {
            self.ce_count = self.ce_count.wrapping_add(1);
            self.stats.marks += 1;
            self.ack_due = true;
        }
        self.ack_due |= p.ack_req;
        self.note_epoch(p.route_epoch);
        self.newest = Some(Newest {
            stamp: p.stamp,
            route_epoch: p.route_epoch,
            arrival: p.now,
        });
        // Duplicates count too: they may echo a stamp that the sender waits for.
        self.unreported = self.unreported.saturating_add(1);
        let i = index(p.psn);
        if old || self.seen.get(i) {
            self.stats.duplicates += 1;
            self.ack_due = true;
            return Rx::Duplicate;
        }
        if p.psn != self.end {
            // Ahead of the end it leaves a hole, behind it fills one: the sender acts on both.
            self.ack_due = true;
            self.stats.gaps += u64::from(self.end.before(p.psn));
        }
        if !p.psn.before(self.end) {
            self.end = p.psn.add(1);
        }
        self.seen.set(i);
        self.probed = false;
        self.stats.packets += 1;
        self.ack_due |= self.unreported >= ACK_EVERY;
        Rx::New
    }

    /// Whether [`RxHalf::check`] would find `psn` new.
    pub fn is_new(&self, psn: Psn) -> bool {
        psn.ahead_of(self.cum) < SPAN && !self.seen.get(index(psn))
    }

    /// Notes that a NAK for the new packet `psn` has a place.
    pub(crate) fn promise(&mut self, psn: Psn) {
        self.promised.set(index(psn));
    }

    /// Gives up the place of a NAK; returns whether there was one.
    pub(crate) fn take_promise(&mut self, psn: Psn) -> bool {
        let had = self.is_pending(psn) && self.promised.get(index(psn));
        if had {
            self.promised.clear(index(psn));
        }
        had
    }

    /// A probe arrived: an ACK is due that echoes its stamp.
    pub fn probe(&mut self, now: Instant, stamp: Stamp, route_epoch: u8, arrival: Arrival) {
        self.note_local(arrival);
        self.note_epoch(route_epoch);
        self.probe = Some(Newest {
            stamp,
            route_epoch,
            arrival: now,
        });
        self.newest = self.probe;
        self.stats.probes += 1;
        self.ack_due = true;
        if core::mem::replace(&mut self.probed, true) {
            self.ack_detour = self.ack_detour.wrapping_add(1);
        }
    }

    /// The peer has left a route, perhaps for want of ACKs, and perhaps the planes that ACKs of this
    /// path use are the ones that it has left. So these change as well.
    fn note_epoch(&mut self, epoch: u8) {
        let newer = |n: Newest| (1..128).contains(&epoch.wrapping_sub(n.route_epoch));
        if self.newest.is_some_and(newer) {
            self.ack_detour = self.ack_detour.wrapping_add(1);
        }
    }

    /// How many paths further on to take the route for ACKs from. A second probe with nothing new in
    /// between says that ACKs are getting lost, and moves it on: an ACK's route fails as silently as
    /// any other, and no timer of this side runs for it.
    pub fn ack_detour(&self) -> u16 {
        self.ack_detour
    }

    /// Acknowledges a packet that was processed or is held. Does nothing for any other PSN.
    pub fn accept(&mut self, psn: Psn) {
        if !self.is_pending(psn) {
            return;
        }
        self.acked.set(index(psn));
        while self.acked.get(index(self.cum)) {
            self.acked.clear(index(self.cum));
            self.seen.clear(index(self.cum));
            self.cum = self.cum.add(1);
        }
        self.ack_due |= self.owes;
    }

    /// Keeps a packet unacknowledged until [`RxHalf::accept`].
    pub fn hold(&mut self, psn: Psn) {
        if self.is_pending(psn) {
            self.stats.held += 1;
        }
    }

    /// Forgets that a packet arrived, so that the peer sends it again. Does nothing for a PSN that
    /// is not seen or is acknowledged already.
    pub fn abort(&mut self, psn: Psn) {
        if !self.is_pending(psn) {
            return;
        }
        self.seen.clear(index(psn));
        self.stats.aborted += 1;
        self.ack_due |= self.owes;
    }

    /// Whether `psn` arrived and is not acknowledged.
    pub fn is_pending(&self, psn: Psn) -> bool {
        psn.ahead_of(self.cum) < SPAN && self.seen.get(index(psn)) && !self.acked.get(index(psn))
    }

    /// Whether an ACK should go out at the end of the batch.
    pub fn ack_due(&self) -> bool {
        self.ack_due
    }

    /// Whether an ACK would tell the peer anything new.
    pub fn unreported(&self) -> bool {
        self.ack_due || self.unreported > 0
    }

    /// Whether all that the next ACK tells of was on no link.
    pub fn is_local(&self) -> bool {
        self.local
    }

    fn note_local(&mut self, arrival: Arrival) {
        self.local = arrival.local && (self.local || !self.unreported());
    }

    /// The block for an ACK that goes out now; `None` if nothing arrived yet.
    pub fn report(&mut self, now: Instant, path: PathId) -> Option<AckBlock> {
        // An answer to the probe, whatever came behind it: its sender waits for just that.
        let newest = self.probe.take().or(self.newest)?;
        let held = self.seen.without(self.acked);
        self.ack_due = false;
        self.unreported = 0;
        self.owes = !held.is_empty();
        let hold = now.since(newest.arrival).0 >> Stamp::SHIFT;
        Some(AckBlock {
            path,
            route_epoch: newest.route_epoch,
            cum: self.cum,
            ce_count: self.ce_count,
            stamp: newest.stamp,
            hold: u32::try_from(hold).unwrap_or(u32::MAX),
            acked: self.acked.rotate_right(index(self.cum.add(1))),
            held: held.rotate_right(index(self.cum)),
        })
    }
}

/// Place of a PSN in the ring.
pub(crate) fn index(psn: Psn) -> u8 {
    let [.., low] = psn.0.to_be_bytes();
    low
}
