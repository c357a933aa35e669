// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Access to memory that the other side changes at will.

use crate::{layout, Error};

/// Memory shared between the kernel and a process.
///
/// The other side may change any byte at any time. So an implementation makes no reference into
/// the memory: words go through atomic accesses, bytes are copied by volatile or equally opaque
/// accesses, and a torn or changing value is a wrong value, never undefined behaviour.
pub trait Shared {
    /// Returns the size in bytes.
    fn len(&self) -> usize;

    /// Returns whether there is no memory at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loads the 32-bit word at `off` with acquire semantics; [`None`] if it is misaligned or out
    /// of bounds.
    fn load_acquire(&self, off: usize) -> Option<u32>;

    /// Stores the 32-bit word at `off` with release semantics; [`None`] if it is misaligned or
    /// out of bounds.
    fn store_release(&self, off: usize, value: u32) -> Option<()>;

    /// Orders every access before it against every access after it, a store against a later load
    /// included (`smp_mb()` in the kernel, a sequentially consistent fence in user space).
    fn full_fence(&self);

    /// Copies `buf.len()` bytes at `off` out; [`None`], and nothing copied, if they are not all
    /// inside.
    fn read(&self, off: usize, buf: &mut [u8]) -> Option<()>;

    /// Copies `buf` to `off`; [`None`], and nothing copied, if it does not fit.
    fn write(&self, off: usize, buf: &[u8]) -> Option<()>;
}

/// Loads a word of the header.
pub(crate) fn load<S: Shared + ?Sized>(ring: &S, off: usize) -> Result<u32, Error> {
    ring.load_acquire(off).ok_or(Error::OutOfBounds)
}

/// Stores a word of the header.
pub(crate) fn store<S: Shared + ?Sized>(ring: &S, off: usize, value: u32) -> Result<(), Error> {
    ring.store_release(off, value).ok_or(Error::OutOfBounds)
}

/// Loads the producer index.
pub(crate) fn load_producer<S: Shared + ?Sized>(ring: &S) -> Result<u32, Error> {
    load(ring, layout::PRODUCER)
}

/// Loads the consumer index.
pub(crate) fn load_consumer<S: Shared + ?Sized>(ring: &S) -> Result<u32, Error> {
    load(ring, layout::CONSUMER)
}
