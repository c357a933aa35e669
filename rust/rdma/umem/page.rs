// SPDX-License-Identifier: GPL-2.0

//! Pages that memory is in.

use core::ptr::NonNull;
use kernel::{
    page::PAGE_MASK,
    prelude::*, //
};

/// A page of memory.
///
/// # Invariants
///
/// The page is mapped in the kernel at `address`; it is pinned, or in use by the user in the kernel
/// who has named it, or stays for as long as its finder has bottom halves disabled.
#[derive(Clone, Copy)]
pub(super) struct Page {
    pub(super) page: NonNull<bindings::page>,
    pub(super) address: NonNull<u8>,
}

// SAFETY: Pages do not depend on the thread they are used from.
unsafe impl Send for Page {}

// SAFETY: The members of a shared `Page` are only read.
unsafe impl Sync for Page {}

impl Page {
    /// Returns a page of a process.
    ///
    /// # Safety
    ///
    /// The page stays for as long as the result is used.
    pub(super) unsafe fn of_process(page: NonNull<bindings::page>) -> Result<Self> {
        // SAFETY: The page stays, by the requirements of this function.
        let address = unsafe { bindings::metaroce_page_address(page.as_ptr()) };
        // INVARIANT: This is the kernel's permanent mapping of the page.
        Ok(Self {
            page,
            address: NonNull::new(address.cast()).ok_or(EFAULT)?,
        })
    }

    /// Makes the list of pages that are pinned.
    ///
    /// # Safety
    ///
    /// They must stay so for as long as the list is in use.
    pub(super) unsafe fn list(pages: &[*mut bindings::page]) -> Result<KVVec<Self>> {
        let mut list = KVVec::with_capacity(pages.len(), GFP_KERNEL_ACCOUNT)?;
        for page in pages {
            let page = NonNull::new(*page).ok_or(EINVAL)?;
            // SAFETY: By the requirements of this function the page is pinned.
            let address = unsafe { bindings::metaroce_page_address(page.as_ptr()) };
            // INVARIANT: This is the kernel's permanent mapping of the page.
            let address = NonNull::new(address.cast()).ok_or(EOPNOTSUPP)?;
            list.push(Self { page, address }, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(list)
    }

    /// Returns the page of the kernel's that contains `address`, if there is one.
    pub(super) fn of_kernel(address: usize) -> Option<Self> {
        let start = address & PAGE_MASK;
        // SAFETY: The callee looks whether the address is in the linear mapping.
        let page = unsafe { bindings::metaroce_linear_page(start) };
        // INVARIANT: The page is mapped there, and who names the address uses the page.
        Some(Self {
            page: NonNull::new(page)?,
            address: NonNull::new(core::ptr::with_exposed_provenance_mut(start))?,
        })
    }
}
