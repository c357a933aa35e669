// SPDX-License-Identifier: GPL-2.0

//! What keeps pages of a process where they are.

use super::{
    super::work,
    page::Page, //
};
use core::ptr::NonNull;
use kernel::{
    impl_has_work,
    new_work,
    prelude::*,
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

/// A pin.
#[pin_data(PinnedDrop)]
pub(super) struct Pinned {
    /// # Invariants
    ///
    /// Points to a `struct ib_umem` that this owns.
    raw: NonNull<bindings::ib_umem>,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Pinned { self.work }
}

// SAFETY: A `struct ib_umem` does not depend on the thread that it is used from.
unsafe impl Send for Pinned {}

// SAFETY: There is nothing to do with a shared `Pinned`.
unsafe impl Sync for Pinned {}

impl WorkItem for Pinned {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        drop(this);
    }
}

#[pinned_drop]
impl PinnedDrop for Pinned {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the invariant of `raw` this owns the pin.
        unsafe { bindings::ib_umem_release(self.raw.as_ptr()) };
    }
}

impl Pinned {
    /// Takes over a pin.
    ///
    /// Errors: `ENOMEM`. The pin is released then.
    ///
    /// # Safety
    ///
    /// `raw` must be a live pin that belongs to the caller, who gives it away.
    pub(super) unsafe fn new(raw: NonNull<bindings::ib_umem>) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                // INVARIANT: By the requirements of this function.
                raw,
                work <- new_work!("Umem::work"),
            }),
            GFP_KERNEL,
        )
        .inspect_err(|_| {
            // SAFETY: By the requirements of this function.
            unsafe { bindings::ib_umem_release(raw.as_ptr()) }
        })
    }

    /// Returns the list of the pages of a pin.
    ///
    /// Errors: `ENOMEM`; `EOPNOTSUPP` if the kernel has one not mapped.
    ///
    /// # Safety
    ///
    /// The list must not be used for longer than this lives.
    pub(super) unsafe fn pages(&self) -> Result<KVVec<Page>> {
        let raw = self.raw.as_ptr();
        // SAFETY: By the invariant of `raw`.
        let n = unsafe { bindings::metaroce_ib_umem_num_pages(raw) };
        let mut list: KVVec<*mut bindings::page> =
            KVVec::from_elem(core::ptr::null_mut(), n, GFP_KERNEL)?;
        // SAFETY: `raw` as above, and `list` is valid for writes of `n` pointers.
        let n = unsafe { bindings::metaroce_ib_umem_pages(raw, list.as_mut_ptr(), n) };

        // SAFETY: The pages are pinned as long as this lives, and the list is used no longer, by the
        // requirements of this function.
        unsafe { Page::list(list.get(..n).ok_or(EINVAL)?) }
    }

    /// Drops it where that may sleep. Any context.
    pub(super) fn drop_later(this: Pin<KBox<Self>>) {
        work::queue().enqueue(this);
    }
}
