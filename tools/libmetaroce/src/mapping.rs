// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A ring's memory in this process.

use crate::bindings as c;
use crate::errno::Errno;
use core::ffi::c_int;
use core::ptr::{self, NonNull};
use core::sync::atomic::{fence, AtomicU32, Ordering};
use ring::Shared;

/// Memory mapped from the kernel, unmapped when dropped.
///
/// # Invariants
///
/// `base` is the page-aligned start of a readable and writable mapping of `len` bytes that is
/// this object's alone.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: A mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `size` bytes at `offset` of the device's file.
    pub(crate) fn new(fd: c_int, offset: u64, size: u64) -> Result<Self, Errno> {
        let len = usize::try_from(size).map_err(|_| Errno::EPROTO)?;
        let offset = offset.try_into().map_err(|_| Errno::EPROTO)?;
        let prot = (c::PROT_READ | c::PROT_WRITE) as c_int;
        // SAFETY: A new mapping at an address of the kernel's choice touches no other memory.
        let base = unsafe {
            c::mmap(
                ptr::null_mut(),
                len,
                prot,
                c::MAP_SHARED as c_int,
                fd,
                offset,
            )
        };
        if base.addr() == usize::MAX {
            return Err(Errno::last());
        }
        let base = NonNull::new(base.cast()).ok_or(Errno::EPROTO)?;
        // INVARIANT: as mapped.
        Ok(Self { base, len })
    }

    /// Returns the address of `len` bytes at `off`, if they are inside.
    fn locate(&self, off: usize, len: usize) -> Option<NonNull<u8>> {
        if off.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: The offset is inside the mapping.
        Some(unsafe { self.base.add(off) })
    }

    /// Returns the word at `off`, if it is aligned and inside.
    fn word(&self, off: usize) -> Option<&AtomicU32> {
        let place = self.locate(off, size_of::<u32>())?.cast::<u32>();
        if !place.is_aligned() {
            return None;
        }
        // SAFETY: Aligned and inside the mapping, which lives as long as `self`. Words of the
        // header are accessed in no other way, and the kernel accesses them atomically too.
        Some(unsafe { AtomicU32::from_ptr(place.as_ptr()) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: The mapping is this object's, and nothing borrows from it any more. It cannot
        // fail for a range that was mapped as one.
        unsafe { c::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl Shared for Mapping {
    fn len(&self) -> usize {
        self.len
    }

    fn load_acquire(&self, off: usize) -> Option<u32> {
        Some(self.word(off)?.load(Ordering::Acquire))
    }

    fn store_release(&self, off: usize, value: u32) -> Option<()> {
        self.word(off)?.store(value, Ordering::Release);
        Some(())
    }

    fn full_fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read(&self, off: usize, buf: &mut [u8]) -> Option<()> {
        let from = self.locate(off, buf.len())?;
        // SAFETY: Inside the mapping, and `buf` is no part of it. The caller holds the queue's
        // lock, and the kernel leaves a slot alone between publishing it and getting it back.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), buf.as_mut_ptr(), buf.len()) };
        Some(())
    }

    fn write(&self, off: usize, buf: &[u8]) -> Option<()> {
        let to = self.locate(off, buf.len())?;
        // SAFETY: As in `read`; the kernel only reads what is written here.
        unsafe { ptr::copy_nonoverlapping(buf.as_ptr(), to.as_ptr(), buf.len()) };
        Some(())
    }
}

/// Maps a ring and checks that its slots are where its geometry says.
pub(crate) fn map_ring(
    fd: c_int,
    offset: u64,
    size: u64,
    entries: u32,
    stride: u32,
) -> Result<(Mapping, ring::Geometry), Errno> {
    let geometry = ring::Geometry::new(entries, stride).ok_or(Errno::EPROTO)?;
    let mapping = Mapping::new(fd, offset, size)?;
    if mapping.len() < geometry.size() {
        return Err(Errno::EPROTO);
    }
    Ok((mapping, geometry))
}
