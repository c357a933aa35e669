// SPDX-License-Identifier: GPL-2.0

//! Data packets: what they carry, and how they are written.

use super::super::{
    conn::ConnInner,
    qp::{
        Qp,
        QpInner, //
    },
    requester::BuildError,
};
use crate::net::{
    crc,
    tx::TxBurst, //
};
use proto::{
    packet::{
        DataFields,
        Opcode,
        PathId,
        TxDesc, //
    },
    path::Tx,
    stream::{
        Nak,
        RequestPacket,
        ResponsePacket, //
    },
    wire::{
        self,
        crc as wire_crc,
        DataHeader,
        PacketFlags,
        CRC_OFFSET,
        MAX_DATA_HEADER_LEN, //
    },
};

/// A packet to be built, and what it carries.
pub(super) enum Content {
    Request(RequestPacket),
    Response(ResponsePacket),
    /// Header only.
    Bare(DataFields),
}

impl Content {
    pub(super) fn fields(&self) -> &DataFields {
        match self {
            Content::Request(p) => &p.fields,
            Content::Response(p) => &p.fields,
            Content::Bare(f) => f,
        }
    }

    pub(super) fn payload_len(&self) -> u32 {
        match self {
            Content::Request(p) => p.len,
            Content::Response(p) => p.source.len,
            Content::Bare(_) => 0,
        }
    }

    /// Bytes on the wire above UDP.
    pub(super) fn size(&self) -> u32 {
        // CAST: at most `MAX_DATA_HEADER_LEN`.
        wire::data_header_len(self.fields().opcode) as u32 + self.payload_len()
    }

    /// What takes a packet's place when there is nothing to send in it any more.
    pub(super) fn void(desc: &TxDesc) -> Self {
        Content::Bare(DataFields {
            opcode: Opcode::Void,
            dst_qpn: desc.peer_qpn,
            src_qpn: desc.qpn,
            msn: desc.msn,
            epoch: desc.epoch,
            ..DataFields::default()
        })
    }

    /// The refusal that was sent as `desc`.
    pub(super) fn nak(desc: &TxDesc) -> Self {
        Nak::fields(desc).map_or_else(|| Self::void(desc), Content::Bare)
    }
}

/// Address of a packet on its connection.
#[derive(Clone, Copy)]
pub(super) struct Place {
    path: PathId,
    tx: Tx,
    dst_conn: u32,
    with_crc: bool,
}

impl ConnInner {
    /// `again`: it was sent before, which may have failed for want of the CRC.
    pub(super) fn place(&self, path: PathId, tx: Tx, again: bool) -> Place {
        let with_crc = if again {
            self.proto.crc()
        } else {
            self.proto.crc_on(path)
        };
        Place {
            path,
            tx,
            dst_conn: self.proto.peer_id(),
            with_crc,
        }
    }
}

impl Place {
    /// Whether the packet is to have a CRC.
    pub(super) fn with_crc(&self) -> bool {
        self.with_crc
    }
}

/// Writes one packet as a segment of a burst.
pub(super) fn write_packet(
    burst: &mut TxBurst,
    qp: Option<(&Qp, &QpInner)>,
    content: &Content,
    place: Place,
) -> Result<(), BuildError> {
    let header = DataHeader {
        path: place.path,
        route_epoch: place.tx.route_epoch,
        psn: place.tx.psn,
        stamp: place.tx.stamp,
        fields: *content.fields(),
    };
    let mut flags = PacketFlags::NONE;
    if place.tx.ack_req {
        flags = flags.with(PacketFlags::ACK_REQ);
    }
    if place.with_crc {
        flags = flags.with(PacketFlags::CRC);
    }
    let mut buf = [0u8; MAX_DATA_HEADER_LEN];
    let bytes = header
        .emit(place.dst_conn, flags, &mut buf)
        .and_then(|n| buf.get(..n))
        .ok_or(BuildError::NoRoom)?;
    burst.push_header(bytes).map_err(|_| BuildError::NoRoom)?;

    let mut sum = place
        .with_crc
        .then(|| crc::crc32c(wire_crc::CRC_SEED, bytes));
    match (content, qp) {
        (Content::Request(packet), Some((qp, inner))) => {
            qp.push_request(inner, packet, burst, &mut sum)?;
        }
        (Content::Response(packet), Some((qp, _))) => {
            qp.push_response(packet, burst, &mut sum)?;
        }
        _ => {}
    }
    if let Some(sum) = sum {
        burst
            .patch_header(CRC_OFFSET, &wire_crc::finish(sum).to_be_bytes())
            .map_err(|_| BuildError::NoRoom)?;
    }
    burst.segment_end().map_err(|_| BuildError::NoRoom)
}
