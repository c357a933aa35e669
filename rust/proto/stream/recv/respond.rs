// SPDX-License-Identifier: GPL-2.0

//! Responses: sent, credited, given up.

use core::ops::DerefMut;

use super::{RecvStream, Refusal};
use crate::packet::{DataFields, Opcode, StreamFlags, TxDesc};
use crate::psn::Msn;
use crate::stream::{later_epoch, ring_index, MemoryRange, MsgSlot, Nak, Response, ResponsePacket};

impl<B, R> RecvStream<B, R>
where
    B: DerefMut<Target = [MsgSlot]>,
    R: DerefMut<Target = [Response]>,
{
    /// The next response packet to be sent.
    pub fn next_response(&self) -> Option<TxDesc> {
        if self.resp_send == self.resp_tail {
            return None;
        }
        let response = self.response_at(self.resp_send)?;
        let (opcode, len) = if response.atomic {
            (Opcode::AtomicResponse, 0)
        } else {
            let rest = response.len.saturating_sub(self.resp_offset);
            (Opcode::ReadResponse, rest.min(self.mtu.get()))
        };
        let last = self.resp_offset.saturating_add(len) >= response.len;
        Some(TxDesc {
            opcode,
            flags: if last {
                StreamFlags::LAST
            } else {
                StreamFlags::default()
            },
            epoch: response.epoch,
            qpn: self.cfg.qpn,
            peer_qpn: self.cfg.peer_qpn,
            msn: response.msn,
            offset: self.resp_offset,
            len,
        })
    }

    /// Takes the packet that [`next_response`](Self::next_response) showed, which the connection now
    /// has. Returns false, and does nothing, if `desc` is not the next packet any more.
    pub fn commit_response(&mut self, desc: &TxDesc) -> bool {
        if self.next_response().as_ref() != Some(desc) {
            return false;
        }
        if desc.flags.has(StreamFlags::LAST) {
            self.resp_send = self.resp_send.wrapping_add(1);
            self.resp_offset = 0;
            self.skip_dropped();
        } else {
            self.resp_offset = self.resp_offset.saturating_add(desc.len);
        }
        true
    }

    /// How to build the packet of `desc`, first or again; `None` if the response is not owed any
    /// more: a Void packet takes its place.
    pub fn response_packet(&self, desc: &TxDesc) -> Option<ResponsePacket> {
        let response = self.response_at(self.find_response(desc.msn)?)?;
        if response.epoch != desc.epoch {
            return None;
        }
        let opcode = if response.atomic {
            Opcode::AtomicResponse
        } else {
            Opcode::ReadResponse
        };
        if desc.opcode != opcode || response.is_done() {
            return None;
        }
        Some(ResponsePacket {
            fields: DataFields {
                opcode,
                flags: desc.flags,
                dst_qpn: desc.peer_qpn,
                src_qpn: desc.qpn,
                msn: desc.msn,
                epoch: desc.epoch,
                offset: desc.offset,
                original: response.original,
                ..DataFields::default()
            },
            source: MemoryRange {
                va: response.va.wrapping_add(u64::from(desc.offset)),
                rkey: response.rkey,
                len: desc.len,
            },
        })
    }

    /// Credits a response packet that the peer has acknowledged. Room in the response ring can let
    /// [`pop_delivery`](Self::pop_delivery) go on.
    pub fn on_response_acked(&mut self, desc: &TxDesc) {
        let Some(pos) = self.find_response(desc.msn) else {
            return;
        };
        if let Some(response) = self.response_at_mut(pos) {
            // The epoch differs in an earlier life of the QP with the same numbers.
            if response.epoch == desc.epoch {
                response.acked = response.acked.saturating_add(1);
            }
        }
        self.retire_responses();
    }

    /// Gives up the response to `msn`, whose memory is not accessible any more, and ends the stream.
    /// Returns the NAK to be sent, unless the response is not owed any more.
    pub fn response_failed(&mut self, msn: Msn, why: Refusal) -> Option<Nak> {
        let pos = self.find_response(msn)?;
        let response = self.response_at(pos)?;
        if response.is_done() {
            return None;
        }
        let epoch = response.epoch;
        // The requester ends with this message, so later responses are of no use.
        let mut p = pos;
        while p != self.resp_tail {
            if let Some(response) = self.response_at_mut(p) {
                response.dropped = true;
            }
            p = p.wrapping_add(1);
        }
        self.skip_dropped();
        self.retire_responses();
        Some(self.fail_request(msn, epoch, why))
    }

    /// Gives up the response to `msn` because a packet of it cannot be built *again*: its memory is
    /// not accessible any more. Returns the NAK to be sent, unless the response is not owed any
    /// more.
    ///
    /// If the peer has the whole response, as it must have if it let the memory go, then it takes
    /// the NAK for an echo, and nothing is wrong. Otherwise its request fails as it should.
    pub fn response_gone(&mut self, msn: Msn) -> Option<Nak> {
        let pos = self.find_response(msn)?;
        let response = self.response_at_mut(pos)?;
        if response.is_done() {
            return None;
        }
        response.dropped = true;
        let epoch = response.epoch;
        self.skip_dropped();
        self.retire_responses();
        Some(Nak {
            code: Refusal::RemoteAccess.code(),
            timer: 0,
            msn,
            // As in `fail_request`.
            epoch: later_epoch(epoch, self.seen),
            qpn: self.cfg.qpn,
            peer_qpn: self.cfg.peer_qpn,
        })
    }

    fn response_at(&self, pos: u32) -> Option<&Response> {
        self.responses.get(ring_index(pos, self.responses_size))
    }

    fn response_at_mut(&mut self, pos: u32) -> Option<&mut Response> {
        let index = ring_index(pos, self.responses_size);
        self.responses.get_mut(index)
    }

    pub(super) fn has_response_room(&self) -> bool {
        self.resp_tail.wrapping_sub(self.resp_head) < self.responses_size
    }

    /// Queues the response to the message at `next`, if there is room.
    pub(super) fn push_response(&mut self, response: Response) -> bool {
        if !self.has_response_room() {
            return false;
        }
        let (pos, msn) = (self.resp_tail, self.next);
        let Some(entry) = self.response_at_mut(pos) else {
            return false;
        };
        *entry = Response { msn, ..response };
        self.resp_tail = pos.wrapping_add(1);
        true
    }

    /// Position of the response to `msn`. The ring is short, and the oldest one is the usual one.
    fn find_response(&self, msn: Msn) -> Option<u32> {
        let mut pos = self.resp_head;
        while pos != self.resp_tail {
            if self.response_at(pos)?.msn == msn {
                return Some(pos);
            }
            pos = pos.wrapping_add(1);
        }
        None
    }

    /// Moves the send position over responses that were given up.
    fn skip_dropped(&mut self) {
        while self.resp_send != self.resp_tail
            && self.response_at(self.resp_send).is_some_and(|r| r.dropped)
        {
            self.resp_send = self.resp_send.wrapping_add(1);
            self.resp_offset = 0;
        }
    }

    /// Frees what is done at the head of the ring.
    fn retire_responses(&mut self) {
        while self.resp_head != self.resp_send
            && self
                .response_at(self.resp_head)
                .is_some_and(Response::is_done)
        {
            self.resp_head = self.resp_head.wrapping_add(1);
        }
    }
}
