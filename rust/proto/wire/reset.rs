// SPDX-License-Identifier: GPL-2.0

//! RESET: closes a connection, or tells that an id is unknown.

use super::cursor::{Reader, Writer};
use super::{base, PacketFlags, PacketType, WireError};

/// Bytes of a reset, base included.
pub const RESET_LEN: usize = 20;

/// Why a reset is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// The sender got a packet for an id that it does not know.
    UnknownId,
    /// The sender closes the connection.
    Closing,
    /// A reason that this version does not define; treated as [`ResetReason::Closing`].
    Other(u32),
}

impl ResetReason {
    const fn to_wire(self) -> u32 {
        match self {
            ResetReason::UnknownId => 1,
            ResetReason::Closing => 2,
            ResetReason::Other(n) => n,
        }
    }

    const fn from_wire(v: u32) -> Self {
        match v {
            1 => ResetReason::UnknownId,
            2 => ResetReason::Closing,
            n => ResetReason::Other(n),
        }
    }
}

/// A reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetHeader {
    /// The id in question, always one of the reset's sender: the one that it closes, or the one
    /// that it does not know.
    pub conn: u32,
    /// Why.
    pub reason: ResetReason,
}

impl ResetHeader {
    pub(super) fn parse(mut r: Reader<'_>) -> Result<Self, WireError> {
        let conn = r.u32()?;
        let reason = ResetReason::from_wire(r.u32()?);
        r.done()?;
        Ok(ResetHeader { conn, reason })
    }

    /// Writes the packet, CRC field zero; `dst_conn` is the receiver's own id. Returns its length,
    /// `None` if `buf` is too short.
    pub fn emit(&self, dst_conn: u32, flags: PacketFlags, buf: &mut [u8]) -> Option<usize> {
        let mut w = Writer::new(buf);
        base::emit(&mut w, PacketType::Reset, flags, RESET_LEN, dst_conn)?;
        w.u32(self.conn)?;
        w.u32(self.reason.to_wire())?;
        Some(w.len())
    }
}
