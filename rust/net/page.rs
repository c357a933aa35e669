// SPDX-License-Identifier: GPL-2.0

//! Pages that someone else keeps.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    page::{
        Page,
        PAGE_SIZE, //
    },
    prelude::*, //
};

/// A page that stays where it is for `'a`.
///
/// Others, user space among them, may change its content at any time.
///
/// # Invariants
///
/// Someone holds a reference to the page for `'a`.
#[derive(Clone, Copy)]
pub struct PageRef<'a> {
    page: NonNull<bindings::page>,
    _p: PhantomData<&'a Page>,
}

impl PageRef<'_> {
    /// Makes one of a C page.
    ///
    /// # Safety
    ///
    /// Someone must hold a reference to the page for `'a`, or have it pinned.
    pub unsafe fn from_raw(page: NonNull<bindings::page>) -> Self {
        // INVARIANT: By the requirements of this function.
        Self {
            page,
            _p: PhantomData,
        }
    }

    /// Returns the address of the page.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it has none.
    pub(super) fn address(self) -> Result<NonNull<u8>> {
        // SAFETY: By the type invariant.
        let address = unsafe { bindings::metaroce_page_address(self.as_ptr()) };
        NonNull::new(address.cast()).ok_or(EOPNOTSUPP)
    }

    /// Returns the C page.
    pub fn as_ptr(self) -> *mut bindings::page {
        self.page.as_ptr()
    }
}

impl<'a> From<&'a Page> for PageRef<'a> {
    fn from(page: &'a Page) -> Self {
        let raw = page.as_ptr().cast();
        // SAFETY: A `Page` owns the page, so it is not null and stays as long as the borrow.
        unsafe { Self::from_raw(NonNull::new_unchecked(raw)) }
    }
}

/// Returns whether `len` bytes at `offset` lie in one page.
pub(super) fn in_page(offset: usize, len: usize) -> bool {
    offset.checked_add(len).is_some_and(|end| end <= PAGE_SIZE)
}
