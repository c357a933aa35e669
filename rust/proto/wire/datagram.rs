// SPDX-License-Identifier: GPL-2.0

//! DATAGRAM: a message of an unreliable datagram queue pair. It belongs to no connection.

use super::cursor::{Reader, Writer};
use super::{base, Gid, PacketFlags, PacketType, WireError};
use crate::packet::Qpn;

/// Bytes of the header, base included.
pub const DATAGRAM_LEN: usize = 60;

/// The packet carries an immediate.
const IMMEDIATE: u8 = 1 << 0;
/// The receiver's completion is a solicited event.
const SOLICITED: u8 = 1 << 1;

/// The header of a datagram; the payload is the whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Queue pair of the receiver.
    pub dst_qpn: Qpn,
    /// Queue pair of the sender.
    pub src_qpn: Qpn,
    /// Must be that of the receiver's queue pair.
    pub q_key: u32,
    /// The immediate, if there is one.
    pub imm: Option<u32>,
    /// Whether the receiver's completion is a solicited event.
    pub solicited: bool,
    /// GID of the sender's queue pair. The packet may come from another address, that of another
    /// plane.
    pub src_gid: Gid,
    /// GID of the receiver's queue pair.
    pub dst_gid: Gid,
}

impl DatagramHeader {
    pub(super) fn parse(mut r: Reader<'_>) -> Result<Self, WireError> {
        let (flags, dst_qpn) = r.u8_u24()?;
        let (_, src_qpn) = r.u8_u24()?;
        let q_key = r.u32()?;
        let imm = r.u32()?;
        let src_gid = Gid(r.array()?);
        let dst_gid = Gid(r.array()?);
        r.done()?;
        if flags & !(IMMEDIATE | SOLICITED) != 0 {
            return Err(WireError::ReservedFlags);
        }
        Ok(DatagramHeader {
            dst_qpn: Qpn(dst_qpn),
            src_qpn: Qpn(src_qpn),
            q_key,
            imm: (flags & IMMEDIATE != 0).then_some(imm),
            solicited: flags & SOLICITED != 0,
            src_gid,
            dst_gid,
        })
    }

    /// Writes the header, CRC flag set and CRC field zero. Returns its length, `None` if `buf` is
    /// too short.
    pub fn emit(&self, buf: &mut [u8]) -> Option<usize> {
        let mut flags = 0;
        if self.imm.is_some() {
            flags |= IMMEDIATE;
        }
        if self.solicited {
            flags |= SOLICITED;
        }
        let mut w = Writer::new(buf);
        base::emit(
            &mut w,
            PacketType::Datagram,
            PacketFlags::CRC,
            DATAGRAM_LEN,
            0,
        )?;
        w.u8_u24(flags, self.dst_qpn.0)?;
        w.u8_u24(0, self.src_qpn.0)?;
        w.u32(self.q_key)?;
        w.u32(self.imm.unwrap_or(0))?;
        w.bytes(&self.src_gid.0)?;
        w.bytes(&self.dst_gid.0)?;
        Some(w.len())
    }
}
