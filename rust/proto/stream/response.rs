// SPDX-License-Identifier: GPL-2.0

//! Responses that the responder owes or has sent.

use crate::packet::DataFields;
use crate::psn::Msn;
use crate::state::fields;

/// A range of registered memory, named by the peer and not checked yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryRange {
    /// First address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Length in bytes.
    pub len: u32,
}

/// A packet of a response, to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsePacket {
    /// Header fields.
    pub fields: DataFields,
    /// Where the payload comes from; its length may be 0, and is for atomics.
    pub source: MemoryRange,
}

/// One entry of a receive stream's response ring: a Read or an atomic that has been executed, kept
/// until every packet of its response is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Response {
    /// What an atomic found.
    pub(super) original: u64,
    pub(super) va: u64,
    pub(super) rkey: u32,
    pub(super) len: u32,
    pub(super) msn: Msn,
    pub(super) packets: u32,
    /// Packets acknowledged.
    pub(super) acked: u32,
    pub(super) epoch: u16,
    pub(super) atomic: bool,
    /// Given up, because its memory has become inaccessible.
    pub(super) dropped: bool,
}

impl Response {
    /// Whether the entry is needed no more.
    pub(super) const fn is_done(&self) -> bool {
        self.dropped || self.acked >= self.packets
    }
}

const _: () = assert!(core::mem::size_of::<Response>() <= 48);

fields!(Response {
    original,
    va,
    rkey,
    len,
    msn,
    packets,
    acked,
    epoch,
    atomic,
    dropped,
});
