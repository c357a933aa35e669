// SPDX-License-Identifier: GPL-2.0

//! DATA: a packet of a path, with an extension by opcode.

use super::cursor::{Reader, Writer};
use super::{base, PacketFlags, PacketType, WireError, BASE_LEN};
use crate::packet::{DataFields, NakCode, Opcode, PathId, Qpn, StreamFlags};
use crate::psn::{Msn, Psn, Rsn};
use crate::time::Stamp;

/// Bytes of a data header without its extension.
pub const DATA_FIXED_LEN: usize = 44;

/// Reads what the opcode brings beside the fixed part.
fn parse_extension(f: &mut DataFields, r: &mut Reader<'_>) -> Result<(), WireError> {
    match f.opcode {
        Opcode::Void | Opcode::ReadResponse => {}
        Opcode::Send => f.rsn = Rsn(r.u32()?),
        Opcode::SendImm => {
            f.rsn = Rsn(r.u32()?);
            f.imm = r.u32()?;
        }
        Opcode::SendInv => {
            f.rsn = Rsn(r.u32()?);
            f.rkey = r.u32()?;
        }
        Opcode::Write => {
            f.va = r.u64()?;
            f.rkey = r.u32()?;
        }
        Opcode::WriteImm => {
            f.va = r.u64()?;
            f.rkey = r.u32()?;
            f.rsn = Rsn(r.u32()?);
            f.imm = r.u32()?;
        }
        Opcode::ReadRequest => {
            f.va = r.u64()?;
            f.rkey = r.u32()?;
            f.length = r.u32()?;
        }
        Opcode::CmpSwap | Opcode::FetchAdd => {
            f.va = r.u64()?;
            f.rkey = r.u32()?;
            r.u32()?;
            f.compare_add = r.u64()?;
            let swap = r.u64()?;
            if f.opcode == Opcode::CmpSwap {
                f.swap = swap;
            }
        }
        Opcode::AtomicWrite => {
            f.va = r.u64()?;
            f.rkey = r.u32()?;
            r.u32()?;
            f.swap = r.u64()?;
        }
        Opcode::Flush => {
            f.va = r.u64()?;
            f.rkey = r.u32()?;
            f.length = r.u32()?;
            // Placement type and selectivity.
            let (placement, selectivity) = (r.u8()?, r.u8()?);
            f.imm = u32::from(placement) | u32::from(selectivity) << 8;
            r.u16()?;
        }
        Opcode::AtomicResponse => f.original = r.u64()?,
        Opcode::Nak => {
            f.code = NakCode::from_code(r.u8()?).ok_or(WireError::BadNakCode)?;
            f.rnr_timer = r.u8()? & 31;
            r.u16()?;
        }
    }
    Ok(())
}

fn emit_extension(f: &DataFields, w: &mut Writer<'_>) -> Option<()> {
    match f.opcode {
        Opcode::Void | Opcode::ReadResponse => Some(()),
        Opcode::Send => w.u32(f.rsn.0),
        Opcode::SendImm => {
            w.u32(f.rsn.0)?;
            w.u32(f.imm)
        }
        Opcode::SendInv => {
            w.u32(f.rsn.0)?;
            w.u32(f.rkey)
        }
        Opcode::Write => {
            w.u64(f.va)?;
            w.u32(f.rkey)
        }
        Opcode::WriteImm => {
            w.u64(f.va)?;
            w.u32(f.rkey)?;
            w.u32(f.rsn.0)?;
            w.u32(f.imm)
        }
        Opcode::ReadRequest => {
            w.u64(f.va)?;
            w.u32(f.rkey)?;
            w.u32(f.length)
        }
        Opcode::CmpSwap | Opcode::FetchAdd => {
            w.u64(f.va)?;
            w.u32(f.rkey)?;
            w.u32(0)?;
            w.u64(f.compare_add)?;
            w.u64(if f.opcode == Opcode::CmpSwap {
                f.swap
            } else {
                0
            })
        }
        Opcode::AtomicWrite => {
            w.u64(f.va)?;
            w.u32(f.rkey)?;
            w.u32(0)?;
            w.u64(f.swap)
        }
        Opcode::Flush => {
            w.u64(f.va)?;
            w.u32(f.rkey)?;
            w.u32(f.length)?;
            let [placement, selectivity, ..] = f.imm.to_le_bytes();
            w.u8(placement)?;
            w.u8(selectivity)?;
            w.u16(0)
        }
        Opcode::AtomicResponse => w.u64(f.original),
        Opcode::Nak => {
            // CAST: fieldless enum with u8 representation.
            w.u8(f.code as u8)?;
            w.u8(f.rnr_timer & 31)?;
            w.u16(0)
        }
    }
}

/// Bytes of the extension behind the fixed part, and of the whole header with the base.
///
/// The datapath sizes header fragments with it before the fields are known.
pub const fn data_header_len(opcode: Opcode) -> usize {
    DATA_FIXED_LEN
        + match opcode {
            Opcode::Void | Opcode::ReadResponse => 0,
            Opcode::Send | Opcode::Nak => 4,
            Opcode::SendImm | Opcode::SendInv | Opcode::AtomicResponse => 8,
            Opcode::Write => 12,
            Opcode::ReadRequest => 16,
            Opcode::WriteImm | Opcode::Flush => 20,
            Opcode::AtomicWrite => 24,
            Opcode::CmpSwap | Opcode::FetchAdd => 32,
        }
}

/// A data header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataHeader {
    /// The path that the packet belongs to.
    pub path: PathId,
    /// Epoch of the route that carries it.
    pub route_epoch: u8,
    /// Place in the path's sequence.
    pub psn: Psn,
    /// When it was sent.
    pub stamp: Stamp,
    /// What it says to the stream.
    pub fields: DataFields,
}

impl DataHeader {
    /// Bytes of the header, base included.
    pub const fn header_len(&self) -> usize {
        data_header_len(self.fields.opcode)
    }

    /// `r` holds exactly the bytes between the base header and the payload.
    pub(super) fn parse(mut r: Reader<'_>) -> Result<Self, WireError> {
        let path = PathId(r.u16()?);
        let route_epoch = r.u8()?;
        let opcode = Opcode::from_code(r.u8()?).ok_or(WireError::BadOpcode)?;
        let psn = Psn(r.u32()?);
        let stamp = Stamp(r.u32()?);
        let (flags, dst_qpn) = r.u8_u24()?;
        let (_, src_qpn) = r.u8_u24()?;
        let msn = Msn(r.u32()?);
        let epoch = r.u16()?;
        r.u16()?;
        let offset = r.u32()?;
        let mut fields = DataFields {
            opcode,
            flags: StreamFlags(flags),
            dst_qpn: Qpn(dst_qpn),
            src_qpn: Qpn(src_qpn),
            msn,
            epoch,
            offset,
            ..DataFields::default()
        };
        parse_extension(&mut fields, &mut r)?;
        r.done()?;
        if flags & !StreamFlags::ALL.0 != 0 {
            return Err(WireError::ReservedFlags);
        }
        Ok(DataHeader {
            path,
            route_epoch,
            psn,
            stamp,
            fields,
        })
    }

    /// Writes base and data header; the CRC field is left zero. Returns the header's length, or
    /// `None` if `buf` is too short.
    pub fn emit(&self, dst_conn: u32, flags: PacketFlags, buf: &mut [u8]) -> Option<usize> {
        let f = &self.fields;
        let mut w = Writer::new(buf);
        base::emit(&mut w, PacketType::Data, flags, self.header_len(), dst_conn)?;
        w.u16(self.path.0)?;
        w.u8(self.route_epoch)?;
        // CAST: fieldless enum with u8 representation.
        w.u8(f.opcode as u8)?;
        w.u32(self.psn.0)?;
        w.u32(self.stamp.0)?;
        w.u8_u24(f.flags.0, f.dst_qpn.0)?;
        w.u8_u24(0, f.src_qpn.0)?;
        w.u32(f.msn.0)?;
        w.u16(f.epoch)?;
        w.u16(0)?;
        w.u32(f.offset)?;
        emit_extension(f, &mut w)?;
        Some(w.len())
    }
}

/// Offset of the route epoch, PSN and stamp in a data packet, for a datapath that builds a header
/// first and learns these last.
///
/// [`patch`] fills them in.
const SEQUENCE_OFFSET: usize = BASE_LEN;

/// Fills path, route epoch, PSN, stamp and the ACK_REQ flag into an emitted data header. `None` if
/// `header` is too short.
pub fn patch(
    header: &mut [u8],
    path: PathId,
    route_epoch: u8,
    psn: Psn,
    stamp: Stamp,
    ack_req: bool,
) -> Option<()> {
    let flags = header.get_mut(2)?;
    if ack_req {
        *flags |= PacketFlags::ACK_REQ.0;
    } else {
        *flags &= !PacketFlags::ACK_REQ.0;
    }
    let mut w = Writer::new(header.get_mut(SEQUENCE_OFFSET..)?);
    w.u16(path.0)?;
    w.u8(route_epoch)?;
    let mut w = Writer::new(header.get_mut(SEQUENCE_OFFSET + 4..)?);
    w.u32(psn.0)?;
    w.u32(stamp.0)
}
