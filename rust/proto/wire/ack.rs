// SPDX-License-Identifier: GPL-2.0

//! ACK: state of one or more paths at the receiver.

use super::cursor::{Reader, Writer};
use super::{base, PacketFlags, PacketType, WireError, BASE_LEN, MAX_ACK_BLOCKS, MAX_HEADER_LEN};
use crate::bits::Bits256;
use crate::packet::PathId;
use crate::psn::Psn;
use crate::time::Stamp;

/// Bytes of an ACK without blocks, base included.
pub const ACK_FIXED_LEN: usize = BASE_LEN + 8;
/// Bytes of a block without vectors.
const BLOCK_FIXED_LEN: usize = 20;
/// Words of a vector that spans 256 packets.
const MAX_WORDS: u8 = 8;

/// The state of one path at the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckBlock {
    /// The path.
    pub path: PathId,
    /// Route epoch of the packet whose stamp is echoed.
    pub route_epoch: u8,
    /// The next PSN to be acknowledged: everything before is.
    pub cum: Psn,
    /// Packets of the path that came with a CE mark since the connection began, modulo 2^32.
    pub ce_count: u32,
    /// Stamp of the packet of the path that arrived last, data or probe.
    pub stamp: Stamp,
    /// Time from that packet's arrival to this ACK, in units of 64 ns, saturating.
    pub hold: u32,
    /// Acknowledged beyond `cum`: bit i is PSN `cum + 1 + i`.
    pub acked: Bits256,
    /// Arrived and not acknowledged (yet): bit i is PSN `cum + i`. Such packets are not lost, and
    /// sending them again is of no use.
    pub held: Bits256,
}

impl AckBlock {
    /// Bytes of the block on the wire.
    pub fn wire_len(&self) -> usize {
        let words = self.acked.significant_words() + self.held.significant_words();
        BLOCK_FIXED_LEN + 4 * usize::from(words)
    }

    fn parse(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let path = PathId(r.u16()?);
        let route_epoch = r.u8()?;
        let counts = r.u8()?;
        let cum = Psn(r.u32()?);
        let ce_count = r.u32()?;
        let stamp = Stamp(r.u32()?);
        let hold = r.u32()?;
        let acked = vector(r, counts & 15)?;
        let held = vector(r, counts >> 4)?;
        Ok(AckBlock {
            path,
            route_epoch,
            cum,
            ce_count,
            stamp,
            hold,
            acked,
            held,
        })
    }

    fn emit(&self, w: &mut Writer<'_>) -> Option<()> {
        let (acked, held) = (
            self.acked.significant_words(),
            self.held.significant_words(),
        );
        w.u16(self.path.0)?;
        w.u8(self.route_epoch)?;
        w.u8(acked | held << 4)?;
        w.u32(self.cum.0)?;
        w.u32(self.ce_count)?;
        w.u32(self.stamp.0)?;
        w.u32(self.hold)?;
        for (bits, n) in [(&self.acked, acked), (&self.held, held)] {
            for word in bits.words().iter().take(usize::from(n)) {
                w.u32(*word)?;
            }
        }
        Some(())
    }
}

fn vector(r: &mut Reader<'_>, n: u8) -> Result<Bits256, WireError> {
    if n > MAX_WORDS {
        return Err(WireError::BadVector);
    }
    let mut words = [0u32; 8];
    for w in words.iter_mut().take(usize::from(n)) {
        *w = r.u32()?;
    }
    Ok(Bits256::from_words(words))
}

/// An ACK as received: the blocks stay in the packet and are decoded one at a time.
#[derive(Clone, Copy, Debug)]
pub struct AckHeader<'a> {
    /// The share of the receiver's inbound bandwidth that it allots to the sender, kbit/s; 0 says
    /// nothing.
    pub rate_hint: u32,
    /// Whether all packets that it newly reports came without having been on a link.
    pub local: bool,
    n_blocks: u16,
    blocks: Reader<'a>,
}

impl<'a> AckHeader<'a> {
    pub(super) fn parse(flags: PacketFlags, mut r: Reader<'a>) -> Result<Self, WireError> {
        let n_blocks = r.u16()?;
        r.u16()?;
        let rate_hint = r.u32()?;
        if usize::from(n_blocks) > MAX_ACK_BLOCKS {
            return Err(WireError::TooManyBlocks);
        }
        let blocks = r;
        // One pass to validate, so that iterating cannot fail half-way.
        for _ in 0..n_blocks {
            AckBlock::parse(&mut r)?;
        }
        r.done()?;
        Ok(AckHeader {
            rate_hint,
            local: flags.has(PacketFlags::LOCAL),
            n_blocks,
            blocks,
        })
    }

    /// The blocks in packet order.
    pub fn blocks(&self) -> impl Iterator<Item = AckBlock> + 'a {
        let mut r = self.blocks;
        (0..self.n_blocks).map_while(move |_| AckBlock::parse(&mut r).ok())
    }
}

/// Writes an ACK, CRC field zero. Returns its length; `None` if `buf` is too short or the blocks do
/// not fit one packet ([`MAX_ACK_BLOCKS`], [`MAX_HEADER_LEN`]).
pub fn emit_ack(
    dst_conn: u32,
    flags: PacketFlags,
    rate_hint: u32,
    blocks: &[AckBlock],
    buf: &mut [u8],
) -> Option<usize> {
    if blocks.len() > MAX_ACK_BLOCKS {
        return None;
    }
    let len = blocks
        .iter()
        .fold(ACK_FIXED_LEN, |n, b| n.saturating_add(b.wire_len()));
    if len > MAX_HEADER_LEN {
        return None;
    }
    let mut w = Writer::new(buf);
    base::emit(&mut w, PacketType::Ack, flags, len, dst_conn)?;
    w.u16(u16::try_from(blocks.len()).ok()?)?;
    w.u16(0)?;
    w.u32(rate_hint)?;
    for b in blocks {
        b.emit(&mut w)?;
    }
    Some(w.len())
}
