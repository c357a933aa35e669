// SPDX-License-Identifier: GPL-2.0

//! Messages that the responder is receiving.

use super::{Refusal, Tail};
use crate::packet::{DataFields, Opcode, StreamFlags};
use crate::psn::Rsn;
use crate::state::fields;

/// One entry of a receive stream's message ring: what is known of one message number.
#[derive(Clone, Copy, Debug, Default)]
pub struct MsgSlot {
    va: u64,
    /// Of an atomic; of a Write the last bytes that are kept, and how many they are.
    compare_add: u64,
    swap: u64,
    rkey: u32,
    rsn: Rsn,
    imm: u32,
    /// Bytes to read; else the highest end of payload seen. While `refused`, the offset of the
    /// packet that was refused.
    extent: u32,
    /// Packets of the message, 0 until the last one has told.
    packets: u32,
    /// Packets placed, 0 if nothing is known of the message yet.
    placed: u32,
    /// Lowest epoch still taken; that of the packets placed.
    epoch: u16,
    opcode: Opcode,
    solicited: bool,
    /// Why a packet of the epoch before `epoch` was refused.
    refused: Option<Refusal>,
}

const _: () = assert!(core::mem::size_of::<MsgSlot>() <= 64);

fields!(MsgSlot {
    va,
    compare_add,
    swap,
    rkey,
    rsn,
    imm,
    extent,
    packets,
    placed,
    epoch,
    opcode,
    solicited,
    refused,
});

impl MsgSlot {
    /// A slot in which nothing has arrived, and which takes packets from `epoch` on.
    pub(super) fn empty(epoch: u16) -> Self {
        MsgSlot {
            epoch,
            ..MsgSlot::default()
        }
    }

    /// A slot in which nothing has arrived since packet `f` of its message was refused.
    pub(super) fn refused(f: &DataFields, why: Refusal) -> Self {
        MsgSlot {
            epoch: f.epoch.wrapping_add(1),
            extent: f.offset,
            refused: Some(why),
            ..MsgSlot::default()
        }
    }

    /// Why packet `f` was refused, if it is the one that was.
    pub(super) fn refusal_of(&self, f: &DataFields) -> Option<Refusal> {
        let same = f.epoch.wrapping_add(1) == self.epoch && f.offset == self.extent;
        self.refused.filter(|_| same)
    }

    pub(super) const fn epoch(&self) -> u16 {
        self.epoch
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.placed == 0
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.placed != 0 && self.placed == self.packets
    }

    /// Packets placed.
    pub(super) const fn placed(&self) -> u32 {
        self.placed
    }

    /// Keeps the last bytes of a Write.
    pub(super) fn set_tail(&mut self, tail: &Tail) {
        (self.compare_add, self.swap) = tail.to_words();
    }

    /// Gives up the last bytes of a Write, if some are kept.
    pub(super) fn take_tail(&mut self) -> Option<Tail> {
        if !matches!(self.opcode, Opcode::Write | Opcode::WriteImm) {
            return None;
        }
        let words = (self.compare_add, core::mem::take(&mut self.swap));
        Tail::from_words(words)
    }

    pub(super) const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// Whether it holds a request that is answered with data.
    pub(super) const fn has_response(&self) -> bool {
        self.placed != 0 && (matches!(self.opcode, Opcode::ReadRequest) || self.opcode.is_atomic())
    }

    /// Length of the message; final once it is complete.
    pub(super) const fn len(&self) -> u32 {
        self.extent
    }

    pub(super) const fn va(&self) -> u64 {
        self.va
    }

    pub(super) const fn rkey(&self) -> u32 {
        self.rkey
    }

    pub(super) const fn rsn(&self) -> Rsn {
        self.rsn
    }

    pub(super) const fn imm(&self) -> u32 {
        self.imm
    }

    pub(super) const fn compare_add(&self) -> u64 {
        self.compare_add
    }

    pub(super) const fn swap(&self) -> u64 {
        self.swap
    }

    pub(super) const fn solicited(&self) -> bool {
        self.solicited
    }

    /// Whether a packet, whose payload ends at `end` of the message, agrees with what has arrived of
    /// the message so far.
    pub(super) fn agrees(&self, f: &DataFields, end: u32) -> bool {
        if self.is_empty() {
            return true;
        }
        let same = self.opcode == f.opcode
            && self.va == f.va
            && self.rkey == f.rkey
            && self.rsn == f.rsn
            && self.imm == f.imm;
        let room = self.packets == 0 || self.placed < self.packets;
        let fits = if f.flags.has(StreamFlags::LAST) {
            self.packets == 0 && end >= self.extent
        } else {
            self.packets == 0 || end < self.extent
        };
        same && room && fits
    }

    /// Counts a packet; `packets` is that of the whole message if this is its last one.
    pub(super) fn place(&mut self, f: &DataFields, end: u32, packets: Option<u32>) {
        if self.is_empty() {
            *self = MsgSlot {
                va: f.va,
                compare_add: f.compare_add,
                swap: f.swap,
                rkey: f.rkey,
                rsn: f.rsn,
                imm: f.imm,
                extent: 0,
                packets: 0,
                placed: 0,
                epoch: self.epoch,
                opcode: f.opcode,
                solicited: f.flags.has(StreamFlags::SOLICITED),
                refused: None,
            };
        }
        self.extent = match f.opcode {
            Opcode::ReadRequest | Opcode::Flush => f.length,
            Opcode::CmpSwap | Opcode::FetchAdd | Opcode::AtomicWrite => 8,
            _ => self.extent.max(end),
        };
        self.packets = packets.unwrap_or(self.packets);
        self.placed = self.placed.saturating_add(1);
    }
}
