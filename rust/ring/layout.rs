// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Where the members of `struct metaroce_ring_hdr` are.
//!
//! The users of this crate compare these with the C header's structure at build time.

/// Offset of the producer index.
pub const PRODUCER: usize = 0;

/// Offset of the consumer index, on a cache line of its own.
pub const CONSUMER: usize = 64;

/// Offset of the word that tells user space to ring the doorbell.
pub const NEED_DOORBELL: usize = 128;

/// Size of the header; the first slot follows.
pub const HEADER_SIZE: usize = 256;
