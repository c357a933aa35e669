// SPDX-License-Identifier: GPL-2.0

//! Access to memory: by copies and atomic operations, as others use it at the same time.

use super::{
    Backing,
    Umem, //
};
use core::ptr::NonNull;
use kernel::prelude::*;

/// A piece of memory whose bytes follow each other in the kernel's address space.
#[derive(Clone, Copy)]
pub struct Fragment {
    page: Option<(NonNull<bindings::page>, usize)>,
    address: NonNull<u8>,
    len: usize,
}

impl Fragment {
    /// Returns the page that has all of the fragment, and where in it that begins; [`None`] if the
    /// content has to be copied, for the memory may not be referenced beyond the life of the region:
    /// that of a slab cache, say, or a dma-buf's.
    ///
    /// The page stays while the [`Umem`] lives; whoever keeps it for longer takes a reference.
    pub fn page(&self) -> Option<(NonNull<bindings::page>, usize)> {
        self.page
    }

    /// Returns the address of the first byte, valid for as long as the memory is.
    ///
    /// Others change the bytes at the same time.
    pub fn address(&self) -> NonNull<u8> {
        self.address
    }

    /// Returns the length in bytes, at least one.
    #[expect(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Umem {
    /// Returns the longest piece of at most `len` bytes from `off` on, to be read.
    ///
    /// # Errors
    ///
    /// `EFAULT` if there is none, `EAGAIN` if it is not there now.
    pub fn fragment(&self, off: usize, len: usize) -> Result<Fragment> {
        let place = self.locate(off, len, false)?;
        let len = place.room.min(len);
        if len == 0 {
            return Err(EFAULT);
        }
        let page = place.page.map(|(page, offset)| (page.page, offset));
        let may_share = |page: &(NonNull<bindings::page>, usize)| match self.backing {
            Backing::User { .. } | Backing::OnDemand(_) => true,
            Backing::DmaBuf(_) => false,
            // SAFETY: By the invariant of `Page`.
            Backing::Kernel => unsafe { bindings::metaroce_page_is_shareable(page.0.as_ptr()) },
        };
        Ok(Fragment {
            page: page.filter(may_share),
            address: place.address,
            len,
        })
    }

    /// Calls `f` with the address and length of each piece of the `len` bytes at `off`.
    ///
    /// # Errors
    ///
    /// `EFAULT`, and nothing called, if the range is not inside; `EAGAIN` if some of it is not there
    /// now.
    pub(in crate::rdma) fn for_each_piece(
        &self,
        off: usize,
        len: usize,
        write: bool,
        mut f: impl FnMut(*mut u8, usize, usize),
    ) -> Result {
        if off.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(EFAULT);
        }
        let mut done = 0;
        while done < len {
            let place = self.locate(off + done, len - done, write)?;
            let n = place.room.min(len - done);
            f(place.address.as_ptr(), done, n);
            done += n;
        }
        Ok(())
    }

    /// Copies `buf.len()` bytes at `off` out of the memory.
    ///
    /// # Errors
    ///
    /// `EFAULT`, and nothing copied, if they are not all inside.
    pub fn read(&self, off: usize, buf: &mut [u8]) -> Result {
        let to = buf.as_mut_ptr();
        self.for_each_piece(off, buf.len(), false, |from, at, n| {
            // SAFETY: `from` is valid for `n` bytes, for the memory stays, and `at + n` is at
            // most the length of `buf`, to which this has the only reference.
            unsafe { bindings::metaroce_copy_shared(to.add(at).cast(), from.cast(), n) };
        })
    }

    /// Copies `buf` to `off` in the memory.
    ///
    /// # Errors
    ///
    /// `EFAULT`, and nothing copied, if it does not fit.
    pub fn write(&self, off: usize, buf: &[u8]) -> Result {
        let from = buf.as_ptr();
        self.for_each_piece(off, buf.len(), true, |to, at, n| {
            // SAFETY: `to` is valid for `n` bytes, for the memory stays, and `at + n` is at most
            // the length of `buf`.
            unsafe { bindings::metaroce_copy_shared(to.cast(), from.add(at).cast(), n) };
        })
    }

    /// Calls `f` with each piece of the `len` bytes at `off`, in order, to be written to: the
    /// address, and the number of bytes.
    ///
    /// For copies by others (from a socket buffer, say) that cannot copy through a slice. The
    /// address is valid for that many bytes while `f` runs; other users change the memory at the
    /// same time.
    ///
    /// # Errors
    ///
    /// `EFAULT`, and `f` not called, if the range is not inside.
    pub fn with_pieces(
        &self,
        off: usize,
        len: usize,
        mut f: impl FnMut(NonNull<u8>, usize) -> Result,
    ) -> Result {
        let mut result = Ok(());
        self.for_each_piece(off, len, true, |address, _, n| {
            if result.is_ok() {
                result = NonNull::new(address)
                    .ok_or(EFAULT)
                    .and_then(|address| f(address, n));
            }
        })?;
        result
    }

    /// Returns the 64-bit word at `off` for atomic access.
    fn word(&self, off: usize) -> Result<*mut u64> {
        let place = self.locate(off, size_of::<u64>(), true)?;
        if place.room < size_of::<u64>() {
            return Err(EFAULT);
        }
        let word = place.address.as_ptr().cast::<u64>();
        if !word.is_aligned() {
            return Err(EINVAL);
        }
        Ok(word)
    }

    /// Sets the 64-bit word at `off`, at once for all who look at it.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the word is not inside, `EINVAL` if it is not aligned.
    pub fn store(&self, off: usize, value: u64) -> Result {
        let word = self.word(off)?;
        // SAFETY: As in `fetch_add`.
        let word = unsafe { kernel::sync::atomic::Atomic::from_ptr(word) };
        word.store(value, kernel::sync::atomic::Release);
        Ok(())
    }

    /// Adds to the 64-bit word at `off` and returns its former value.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the word is not inside, `EINVAL` if it is not aligned.
    pub fn fetch_add(&self, off: usize, add: u64) -> Result<u64> {
        let word = self.word(off)?;
        // SAFETY: The word is aligned and lies in memory that stays; whoever in the kernel
        // accesses it at the same time does so atomically, or behind the compiler's back.
        let word = unsafe { kernel::sync::atomic::Atomic::from_ptr(word) };
        Ok(word.fetch_add(add, kernel::sync::atomic::Full))
    }

    /// Sets the 64-bit word at `off` to `new` if it is `old`, and returns its former value.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the word is not inside, `EINVAL` if it is not aligned.
    pub fn compare_exchange(&self, off: usize, old: u64, new: u64) -> Result<u64> {
        let word = self.word(off)?;
        // SAFETY: As in `fetch_add`.
        let word = unsafe { kernel::sync::atomic::Atomic::from_ptr(word) };
        Ok(match word.cmpxchg(old, new, kernel::sync::atomic::Full) {
            Ok(value) | Err(value) => value,
        })
    }
}
