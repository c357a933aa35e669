// SPDX-License-Identifier: GPL-2.0

//! Segmentation: what may be sent, and how it is built.

use core::ops::DerefMut;

use super::{RequestPacket, SendStream};
use crate::packet::{DataFields, StreamFlags, TxDesc};
use crate::stream::message::State;
use crate::stream::{before, packet_count, SendMsg, SendOp, WcStatus};
use crate::time::Instant;

impl<B: DerefMut<Target = [SendMsg]>> SendStream<B> {
    /// The next packet to be sent, if one may be sent now.
    pub fn next_segment(&self, now: Instant) -> Option<TxDesc> {
        let msg = self.sendable()?;
        if let Some(hold) = self.hold.filter(|h| h.pos == self.cursor) {
            if self.head != self.cursor || hold.until.is_some_and(|t| now < t) {
                return None;
            }
        }
        let opcode = match msg.op {
            SendOp::Local => return None,
            op => op.opcode(),
        };
        let mut flags = StreamFlags::default();
        let len = if msg.op.has_response() {
            0
        } else {
            msg.len
                .saturating_sub(self.cursor_offset)
                .min(self.mtu.get())
        };
        if msg.op.has_response() || self.cursor_offset.saturating_add(len) >= msg.len {
            flags = flags.with(StreamFlags::LAST);
        }
        if self.restart == Some(self.cursor) {
            flags = flags.with(StreamFlags::START);
        }
        if msg.solicited {
            flags = flags.with(StreamFlags::SOLICITED);
        }
        Some(TxDesc {
            opcode,
            flags,
            epoch: if self.cursor_offset == 0 {
                self.epoch
            } else {
                msg.epoch
            },
            qpn: self.cfg.qpn,
            peer_qpn: self.cfg.peer_qpn,
            msn: msg.msn,
            offset: self.cursor_offset,
            len,
        })
    }

    /// Takes the packet that [`next_segment`](Self::next_segment) showed, which the connection now
    /// has. Returns false, and does nothing, if `desc` is not the next packet any more.
    pub fn commit(&mut self, now: Instant, desc: &TxDesc) -> bool {
        let (pos, offset, mtu, epoch) = (self.cursor, self.cursor_offset, self.mtu, self.epoch);
        if pos == self.next {
            return false;
        }
        let Some(msg) = self.at_mut(pos) else {
            return false;
        };
        if msg.op == SendOp::Local || msg.msn != desc.msn || offset != desc.offset {
            return false;
        }
        if offset == 0 {
            msg.state = State::Sent;
            msg.epoch = epoch;
            msg.packets = match msg.op {
                // The answer, which has no payload.
                SendOp::Flush => 1,
                _ => packet_count(msg.len, mtu),
            };
        }
        let has_response = msg.op.has_response();
        self.progress = now;
        self.hold = self.hold.filter(|h| h.pos != pos);
        if before(self.started, pos.wrapping_add(1)) {
            self.started = pos.wrapping_add(1);
        }
        if has_response {
            self.reads = self.reads.saturating_add(1);
        }
        if desc.flags.has(StreamFlags::LAST) {
            self.cursor = pos.wrapping_add(1);
            self.cursor_offset = 0;
            self.settle();
        } else {
            self.cursor_offset = offset.saturating_add(desc.len);
        }
        true
    }

    /// How to build the packet of `desc`, first or again; `None` if its message is done, given up or
    /// has been started again since: a Void packet takes its place.
    pub fn packet(&self, desc: &TxDesc) -> Option<RequestPacket> {
        let pos = self.find(desc.msn)?;
        let msg = self.at(pos)?;
        let fresh = pos == self.cursor && self.cursor_offset == 0;
        let current = if fresh {
            desc.epoch == self.epoch
        } else {
            msg.state == State::Sent && desc.epoch == msg.epoch
        };
        if !current || desc.opcode != msg.op.opcode() || self.ended_before(pos) {
            return None;
        }
        let mut fields = DataFields {
            opcode: desc.opcode,
            flags: desc.flags,
            dst_qpn: desc.peer_qpn,
            src_qpn: desc.qpn,
            msn: desc.msn,
            epoch: desc.epoch,
            offset: desc.offset,
            ..DataFields::default()
        };
        if msg.op.consumes_receive() {
            fields.rsn = msg.rsn;
        }
        match msg.op {
            SendOp::SendImm | SendOp::WriteImm => fields.imm = msg.imm_or_inv,
            SendOp::SendInv => fields.rkey = msg.imm_or_inv,
            SendOp::Read => fields.length = msg.len,
            SendOp::Flush => {
                fields.length = msg.len;
                fields.imm = msg.imm_or_inv;
            }
            SendOp::CmpSwap | SendOp::FetchAdd | SendOp::AtomicWrite => {
                fields.compare_add = msg.compare_add;
                fields.swap = msg.swap;
            }
            SendOp::Send | SendOp::Write | SendOp::Local => {}
        }
        if matches!(msg.op, SendOp::Write | SendOp::WriteImm) || msg.op.has_response() {
            fields.va = msg.va;
            fields.rkey = msg.rkey;
        }
        Some(RequestPacket {
            fields,
            cookie: msg.cookie,
            offset: desc.offset,
            len: desc.len,
        })
    }

    /// The cookie of the local operation whose turn it is.
    pub fn next_local(&self) -> Option<u32> {
        let msg = self.sendable()?;
        (msg.op == SendOp::Local).then_some(msg.cookie)
    }

    /// Reports that the operation which [`next_local`](Self::next_local) showed is done, or failed
    /// with the given status.
    pub fn local_done(&mut self, now: Instant, result: Result<(), WcStatus>) {
        let pos = self.cursor;
        if self.next_local().is_none() {
            return;
        }
        self.progress = now;
        if before(self.started, pos.wrapping_add(1)) {
            self.started = pos.wrapping_add(1);
        }
        match result {
            Ok(()) => {
                if let Some(msg) = self.at_mut(pos) {
                    msg.state = State::Done;
                }
                self.settle();
            }
            Err(status) => self.set_failure(pos, status),
        }
    }

    /// The message at the cursor, unless something but a hold keeps it from being sent.
    fn sendable(&self) -> Option<&SendMsg> {
        if self.cursor == self.next || self.ended_before(self.cursor) {
            return None;
        }
        let msg = self.at(self.cursor)?;
        if self.cursor_offset != 0 {
            return Some(msg);
        }
        if self.draining && !before(self.cursor, self.started) {
            return None;
        }
        if self.waits_for_restart() {
            return None;
        }
        if msg.fence && self.reads != 0 || msg.after_all && self.head != self.cursor {
            return None;
        }
        if msg.op.has_response() && self.reads >= self.cfg.max_rd_atomic {
            return None;
        }
        Some(msg)
    }
}
