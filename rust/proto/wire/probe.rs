// SPDX-License-Identifier: GPL-2.0

//! PROBE: asks for an immediate ACK of one path.

use super::cursor::{Reader, Writer};
use super::{base, PacketFlags, PacketType, WireError};
use crate::packet::PathId;
use crate::psn::Psn;
use crate::time::Stamp;

/// Bytes of a probe, base included.
pub const PROBE_LEN: usize = 28;

/// A probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeHeader {
    /// The path asked about.
    pub path: PathId,
    /// Epoch of the route that carries it.
    pub route_epoch: u8,
    /// When it was sent.
    pub stamp: Stamp,
    /// One past the highest PSN sent on the path.
    pub next_psn: Psn,
    /// The sender's connection id: who does not know the receiver's tells this one so.
    pub src_conn: u32,
}

impl ProbeHeader {
    pub(super) fn parse(mut r: Reader<'_>) -> Result<Self, WireError> {
        let path = PathId(r.u16()?);
        let route_epoch = r.u8()?;
        r.u8()?;
        let stamp = Stamp(r.u32()?);
        let next_psn = Psn(r.u32()?);
        let src_conn = r.u32()?;
        r.done()?;
        Ok(ProbeHeader {
            path,
            route_epoch,
            stamp,
            next_psn,
            src_conn,
        })
    }

    /// Writes the packet, CRC field zero. Returns its length, `None` if `buf` is too short.
    pub fn emit(&self, dst_conn: u32, flags: PacketFlags, buf: &mut [u8]) -> Option<usize> {
        let mut w = Writer::new(buf);
        base::emit(&mut w, PacketType::Probe, flags, PROBE_LEN, dst_conn)?;
        w.u16(self.path.0)?;
        w.u8(self.route_epoch)?;
        w.u8(0)?;
        w.u32(self.stamp.0)?;
        w.u32(self.next_psn.0)?;
        w.u32(self.src_conn)?;
        Some(w.len())
    }
}
