// SPDX-License-Identifier: GPL-2.0

//! The base header that starts every packet.

use super::cursor::{Reader, Writer};
use super::{WireError, BASE_LEN, VERSION};

/// Packet types. The numbers are wire code points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// A packet of a path, see [`super::DataHeader`].
    Data = 1,
    /// Acknowledges packets of one or more paths, see [`super::AckHeader`].
    Ack = 2,
    /// Opens a connection, or announces a change of planes.
    Init = 3,
    /// Answers an INIT.
    InitAck = 4,
    /// Closes a connection, or says that an id is unknown.
    Reset = 5,
    /// Asks for an immediate ACK of one path.
    Probe = 6,
    /// A message of a datagram queue pair, see [`super::DatagramHeader`].
    Datagram = 7,
}

impl PacketType {
    fn from_wire(v: u8) -> Result<Self, WireError> {
        Ok(match v {
            1 => PacketType::Data,
            2 => PacketType::Ack,
            3 => PacketType::Init,
            4 => PacketType::InitAck,
            5 => PacketType::Reset,
            6 => PacketType::Probe,
            7 => PacketType::Datagram,
            _ => return Err(WireError::UnknownType),
        })
    }
}

/// Flags of the base header. Wire bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFlags(pub u8);

impl PacketFlags {
    /// No flag.
    pub const NONE: PacketFlags = PacketFlags(0);
    /// The receiver acknowledges this path at the end of the receive batch.
    pub const ACK_REQ: PacketFlags = PacketFlags(1 << 0);
    /// The CRC field is in use.
    pub const CRC: PacketFlags = PacketFlags(1 << 1);

    /// Of an ACK: what it acknowledges came without having been on a link, so that packets sent the
    /// same way need no CRC.
    pub const LOCAL: PacketFlags = PacketFlags(1 << 2);

    const fn known(packet_type: PacketType) -> u8 {
        let all = Self::ACK_REQ.0 | Self::CRC.0;
        match packet_type {
            PacketType::Ack => all | Self::LOCAL.0,
            _ => all,
        }
    }

    /// Whether all bits of `f` are set.
    pub const fn has(self, f: PacketFlags) -> bool {
        self.0 & f.0 == f.0
    }

    /// Both sets together.
    pub const fn with(self, f: PacketFlags) -> PacketFlags {
        PacketFlags(self.0 | f.0)
    }
}

/// The base header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// What follows.
    pub packet_type: PacketType,
    /// Flags.
    pub flags: PacketFlags,
    /// Length of all headers in bytes, this one included.
    pub header_len: usize,
    /// Connection id of the receiver, 0 where it is not known yet.
    pub dst_conn: u32,
    /// The CRC field as received; meaningful with [`PacketFlags::CRC`] only.
    pub crc: u32,
}

impl Base {
    /// Parses the base header alone.
    pub fn parse(buf: &[u8]) -> Result<Base, WireError> {
        let mut r = Reader(buf.get(..BASE_LEN).ok_or(WireError::TooShort)?);
        if r.u8()? != VERSION {
            return Err(WireError::BadVersion);
        }
        let packet_type = PacketType::from_wire(r.u8()?)?;
        let flags = PacketFlags(r.u8()?);
        if flags.0 & !PacketFlags::known(packet_type) != 0 {
            return Err(WireError::ReservedFlags);
        }
        let header_len = usize::from(r.u8()?) * 4;
        if header_len < BASE_LEN {
            return Err(WireError::BadHeaderLength);
        }
        let dst_conn = r.u32()?;
        let crc = r.u32()?;
        Ok(Base {
            packet_type,
            flags,
            header_len,
            dst_conn,
            crc,
        })
    }
}

/// Writes a base header for a header of `header_len` bytes in total, with the CRC field zero.
pub(super) fn emit(
    w: &mut Writer<'_>,
    packet_type: PacketType,
    flags: PacketFlags,
    header_len: usize,
    dst_conn: u32,
) -> Option<()> {
    w.u8(VERSION)?;
    // CAST: fieldless enum with u8 representation.
    w.u8(packet_type as u8)?;
    w.u8(flags.0)?;
    w.u8(u8::try_from(header_len / 4).ok()?)?;
    w.u32(dst_conn)?;
    w.u32(0)
}
