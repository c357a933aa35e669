// SPDX-License-Identifier: GPL-2.0

//! INIT and INIT_ACK: connection set-up and announcement of planes.

use super::cursor::{Reader, Writer};
use super::{base, Gid, PacketFlags, PacketType, WireError, MAX_PLANES};
use crate::packet::Qpn;

/// Bytes of an INIT without planes, base included.
pub const INIT_FIXED_LEN: usize = 68;
/// Bytes of one plane.
const PLANE_LEN: usize = 24;
/// Flag beside the token, see [`Token::expected`].
const TOKEN_EXPECTED: u8 = 1 << 0;

/// Optional features, a wire bit set. Unknown bits are ignored: a feature is in use if both sides
/// know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u32);

impl Features {
    /// The sender wants every packet of the connection protected by the CRC.
    pub const CRC: Features = Features(1 << 0);
    /// The sender's connection is for the named queue pairs only, and for no others between the
    /// endpoints.
    pub const OWN: Features = Features(1 << 1);

    /// Whether all bits of `f` are set.
    pub const fn has(self, f: Features) -> bool {
        self.0 & f.0 == f.0
    }
}

/// One plane of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plane {
    /// The address to send to.
    pub gid: Gid,
    /// Link speed in Mbit/s, 0 if unknown.
    pub speed: u32,
    /// Name of the plane within the endpoint.
    pub id: u8,
    /// Whether the link is up.
    pub up: bool,
}

/// Up to [`MAX_PLANES`] planes, in the order that their owner gave them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneList {
    len: u8,
    planes: [Plane; MAX_PLANES],
}

impl PlaneList {
    /// No plane.
    pub const fn new() -> Self {
        PlaneList {
            len: 0,
            planes: [Plane {
                gid: Gid([0; 16]),
                speed: 0,
                id: 0,
                up: false,
            }; MAX_PLANES],
        }
    }

    /// Appends a plane; `None` if the list is full.
    pub fn push(&mut self, plane: Plane) -> Option<()> {
        *self.planes.get_mut(usize::from(self.len))? = plane;
        self.len += 1;
        Some(())
    }

    /// Number of planes.
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The plane with index `i`.
    pub fn get(&self, i: u8) -> Option<&Plane> {
        self.as_slice().get(usize::from(i))
    }

    /// The plane with index `i`, to change.
    pub fn get_mut(&mut self, i: u8) -> Option<&mut Plane> {
        self.planes
            .get_mut(..usize::from(self.len))
            .and_then(|p| p.get_mut(usize::from(i)))
    }

    /// All planes.
    pub fn as_slice(&self) -> &[Plane] {
        self.planes.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// A number that the application has told the two QPs that it connects, and nobody else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// 24 bits.
    pub psn: u32,
    /// It is what the sender's QP expects requests from (`rq_psn`), which it knows earlier than what
    /// it numbers its own from (`sq_psn`).
    pub expected: bool,
}

/// The body that INIT and INIT_ACK share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitHeader {
    /// The sender's connection id.
    pub src_conn: u32,
    /// A QP of the sender.
    pub src_qpn: Qpn,
    /// The QP of the receiver that it is connected to.
    pub dst_qpn: Qpn,
    /// What shows that the application has connected the two. Says nothing in an INIT_ACK, and
    /// where the receiver's connection id is known.
    pub token: Token,
    /// GID of the sender's QP.
    pub src_gid: Gid,
    /// GID of the receiver's QP.
    pub dst_gid: Gid,
    /// What the sender offers or wants.
    pub features: Features,
    /// Largest payload of a data packet that the sender takes, bytes.
    pub payload_mtu: u16,
    /// Paths that the sender has room for.
    pub paths: u8,
    /// Number of this list of planes: the sender advances it with each change, modulo 2^8.
    pub revision: u8,
    /// The sender's planes, at least one. One that is gone keeps its place, and is down.
    pub planes: PlaneList,
}

impl InitHeader {
    pub(super) fn parse(mut r: Reader<'_>) -> Result<Self, WireError> {
        let src_conn = r.u32()?;
        let (revision, src_qpn) = r.u8_u24()?;
        let (_, dst_qpn) = r.u8_u24()?;
        let src_gid = Gid(r.array()?);
        let dst_gid = Gid(r.array()?);
        let features = Features(r.u32()?);
        let payload_mtu = r.u16()?;
        let paths = r.u8()?;
        let n_planes = r.u8()?;
        let (kind, psn) = r.u8_u24()?;
        if n_planes == 0 || usize::from(n_planes) > MAX_PLANES {
            return Err(WireError::BadPlaneCount);
        }
        let mut planes = PlaneList::new();
        for _ in 0..n_planes {
            let mut p = Reader(r.bytes(PLANE_LEN)?);
            let plane = Plane {
                gid: Gid(p.array()?),
                speed: p.u32()?,
                id: p.u8()?,
                up: p.u8()? == 1,
            };
            planes.push(plane).ok_or(WireError::BadPlaneCount)?;
        }
        r.done()?;
        Ok(InitHeader {
            src_conn,
            src_qpn: Qpn(src_qpn),
            dst_qpn: Qpn(dst_qpn),
            token: Token {
                psn,
                expected: kind & TOKEN_EXPECTED != 0,
            },
            src_gid,
            dst_gid,
            features,
            payload_mtu,
            paths,
            revision,
            planes,
        })
    }

    /// Writes an INIT (`ack` false, `dst_conn` 0) or an INIT_ACK (`ack` true, `dst_conn` the
    /// initiator's id), CRC field zero. Returns its length, `None` if `buf` is too short.
    pub fn emit(
        &self,
        ack: bool,
        dst_conn: u32,
        flags: PacketFlags,
        buf: &mut [u8],
    ) -> Option<usize> {
        let packet_type = if ack {
            PacketType::InitAck
        } else {
            PacketType::Init
        };
        let planes = self.planes.as_slice();
        let len = INIT_FIXED_LEN + PLANE_LEN * planes.len();
        let mut w = Writer::new(buf);
        base::emit(&mut w, packet_type, flags, len, dst_conn)?;
        w.u32(self.src_conn)?;
        w.u8_u24(self.revision, self.src_qpn.0)?;
        w.u8_u24(0, self.dst_qpn.0)?;
        w.bytes(&self.src_gid.0)?;
        w.bytes(&self.dst_gid.0)?;
        w.u32(self.features.0)?;
        w.u16(self.payload_mtu)?;
        w.u8(self.paths)?;
        w.u8(self.planes.len())?;
        let kind = u8::from(self.token.expected) * TOKEN_EXPECTED;
        w.u8_u24(kind, self.token.psn)?;
        for p in planes {
            w.bytes(&p.gid.0)?;
            w.u32(p.speed)?;
            w.u8(p.id)?;
            w.u8(u8::from(p.up))?;
            w.u16(0)?;
        }
        Some(w.len())
    }
}
