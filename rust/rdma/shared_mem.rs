// SPDX-License-Identifier: GPL-2.0

//! Memory that the kernel shares with a process.

use core::ptr::NonNull;

use kernel::{
    page::page_align,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Full,
                Release, //
            },
            Atomic, //
        },
        barrier::smp_mb,
        Arc, //
    }, //
};

/// Zeroed memory that can be mapped to user space.
///
/// # Invariants
///
/// `base` points to whole pages from `metaroce_vmalloc_shared()`, which this owns.
struct Pages {
    base: NonNull<u8>,
}

// SAFETY: The memory does not depend on the thread it is used from.
unsafe impl Send for Pages {}

// SAFETY: The memory is accessed atomically or behind the compiler's back.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Pages that are still mapped by user space live on.
        unsafe { bindings::vfree(self.base.as_ptr().cast()) };
    }
}

/// Zeroed memory that the kernel shares with a process, which maps it.
///
/// Every access is checked to be inside.
///
/// # Invariants
///
/// `base` is that of `_pages`, with `len` bytes; or what the caller of [`Self::borrow`] vouches for.
#[derive(Clone)]
pub struct SharedMem {
    base: NonNull<u8>,
    len: usize,
    _pages: Option<Arc<Pages>>,
}

// SAFETY: `base` points to what `_pages` owns, which is `Send` and `Sync`, or to memory like it.
unsafe impl Send for SharedMem {}

// SAFETY: As above.
unsafe impl Sync for SharedMem {}

impl SharedMem {
    /// Allocates `len` bytes, rounded up to whole pages, on the current process's account.
    pub fn new(len: usize) -> Result<Self> {
        let len = page_align(len).ok_or(EINVAL)?;
        if len == 0 {
            return Err(EINVAL);
        }
        // SAFETY: There are no requirements.
        let base = unsafe { bindings::metaroce_vmalloc_shared(len) };
        let base = NonNull::new(base.cast()).ok_or(ENOMEM)?;
        // INVARIANT: Just allocated.
        let pages = Arc::new(Pages { base }, GFP_KERNEL)?;
        Ok(Self {
            base,
            len,
            _pages: Some(pages),
        })
    }

    /// Refers to `len` bytes at `base` that somebody else has allocated in this way.
    ///
    /// # Safety
    ///
    /// The memory must be aligned to a page, and stay until this and all its clones are gone. All
    /// access to it is atomic or behind the compiler's back.
    pub unsafe fn borrow(base: NonNull<u8>, len: usize) -> Self {
        // INVARIANT: By the requirements of this function.
        Self {
            base,
            len,
            _pages: None,
        }
    }

    /// Returns the address of the first byte, for those that are not in Rust. It is valid for as
    /// long as this, or a clone of it, lives.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the place of the word at `off`.
    fn word(&self, off: usize) -> Option<&Atomic<u32>> {
        if off % size_of::<u32>() != 0 {
            return None;
        }
        let place = self.place(off, size_of::<u32>())?;
        // SAFETY: The word is aligned, for `base` is aligned to a page, and it is inside of
        // memory that lives as long as `self`. The kernel accesses such words atomically, or
        // behind the compiler's back.
        Some(unsafe { Atomic::from_ptr(place.as_ptr().cast()) })
    }

    /// Returns the place of the `len` bytes at `off`.
    fn place(&self, off: usize, len: usize) -> Option<NonNull<u8>> {
        if off.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: By the type invariant and the check, this stays in the allocation.
        Some(unsafe { self.base.add(off) })
    }
}

impl ring::Shared for SharedMem {
    fn len(&self) -> usize {
        self.len
    }

    fn load_acquire(&self, off: usize) -> Option<u32> {
        Some(self.word(off)?.load(Acquire))
    }

    fn store_release(&self, off: usize, value: u32) -> Option<()> {
        self.word(off)?.store(value, Release);
        Some(())
    }

    fn full_fence(&self) {
        smp_mb(Full);
    }

    fn read(&self, off: usize, buf: &mut [u8]) -> Option<()> {
        let from = self.place(off, buf.len())?;
        // SAFETY: `from` is valid for the length of `buf`, and so is `buf`.
        unsafe {
            bindings::metaroce_copy_shared(buf.as_mut_ptr().cast(), from.as_ptr().cast(), buf.len())
        };
        Some(())
    }

    fn write(&self, off: usize, buf: &[u8]) -> Option<()> {
        let to = self.place(off, buf.len())?;
        // SAFETY: `to` is valid for the length of `buf`, and so is `buf`.
        unsafe {
            bindings::metaroce_copy_shared(to.as_ptr().cast(), buf.as_ptr().cast(), buf.len())
        };
        Some(())
    }
}
