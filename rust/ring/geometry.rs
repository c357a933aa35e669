// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Shape of a ring, and the slots in it.

use crate::{layout, Shared};

/// Number and size of a ring's slots.
///
/// # Invariants
///
/// `entries` is a power of two of at most [`Geometry::MAX_ENTRIES`], `stride` is a non-zero
/// multiple of 8, and header and slots together take less than `usize::MAX` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    entries: u32,
    stride: u32,
}

impl Geometry {
    /// Most slots a ring can have: half of the index space, so that a distance between two
    /// indices tells ahead from behind.
    pub const MAX_ENTRIES: u32 = 1 << 31;

    /// Makes the geometry of `entries` slots of `stride` bytes; [`None`] if no ring can have it.
    pub const fn new(entries: u32, stride: u32) -> Option<Self> {
        if !entries.is_power_of_two() || stride == 0 || stride % 8 != 0 {
            return None;
        }
        // CAST: `usize` has at least 32 bits on all that this runs on.
        let Some(slots) = (entries as usize).checked_mul(stride as usize) else {
            return None;
        };
        if slots.checked_add(layout::HEADER_SIZE).is_none() {
            return None;
        }
        // INVARIANT: checked above; the largest power of two is `MAX_ENTRIES`.
        Some(Self { entries, stride })
    }

    /// Returns the number of slots.
    pub const fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns the distance of two slots in bytes.
    pub const fn stride(&self) -> u32 {
        self.stride
    }

    /// Returns the bytes that header and slots take, before any rounding to pages.
    pub const fn size(&self) -> usize {
        layout::HEADER_SIZE + self.entries as usize * self.stride as usize
    }

    /// Returns the slot of the free-running index `index`.
    pub const fn slot(&self, index: u32) -> Slot {
        let n = index & (self.entries - 1);
        Slot {
            offset: layout::HEADER_SIZE + n as usize * self.stride as usize,
            len: self.stride as usize,
        }
    }
}

/// One slot of a ring: a window that accesses through it cannot leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    offset: usize,
    len: usize,
}

impl Slot {
    /// Returns where in the shared memory the slot begins.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the size of the slot in bytes.
    pub const fn stride(&self) -> usize {
        self.len
    }

    /// Returns the offset in the ring of `len` bytes at `at` in the slot, if they are inside.
    fn locate(&self, at: usize, len: usize) -> Option<usize> {
        if at.checked_add(len)? > self.len {
            return None;
        }
        self.offset.checked_add(at)
    }

    /// Copies `buf.len()` bytes at `at` in the slot out.
    pub fn read<S: Shared + ?Sized>(&self, ring: &S, at: usize, buf: &mut [u8]) -> Option<()> {
        ring.read(self.locate(at, buf.len())?, buf)
    }

    /// Copies `buf` to `at` in the slot.
    pub fn write<S: Shared + ?Sized>(&self, ring: &S, at: usize, buf: &[u8]) -> Option<()> {
        ring.write(self.locate(at, buf.len())?, buf)
    }
}
