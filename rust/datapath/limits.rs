// SPDX-License-Identifier: GPL-2.0

//! What a device offers at most; each limit is one that is enforced.

use core::ops::Range;

/// Most queue pairs of a device.
pub(crate) const MAX_QP: u32 = 1 << 16;

/// Numbers of queue pairs: 24 bits, without those that InfiniBand gives a meaning.
/// Connected and datagram queue pairs are in tables of their own, so they share none.
pub(crate) const QPN_RANGE: Range<u32> = 0x10..0x80_0000;

/// Numbers of datagram queue pairs.
pub(crate) const UD_QPN_RANGE: Range<u32> = 0x80_0000..0x100_0000;

/// Most address handles of a device; their numbers are smaller too.
pub(crate) const MAX_AH: u32 = 1 << 17;

/// Most multicast groups of a device, queue pairs in one, and memberships in all.
pub(crate) const MAX_GROUPS: u32 = 512;
pub(crate) const MAX_GROUP_MEMBERS: u32 = 256;
pub(crate) const MAX_MEMBERS: u32 = 4096;

/// Most bytes of a datagram's message: the largest path MTU.
pub(crate) const MAX_DATAGRAM: u32 = 4096;

/// Most completion queues of a device.
pub(crate) const MAX_CQ: u32 = 1 << 16;

/// Most memory regions of a device.
pub(crate) const MAX_MR: u32 = 1 << 20;

/// Most pages of a region for fast registration.
pub(crate) const MAX_FAST_PAGES: u32 = 512;

/// Most memory windows of a device.
pub(crate) const MAX_MW: u32 = 1 << 20;

/// Most protection domains of a device.
pub(crate) const MAX_PD: u32 = 1 << 16;

/// Most work requests in a queue; a power of two.
pub(crate) const MAX_QP_WR: u32 = 1 << 14;

/// Most completions in a queue; a power of two. libfabric's `ofi_rxm` asks for 786,432.
pub(crate) const MAX_CQE: u32 = 1 << 20;

/// Most shared receive queues of a device.
pub(crate) const MAX_SRQ: u32 = 1 << 16;

/// Most elements of a scatter/gather list.
pub(crate) const MAX_SGE: u32 = 16;

/// Most bytes of inline data.
pub(crate) const MAX_INLINE: u32 = 512;

/// Most reads and atomics that a queue pair has outstanding, in either direction.
pub(crate) const MAX_RD_ATOMIC: u8 = 16;

/// Most bytes of a memory region. The list of its pages must be one allocation.
pub(crate) const MAX_MR_SIZE: u64 = 1 << 38;

/// Most bytes of a message.
pub(crate) const MAX_MSG_SIZE: u32 = proto::stream::MAX_MSG_LEN;

/// Most planes of a device.
pub(crate) const MAX_PLANES: usize = 8;

/// Bytes of headers below a data packet's payload: IPv6, UDP, and the longest of our own that
/// payload can follow.
pub(crate) const HEADERS: u32 = 40 + 8 + 64;

/// Refused packets that a connection can hold at a time, and requests that it can be processing.
pub(super) const NAKS: usize = 256;

/// How long a connection outlives its last queue pair, in nanoseconds: the peer may still send
/// again what was acknowledged, if acknowledgements were lost.
pub(crate) const IDLE_NS: u64 = 2_000_000_000;
