// SPDX-License-Identifier: GPL-2.0

//! Sending packets, and sending them again.

use core::ops::DerefMut;

use super::{index, Acked, Tx, TxHalf, TxSlot, Waiting, Whose};
use crate::congestion::CongestionControl;
use crate::packet::TxDesc;
use crate::path::ACK_EVERY;
use crate::psn::Psn;
use crate::recovery::{LossCause, Transmission};
use crate::time::{Instant, Stamp};

impl<S: DerefMut<Target = [TxSlot]>> TxHalf<S> {
    /// Gives out the next stamp: the time, or one more than the last.
    pub(super) fn stamp(&mut self, now: Instant) -> Stamp {
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
        *self.slot_mut(i)? = TxSlot::new(desc, sent, Whose::new(internal));
        if self.outstanding.is_empty() {
            self.waiting = Waiting {
                since: now,
                began: now,
                ..Waiting::default()
            };
        }
        self.outstanding.set(i);
        self.flying += 1;
        self.next = psn.add(1);
        self.pacer.charge(now, &self.pace(), 1);
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
            cause: None,
        })
    }

    /// Picks the lost packet with the lowest PSN, if the window has room for it; after a timeout
    /// one goes whatever the window. It is not offered again until it is sent
    /// ([`TxHalf::retransmit`]), given back ([`TxHalf::unpick`]) or the timer runs out.
    pub fn pick_lost(&mut self) -> Option<(Psn, TxDesc)> {
        let i = self.lost.without(self.picked).first_from(index(self.una))?;
        let sent = self.in_flight() + self.picked.count();
        let timeout = self.slot_mut(i)?.cause == LossCause::Timeout;
        if sent >= self.cc.window() && !timeout {
            return None;
        }
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
        slot.sent_again(sent);
        let cause = slot.cause;
        self.lost.clear(i);
        self.picked.clear(i);
        self.count_in_flight();
        let counter = match cause {
            LossCause::Gap => &mut self.stats.retransmits_gap,
            LossCause::Probe => &mut self.stats.retransmits_probe,
            LossCause::Timeout => &mut self.stats.retransmits_timeout,
        };
        *counter += 1;
        self.pacer.charge(now, &self.pace(), 1);
        // A retransmission restarts the probe timer, but does not undo the back-off.
        self.waiting.since = now;
        self.waiting.probed = false;
        Some(Tx {
            psn,
            stamp: sent.stamp,
            route_epoch: sent.route_epoch,
            ack_req: true,
            cause: Some(cause),
        })
    }

    /// An acknowledged packet of the caller, each once, in no order that matters.
    pub fn pop_acked(&mut self) -> Option<Acked> {
        while let Some(i) = self.acked.take_from(index(self.una)) {
            let slot = self.slot_mut(i)?;
            if slot.whose != Whose::Internal {
                return Some(Acked {
                    desc: slot.desc,
                    spurious: slot.whose == Whose::CallerSpurious,
                });
            }
        }
        None
    }
}
