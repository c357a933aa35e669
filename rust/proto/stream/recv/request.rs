// SPDX-License-Identifier: GPL-2.0

//! Request packets: judged, counted or refused.

use core::ops::DerefMut;

use super::{Fatal, Place, RecvStream, Refusal, Target, Verdict};
use crate::packet::{DataFields, Opcode, StreamFlags};
use crate::psn::Rsn;
use crate::stream::{
    epoch_before, later_epoch, packet_count, MemoryRange, MsgSlot, Nak, Response, MAX_MSG_LEN,
};

impl<B, R> RecvStream<B, R>
where
    B: DerefMut<Target = [MsgSlot]>,
    R: DerefMut<Target = [Response]>,
{
    /// Judges a request packet with `payload_len` bytes. `recv_posted` is how many receives have been
    /// posted since the stream began, modulo 2^32; with a shared receive queue, how many were taken
    /// from it. See [`needs_receive`](Self::needs_receive).
    pub fn on_packet(&self, f: &DataFields, payload_len: u32, recv_posted: Rsn) -> Verdict {
        if f.src_qpn != self.cfg.peer_qpn {
            return Verdict::Refuse(Refusal::NotReady);
        }
        match self.place_of(f.msn) {
            Place::Behind => return Verdict::Discard,
            Place::Inside => {}
            Place::Beyond if self.ready => return Verdict::Refuse(Refusal::InvalidRequest),
            Place::Beyond => return Verdict::Refuse(Refusal::NotReady),
        }
        if self.cfg.unreliable && self.ready && self.began.is_none() {
            // The peer is of another kind.
            return Verdict::Refuse(Refusal::InvalidRequest);
        }
        if let Some(why) = self.refusal_of(f) {
            return Verdict::Refuse(why);
        }
        if self.is_stale(f) {
            return Verdict::Discard;
        }
        if !self.ready {
            return match self.fatal {
                // The peer has gone back for another reason, and took the NAK for an echo.
                Some(fatal) if fatal.msn == f.msn => Verdict::Refuse(fatal.why),
                // It cannot complete, and there is no need to tell why.
                Some(fatal) if fatal.msn.before(f.msn) => Verdict::Discard,
                _ => Verdict::Refuse(Refusal::NotReady),
            };
        }
        match self.judge(f, payload_len, recv_posted) {
            Ok(target) => Verdict::Place(target),
            Err(why) => Verdict::Refuse(why),
        }
    }

    /// Whether the receive that packet `f` names is needed now. What has not come yet of the
    /// messages before it may need those before it.
    pub fn needs_receive(&self, f: &DataFields) -> bool {
        let consumes = match f.opcode {
            Opcode::Send | Opcode::SendImm | Opcode::SendInv => true,
            Opcode::WriteImm => f.flags.has(StreamFlags::LAST),
            _ => false,
        };
        consumes
            && self.ready
            && f.src_qpn == self.cfg.peer_qpn
            && self.place_of(f.msn) == Place::Inside
            && !self.is_stale(f)
            && f.rsn.ahead_of(self.next_rsn) <= f.msn.ahead_of(self.next)
    }

    fn judge(&self, f: &DataFields, payload_len: u32, recv_posted: Rsn) -> Result<Target, Refusal> {
        let reliable = !self.cfg.unreliable;
        if reliable && f.flags.has(StreamFlags::START) {
            return Err(Refusal::InvalidRequest);
        }
        let allowed = match f.opcode {
            Opcode::Send | Opcode::SendImm => true,
            Opcode::Write | Opcode::WriteImm => self.cfg.access.write,
            // On a reliable connection only (IBTA 1.4, 9.4).
            _ if !reliable => false,
            Opcode::SendInv => true,
            Opcode::AtomicWrite => self.cfg.access.write,
            Opcode::ReadRequest => self.cfg.access.read,
            Opcode::CmpSwap | Opcode::FetchAdd => self.cfg.access.atomic,
            Opcode::Flush => self.cfg.access.flush,
            Opcode::Void | Opcode::ReadResponse | Opcode::AtomicResponse | Opcode::Nak => false,
        };
        if !allowed {
            return Err(Refusal::InvalidRequest);
        }
        let end = self.end_of(f, payload_len).ok_or(Refusal::InvalidRequest)?;
        let slot = self.slot(f.msn).ok_or(Refusal::InvalidRequest)?;
        // What a newer attempt says need not agree with an older one.
        let agrees = epoch_before(slot.epoch(), f.epoch) || slot.agrees(f, end);
        if !agrees {
            return Err(Refusal::InvalidRequest);
        }
        match f.opcode {
            Opcode::Send | Opcode::SendImm | Opcode::SendInv => {
                self.check_receive(f, recv_posted)?;
                Ok(Target::Recv {
                    rsn: f.rsn,
                    offset: f.offset,
                })
            }
            Opcode::Write | Opcode::WriteImm => {
                // The receive is needed when the message is complete: let data come meanwhile.
                if f.opcode == Opcode::WriteImm && f.flags.has(StreamFlags::LAST) {
                    self.check_receive(f, recv_posted)?;
                }
                if payload_len == 0 {
                    // A Write without payload needs no valid key (IBTA 1.4, 9.7.4.1.6).
                    return Ok(Target::None);
                }
                let va =
                    f.va.checked_add(u64::from(f.offset))
                        .filter(|va| va.checked_add(u64::from(payload_len)).is_some())
                        .ok_or(Refusal::RemoteAccess)?;
                let range = MemoryRange {
                    va,
                    rkey: f.rkey,
                    len: payload_len,
                };
                Ok(
                    if self.cfg.last_byte_ordered && f.flags.has(StreamFlags::LAST) {
                        Target::Ordered(range)
                    } else {
                        Target::Memory(range)
                    },
                )
            }
            _ => {
                self.check_request(f, slot)?;
                if f.opcode != Opcode::ReadRequest || f.length == 0 {
                    return Ok(Target::None);
                }
                if f.va.checked_add(u64::from(f.length)).is_none() {
                    return Err(Refusal::RemoteAccess);
                }
                Ok(Target::ReadFrom(MemoryRange {
                    va: f.va,
                    rkey: f.rkey,
                    len: f.length,
                }))
            }
        }
    }

    /// End of the packet's payload in the message, if the packet is well formed for this MTU.
    pub(super) fn end_of(&self, f: &DataFields, payload_len: u32) -> Option<u32> {
        if f.opcode == Opcode::ReadRequest || f.opcode.is_atomic() {
            let single = f.offset == 0 && payload_len == 0 && f.flags.has(StreamFlags::LAST);
            return single.then_some(0);
        }
        let end = f
            .offset
            .checked_add(payload_len)
            .filter(|&end| end <= MAX_MSG_LEN)?;
        let shaped = if f.flags.has(StreamFlags::LAST) {
            payload_len <= self.mtu.get() && (payload_len != 0 || f.offset == 0)
        } else {
            payload_len == self.mtu.get()
        };
        (shaped && f.offset % self.mtu == 0).then_some(end)
    }

    /// Checks that the receive which the packet names exists and can be meant.
    fn check_receive(&self, f: &DataFields, recv_posted: Rsn) -> Result<(), Refusal> {
        // Each message before this one consumes at most one receive, so the number is bounded on
        // both sides. In particular no completed receive can be written to.
        if f.rsn.ahead_of(self.next_rsn) > f.msn.ahead_of(self.next) {
            return Err(Refusal::InvalidRequest);
        }
        if !f.rsn.before(recv_posted) {
            return Err(Refusal::ReceiverNotReady);
        }
        Ok(())
    }

    /// Checks a Read or an atomic, which falls on `slot`.
    fn check_request(&self, f: &DataFields, slot: &MsgSlot) -> Result<(), Refusal> {
        if f.length > MAX_MSG_LEN {
            return Err(Refusal::InvalidRequest);
        }
        // IBTA 1.4, 9.4.5: naturally aligned.
        if !matches!(f.opcode, Opcode::ReadRequest | Opcode::Flush) && f.va & 7 != 0 {
            return Err(Refusal::InvalidRequest);
        }
        // A response that was sent in whole may have reached the peer, and then it is free to ask
        // again before we learn of it. The others are certainly outstanding.
        let others = self
            .requests
            .saturating_sub(u32::from(slot.has_response()))
            .saturating_add(self.resp_tail.wrapping_sub(self.resp_send));
        if others >= self.cfg.max_dest_rd_atomic {
            return Err(Refusal::InvalidRequest);
        }
        Ok(())
    }

    /// Counts a packet that [`on_packet`](Self::on_packet) wanted placed, and that now is.
    pub fn placed(&mut self, f: &DataFields, payload_len: u32) {
        if self.place_of(f.msn) != Place::Inside || self.is_stale(f) {
            return;
        }
        let Some(end) = self.end_of(f, payload_len) else {
            return;
        };
        let packets = f
            .flags
            .has(StreamFlags::LAST)
            .then(|| packet_count(end, self.mtu));
        self.revise_fatal(f);
        let Some(slot) = self.slot_mut(f.msn) else {
            return;
        };
        let had_request = slot.has_response();
        if epoch_before(slot.epoch(), f.epoch) {
            *slot = MsgSlot::empty(f.epoch);
        }
        slot.place(f, end, packets);
        let has_request = slot.has_response();
        self.requests = self
            .requests
            .saturating_sub(u32::from(had_request))
            .saturating_add(u32::from(has_request));
        self.seen = later_epoch(self.seen, f.epoch);
    }

    /// Refuses a packet: returns the NAK to be sent while the packet's PSN is held, or `None` if the
    /// packet has become stale meanwhile and is to be acknowledged.
    ///
    /// If the NAK finds no room, drop it and the packet: when the packet comes again, it is refused
    /// again.
    pub fn refuse(&mut self, f: &DataFields, why: Refusal) -> Option<Nak> {
        let mut nak = Nak {
            code: why.code(),
            timer: 0,
            msn: f.msn,
            epoch: f.epoch,
            qpn: f.dst_qpn,
            peer_qpn: f.src_qpn,
        };
        if why == Refusal::ReceiverNotReady {
            nak.timer = self.cfg.min_rnr_timer & 31;
        }
        if f.src_qpn != self.cfg.peer_qpn {
            return Some(nak);
        }
        match self.place_of(f.msn) {
            Place::Behind => return None,
            Place::Inside => {}
            // No message of the current peer, or not one that follows the protocol. Whichever it
            // is, it changes nothing here.
            Place::Beyond => return Some(nak),
        }
        if let Some(why) = self.refusal_of(f) {
            return Some(Nak {
                code: why.code(),
                ..nak
            });
        }
        if self.is_stale(f) {
            return None;
        }
        self.revise_fatal(f);
        self.cut(f, why);
        // IBTA 1.4, 9.9.3: an unreliable service drops what it cannot take, unless it is this side
        // that is at fault.
        if why.is_fatal() && (!self.cfg.unreliable || why == Refusal::ReceiveProtection) {
            self.set_fatal(Fatal {
                msn: f.msn,
                epoch: f.epoch,
                why,
                receive: why.receive_status().map(|status| (f.rsn, status)),
            });
        }
        Some(nak)
    }

    /// Why the very packet `f`, in the window, was refused before. It comes again if there was no
    /// room for the NAK then.
    fn refusal_of(&self, f: &DataFields) -> Option<Refusal> {
        self.slot(f.msn)?.refusal_of(f)
    }

    /// Whether a packet in the window belongs to an attempt that is over.
    pub(super) fn is_stale(&self, f: &DataFields) -> bool {
        let executing = self.executing && f.msn == self.next;
        let failed = self
            .fatal
            .is_some_and(|x| !f.msn.before(x.msn) && !epoch_before(x.epoch, f.epoch));
        let older = self
            .slot(f.msn)
            .is_some_and(|s| epoch_before(f.epoch, s.epoch()));
        executing || failed || older
    }

    /// Forgets the attempts up to the epoch of packet `f` at its message and all later ones, because
    /// that packet is refused.
    ///
    /// What has arrived under higher epochs stays: it shows that the peer has started again by
    /// itself since it sent the refused packet (after [`Nak::not_ready`]), so it will take the NAK
    /// for an echo, and nothing would make it send that once more.
    fn cut(&mut self, f: &DataFields, why: Refusal) {
        let floor = f.epoch.wrapping_add(1);
        self.floor = later_epoch(self.floor, floor);
        for ahead in f.msn.ahead_of(self.next)..self.size {
            let msn = self.next.add(ahead);
            if let Some(slot) = self.slot_mut(msn) {
                if epoch_before(slot.epoch(), floor) {
                    let had_request = slot.has_response();
                    *slot = if msn == f.msn {
                        MsgSlot::refused(f, why)
                    } else {
                        MsgSlot::empty(floor)
                    };
                    self.requests = self.requests.saturating_sub(u32::from(had_request));
                }
            }
        }
    }

    /// Takes back a fatal refusal if packet `f` shows that the peer has gone back to that message or
    /// an earlier one since: it will be sent again, and judged again.
    fn revise_fatal(&mut self, f: &DataFields) {
        if !self.ready {
            // It is final.
            return;
        }
        self.fatal = self
            .fatal
            .filter(|x| x.msn.before(f.msn) || !epoch_before(x.epoch, f.epoch));
    }
}
