// SPDX-License-Identifier: GPL-2.0

//! Bytes whose sight tells that everything before them is there.

use super::umem::Umem;
use kernel::{
    prelude::*,
    sync::barrier::{
        smp_mb,
        Full, //
    }, //
};

impl Umem {
    /// Writes `bytes` at `off`, for programs that look at the last of them: who sees that sees the
    /// others, and all that was written before by this CPU, or by others under locks that it has
    /// taken since.
    ///
    /// An aligned word of 4 or 8 bytes is written at once.
    ///
    /// # Errors
    ///
    /// `EFAULT`, and nothing written, if they are not all inside; `EAGAIN` if some of the memory is
    /// not there now.
    pub fn publish(&self, off: usize, bytes: &[u8]) -> Result {
        self.for_each_piece(off, bytes.len(), true, |to, at, n| {
            if let Some(piece) = bytes.get(at..at + n) {
                // SAFETY: `for_each_piece()` gives addresses that are valid for that many bytes.
                unsafe { store(to, piece) };
            }
        })
    }
}

/// Stores bytes after everything before, the last of them after the others.
///
/// # Safety
///
/// `to` is valid for writes of so many bytes, whoever looks at them meanwhile.
unsafe fn store(to: *mut u8, bytes: &[u8]) {
    smp_mb(Full);
    if let Ok(word) = bytes.try_into().map(u64::from_ne_bytes) {
        if to.cast::<u64>().is_aligned() {
            // SAFETY: By this function's contract.
            return unsafe { to.cast::<u64>().write_volatile(word) };
        }
    }
    if let Ok(word) = bytes.try_into().map(u32::from_ne_bytes) {
        if to.cast::<u32>().is_aligned() {
            // SAFETY: By this function's contract.
            return unsafe { to.cast::<u32>().write_volatile(word) };
        }
    }
    let Some((last, others)) = bytes.split_last() else {
        return;
    };
    let from = others.as_ptr().cast();
    // SAFETY: By this function's contract; `others` is as long as it says.
    unsafe { bindings::metaroce_copy_shared(to.cast(), from, others.len()) };
    smp_mb(Full);
    // SAFETY: By this function's contract, the last byte is behind the others.
    unsafe { to.add(others.len()).write_volatile(*last) };
}
