// SPDX-License-Identifier: GPL-2.0

//! Wire format, version 1: parsing and emitting, field by field as in
//! `Documentation/wire-protocol.rst`.
//!
//! The published specification of MetaRoCE may bring other encodings; nothing outside this module
//! knows a byte offset. Nothing here allocates or panics, whatever the bytes.

mod ack;
mod base;
pub mod crc;
pub(crate) mod cursor;
mod data;
mod datagram;
mod error;
mod init;
mod probe;
mod reset;

pub use ack::{emit_ack, AckBlock, AckHeader, ACK_FIXED_LEN};
pub use base::{Base, PacketFlags, PacketType};
pub use data::{data_header_len, patch, DataHeader, DATA_FIXED_LEN};
pub use datagram::{DatagramHeader, DATAGRAM_LEN};
pub use error::WireError;
pub use init::{Features, InitHeader, Plane, PlaneList, Token, INIT_FIXED_LEN};
pub use probe::{ProbeHeader, PROBE_LEN};
pub use reset::{ResetHeader, ResetReason, RESET_LEN};

use cursor::Reader;

/// The version that this module speaks.
pub const VERSION: u8 = 1;
/// Bytes of the base header.
pub const BASE_LEN: usize = 12;
/// Where the CRC field is.
pub const CRC_OFFSET: usize = 8;
const ZERO_CRC: [u8; 4] = [0; 4];
/// Longest header of a data packet: an atomic request.
pub const MAX_DATA_HEADER_LEN: usize = 76;
/// Longest header of any packet (an ACK), given by the width of the header length field. A buffer
/// that holds this many bytes of a datagram, or all of it, is enough to parse.
pub const MAX_HEADER_LEN: usize = 1020;
/// Bytes of a link that a full packet takes beside its payload: Ethernet with preamble, check
/// sequence and gap, IPv4, UDP, the header of a Write.
pub const LINK_OVERHEAD: u32 = 38 + 20 + 8 + 56;
/// Most blocks in one ACK.
pub const MAX_ACK_BLOCKS: usize = 16;
/// Most planes of an endpoint.
pub const MAX_PLANES: usize = 8;

/// An IP address as verbs show it: IPv6, or IPv4 mapped into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Maps an IPv4 address.
    pub const fn from_v4(a: [u8; 4]) -> Self {
        let [a, b, c, d] = a;
        Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// Whether this is a mapped IPv4 address.
    pub fn is_v4(&self) -> bool {
        self.0
            .starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
    }
}

/// A parsed header without its base.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// DATA.
    Data(DataHeader),
    /// ACK.
    Ack(AckHeader<'a>),
    /// INIT.
    Init(InitHeader),
    /// INIT_ACK.
    InitAck(InitHeader),
    /// RESET.
    Reset(ResetHeader),
    /// PROBE.
    Probe(ProbeHeader),
    /// DATAGRAM.
    Datagram(DatagramHeader),
}

/// A parsed header.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// What all packets have.
    pub base: Base,
    /// The rest.
    pub body: Body<'a>,
}

impl Header<'_> {
    /// Checks the number of bytes behind the header: only datagrams and some data
    /// packets carry any.
    pub fn check_payload(&self, payload_len: usize) -> Result<(), WireError> {
        let allowed = match &self.body {
            Body::Data(d) => d.fields.opcode.carries_payload(),
            Body::Datagram(_) => true,
            _ => false,
        };
        if payload_len == 0 || allowed {
            Ok(())
        } else {
            Err(WireError::UnexpectedPayload)
        }
    }
}

/// Parses the header at the front of a datagram.
///
/// `buf` holds the whole datagram or its first [`MAX_HEADER_LEN`] bytes; for DATA, PROBE and DATAGRAM
/// [`MAX_DATA_HEADER_LEN`] are enough. Returns the header and its length; the payload, if any,
/// follows and ends with the datagram ([`Header::check_payload`]). The CRC is not checked here
/// ([`crc`]).
pub fn parse(buf: &[u8]) -> Result<(Header<'_>, usize), WireError> {
    let base = Base::parse(buf)?;
    let body = buf
        .get(BASE_LEN..base.header_len)
        .ok_or(WireError::TooShort)?;
    let r = Reader(body);
    let body = match base.packet_type {
        PacketType::Data => Body::Data(DataHeader::parse(r)?),
        PacketType::Ack => Body::Ack(AckHeader::parse(base.flags, r)?),
        PacketType::Init => Body::Init(InitHeader::parse(r)?),
        PacketType::InitAck => Body::InitAck(InitHeader::parse(r)?),
        PacketType::Reset => Body::Reset(ResetHeader::parse(r)?),
        PacketType::Probe => Body::Probe(ProbeHeader::parse(r)?),
        PacketType::Datagram => Body::Datagram(DatagramHeader::parse(r)?),
    };
    Ok((Header { base, body }, base.header_len))
}
