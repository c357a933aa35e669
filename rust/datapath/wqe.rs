// SPDX-License-Identifier: GPL-2.0

//! Work requests as user space writes them, decoded from the kernel's private copy.
//!
//! Layout: `include/uapi/rdma/metaroce-abi.h`. A slot is copied out of the shared ring once, and
//! only the copy is looked at, so nothing that user space does to the ring afterwards can change
//! what was checked.

use super::{
    bytes::{
        u16_at,
        u32_at,
        u64_at,
        u8_at, //
    },
    mw::Bind,
};

/// Bytes in front of the scatter/gather list or inline data of a send work request.
pub(crate) const SEND_HEADER: usize = 64;

/// Bytes in front of the scatter list of a receive work request.
pub(crate) const RECV_HEADER: usize = 16;

/// Bytes of one scatter/gather element.
pub(crate) const SGE_SIZE: usize = 16;

/// Not part of the ABI with user space, whose work requests with it fail.
const REG_MR: u8 = 128;

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOp {
    Write,
    WriteImm,
    Send,
    SendImm,
    SendInv,
    Read,
    CmpSwap,
    FetchAdd,
    LocalInv,
    BindMw,
    AtomicWrite,
    Flush,
    /// Fast registration, of users in the kernel.
    RegMr,
}

impl SendOp {
    fn from_abi(v: u8) -> Option<Self> {
        Some(match v {
            0 => Self::Write,
            1 => Self::WriteImm,
            2 => Self::Send,
            3 => Self::SendImm,
            4 => Self::Read,
            5 => Self::CmpSwap,
            6 => Self::FetchAdd,
            7 => Self::LocalInv,
            8 => Self::BindMw,
            9 => Self::SendInv,
            10 => Self::AtomicWrite,
            11 => Self::Flush,
            REG_MR => Self::RegMr,
            _ => return None,
        })
    }

    /// The number of the operation in a work request.
    pub(crate) const fn to_abi(self) -> u8 {
        match self {
            Self::Write => 0,
            Self::WriteImm => 1,
            Self::Send => 2,
            Self::SendImm => 3,
            Self::Read => 4,
            Self::CmpSwap => 5,
            Self::FetchAdd => 6,
            Self::LocalInv => 7,
            Self::BindMw => 8,
            Self::SendInv => 9,
            Self::AtomicWrite => 10,
            Self::Flush => 11,
            Self::RegMr => REG_MR,
        }
    }

    /// The `enum ib_wc_opcode` of the completion.
    pub(crate) const fn wc_opcode(self) -> u32 {
        match self {
            Self::Send | Self::SendImm | Self::SendInv => 0,
            Self::Write | Self::WriteImm => 1,
            Self::Read => 2,
            Self::CmpSwap => 3,
            Self::FetchAdd => 4,
            Self::BindMw => 5,
            Self::LocalInv => 6,
            Self::AtomicWrite => bindings::ib_wc_opcode_IB_WC_ATOMIC_WRITE,
            Self::Flush => bindings::ib_wc_opcode_IB_WC_FLUSH,
            Self::RegMr => bindings::ib_wc_opcode_IB_WC_REG_MR,
        }
    }
}

/// One element of a scatter/gather list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

/// A scatter/gather list inside a work request's copy.
#[derive(Clone, Copy)]
pub(crate) struct SgList<'a>(&'a [u8]);

impl<'a> SgList<'a> {
    /// Iterates over the elements.
    pub(crate) fn iter(self) -> impl Iterator<Item = Sge> + 'a {
        self.0.chunks_exact(SGE_SIZE).map(|b| Sge {
            addr: u64_at(b, 0).unwrap_or(0),
            length: u32_at(b, 8).unwrap_or(0),
            lkey: u32_at(b, 12).unwrap_or(0),
        })
    }

    /// Sum of all lengths in bytes; it cannot overflow, as there are few elements.
    pub(crate) fn total(self) -> u64 {
        self.iter().map(|s| u64::from(s.length)).sum()
    }

    /// Calls `f` with each contiguous piece of the `len` bytes at `offset` of the list, in order.
    /// Returns [`None`] when the list is shorter than that.
    pub(crate) fn walk<E>(
        self,
        offset: u64,
        len: u64,
        mut f: impl FnMut(Sge) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let (mut skip, mut left) = (offset, len);
        for sge in self.iter() {
            if left == 0 {
                break;
            }
            let size = u64::from(sge.length);
            if skip >= size {
                skip -= size;
                continue;
            }
            let n = (size - skip).min(left);
            let piece = Sge {
                addr: sge.addr.wrapping_add(skip),
                // CAST: `n` is at most `sge.length`.
                length: n as u32,
                lkey: sge.lkey,
            };
            if let Err(e) = f(piece) {
                return Some(Err(e));
            }
            left -= n;
            skip = 0;
        }
        (left == 0).then_some(Ok(()))
    }
}

/// Where the payload of a send work request is.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// In registered memory.
    List(SgList<'a>),
    /// In the work request.
    Inline(&'a [u8]),
}

/// The fixed part of a send work request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWr {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    flags: u8,
    num_sge: u16,
    inline_len: u32,
    /// Immediate as it goes on the wire (big endian in memory), the rkey to invalidate, the one that
    /// a memory window gets, or what a flush does.
    pub(crate) imm: u32,
    pub(crate) rkey: u32,
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    lkey: u32,
    access: u32,
    ah: u32,
    remote_qpn: u32,
}

impl SendWr {
    /// Decodes the header of the copy `b`; [`None`] if no provider can have meant it.
    pub(crate) fn parse(b: &[u8]) -> Option<Self> {
        let wr = Self {
            wr_id: u64_at(b, 0)?,
            op: SendOp::from_abi(u8_at(b, 8)?)?,
            flags: u8_at(b, 9)?,
            num_sge: u16_at(b, 10)?,
            inline_len: u32_at(b, 12)?,
            imm: u32_at(b, 16)?,
            rkey: u32_at(b, 20)?,
            remote_addr: u64_at(b, 24)?,
            compare_add: u64_at(b, 32)?,
            swap: u64_at(b, 40)?,
            lkey: u32_at(b, 48)?,
            access: u32_at(b, 52)?,
            ah: u32_at(b, 56)?,
            remote_qpn: u32_at(b, 60)?,
        };
        (wr.flags & !0xf == 0 && wr.payload(b).is_some()).then_some(wr)
    }

    /// The work request's number, for one that cannot be parsed otherwise.
    pub(crate) fn wr_id_of(b: &[u8]) -> u64 {
        u64_at(b, 0).unwrap_or(0)
    }

    /// Where the payload is; [`None`] if it does not fit in the slot.
    pub(crate) fn payload<'a>(&self, b: &'a [u8]) -> Option<Payload<'a>> {
        let rest = b.get(SEND_HEADER..)?;
        if self.inline() {
            Some(Payload::Inline(
                rest.get(..self.inline_len.try_into().ok()?)?,
            ))
        } else {
            let n = usize::from(self.num_sge).checked_mul(SGE_SIZE)?;
            Some(Payload::List(SgList(rest.get(..n)?)))
        }
    }

    /// What a bind work request asks for.
    pub(crate) const fn bind(&self) -> Bind {
        Bind {
            old_rkey: self.rkey,
            rkey: self.imm,
            lkey: self.lkey,
            addr: self.remote_addr,
            len: self.compare_add,
            access: self.access,
        }
    }

    /// Where a datagram goes.
    pub(crate) const fn datagram(&self) -> Datagram {
        Datagram {
            ah: self.ah,
            qpn: self.remote_qpn,
            q_key: self.rkey,
        }
    }

    /// How many bytes a flush covers.
    pub(crate) const fn flush_len(&self) -> u32 {
        self.lkey
    }

    /// Whether earlier reads and atomics must complete first.
    pub(crate) const fn fence(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Whether a completion is wanted.
    pub(crate) const fn signaled(&self) -> bool {
        self.flags & 2 != 0
    }

    /// Whether the peer's completion is a solicited event.
    pub(crate) const fn solicited(&self) -> bool {
        self.flags & 4 != 0
    }

    /// Whether the data stand in the work request.
    pub(crate) const fn inline(&self) -> bool {
        self.flags & 8 != 0
    }
}

/// Where a datagram goes, in a work request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    /// Number of the address handle, of a process's work request.
    pub(crate) ah: u32,
    pub(crate) qpn: u32,
    pub(crate) q_key: u32,
}

/// A receive work request.
#[derive(Clone, Copy)]
pub(crate) struct RecvWr<'a> {
    pub(crate) wr_id: u64,
    pub(crate) list: SgList<'a>,
}

impl<'a> RecvWr<'a> {
    /// Decodes the copy `b`; [`None`] if the list does not fit in the slot.
    pub(crate) fn parse(b: &'a [u8]) -> Option<Self> {
        let n = usize::try_from(u32_at(b, 8)?).ok()?.checked_mul(SGE_SIZE)?;
        Some(Self {
            wr_id: u64_at(b, 0)?,
            list: SgList(b.get(RECV_HEADER..RECV_HEADER.checked_add(n)?)?),
        })
    }
}
