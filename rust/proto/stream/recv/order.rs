// SPDX-License-Identifier: GPL-2.0

//! The last bytes of Writes, written after everything before them.
//!
//! Packets are placed as they come, so the last byte of a Write says nothing of the others. For a
//! queue pair whose application polls on it, the last bytes of a Write's last packet stay in the
//! message's slot until the message's turn to be delivered comes. Nothing else waits: all other
//! bytes are placed, and all packets acknowledged, as ever. The requester completes a Write when
//! all packets up to its last are acknowledged, and the last of these that came has been followed
//! by the delivery of all of the messages; so its completion tells as much as otherwise.

use core::ops::DerefMut;

use super::{Delivery, Place, RecvStream};
use crate::packet::{DataFields, Opcode, StreamFlags};
use crate::stream::{epoch_before, packet_count, MemoryRange, MsgSlot, Response};

/// The last bytes of a Write: a word, which is what programs poll on, or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    bytes: [u8; Tail::MAX],
    len: u8,
}

impl Tail {
    /// Most bytes of one.
    pub const MAX: usize = 8;

    /// How many of the last of `len` bytes of a packet make it.
    pub const fn len_of(len: u32) -> usize {
        // CAST: Small numbers.
        if len < Self::MAX as u32 {
            len as usize
        } else {
            Self::MAX
        }
    }

    /// Makes one of at most [`Self::MAX`] bytes; what is beyond is left out.
    pub fn new(bytes: &[u8]) -> Self {
        let mut tail = Self::default();
        for (to, from) in tail.bytes.iter_mut().zip(bytes) {
            *to = *from;
            tail.len += 1;
        }
        tail
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// As the two words of a message's slot that Writes have no other use for.
    pub(in crate::stream) fn to_words(self) -> (u64, u64) {
        (u64::from_ne_bytes(self.bytes), self.len.into())
    }

    /// What [`Self::to_words`] was made of, [`None`] if there are no bytes.
    pub(in crate::stream) fn from_words((bytes, len): (u64, u64)) -> Option<Self> {
        let len = u8::try_from(len).ok()?;
        let fits = len != 0 && usize::from(len) <= Self::MAX;
        fits.then_some(Self {
            bytes: bytes.to_ne_bytes(),
            len,
        })
    }
}

impl<B, R> RecvStream<B, R>
where
    B: DerefMut<Target = [MsgSlot]>,
    R: DerefMut<Target = [Response]>,
{
    /// Whether everything before the last packet `f` of a message is in its place, so that the
    /// message is delivered once the packet is placed.
    pub fn is_turn(&self, f: &DataFields, payload_len: u32) -> bool {
        let Some(slot) = self.slot(f.msn).filter(|_| f.msn == self.next) else {
            return false;
        };
        let others = match epoch_before(slot.epoch(), f.epoch) {
            true => 0,
            false => slot.placed(),
        };
        let end = self.end_of(f, payload_len);
        end.is_some_and(|end| packet_count(end, self.mtu) == others.saturating_add(1))
    }

    /// Keeps the last bytes of packet `f`, which [`placed`](Self::placed) has just counted, until the
    /// turn of the message comes: see [`Delivery::Tail`].
    pub fn hold(&mut self, f: &DataFields, tail: &Tail) {
        let is_last = f.flags.has(StreamFlags::LAST)
            && matches!(f.opcode, Opcode::Write | Opcode::WriteImm)
            && self.place_of(f.msn) == Place::Inside
            && !self.is_stale(f);
        if let Some(slot) = self.slot_mut(f.msn).filter(|_| is_last) {
            slot.set_tail(tail);
        }
    }

    /// The last bytes of the next message, if it is a Write, and they are still to be written.
    pub(super) fn pop_tail(&mut self) -> Option<Delivery> {
        let slot = self.slot_mut(self.next)?;
        let tail = slot.take_tail()?;
        let len = u32::from(tail.len);
        // The address of the last byte was checked when its packet was judged.
        let va = slot
            .va()
            .wrapping_add(u64::from(slot.len().saturating_sub(len)));
        Some(Delivery::Tail {
            target: MemoryRange {
                va,
                rkey: slot.rkey(),
                len,
            },
            tail,
        })
    }
}
