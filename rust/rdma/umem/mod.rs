// SPDX-License-Identifier: GPL-2.0

//! The memory behind memory regions: that of processes, pinned or not, that of dma-bufs, or the
//! kernel's.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

mod access;
mod page;
mod pinned;

use core::ptr::NonNull;

use kernel::{
    page::{
        PAGE_MASK,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::Arc, //
};

use super::{
    dma_buf::DmaBuf,
    odp::OnDemand, //
};
pub use access::Fragment;
use page::Page;
use pinned::Pinned;

/// A range of memory that work requests can name: memory of a process, a dma-buf, or all that the
/// kernel has mapped.
///
/// A process can change its memory at any time, and so can every other user of the range: all
/// access is by copies and atomic operations, never by references.
///
/// Dropping it unpins the pages, or unmaps the dma-buf, by a worker if the context cannot sleep.
pub struct Umem {
    backing: Backing,
    /// Offset of the first byte in its page, or in the dma-buf.
    offset: usize,
    /// Length in bytes.
    len: usize,
}

/// Where the bytes are.
enum Backing {
    /// In memory of a process.
    User {
        pinned: Option<Pin<KBox<Pinned>>>,
        /// One entry a page, from the one that contains the first byte.
        pages: KVVec<Page>,
    },
    /// In memory of a process that is not pinned.
    OnDemand(Option<Arc<OnDemand>>),
    /// In a dma-buf.
    DmaBuf(Option<Pin<KBox<DmaBuf>>>),
    /// Where their offset says, which is the address in the kernel's linear mapping: what
    /// `ib_dma_map_…()` returns for a device without DMA.
    Kernel,
}

/// Where a byte is, and those that follow it.
struct Place {
    /// The page, if it is known, and where in it the byte is.
    page: Option<(Page, usize)>,
    address: NonNull<u8>,
    /// How many bytes of the range follow at this address, counting the byte itself. They are in the
    /// same page, if that is known.
    room: usize,
}

impl Umem {
    /// Takes over a pin of `len` bytes at `addr` of a process.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if the pages are not enough. The pin is released then.
    ///
    /// # Safety
    ///
    /// `raw` must be a live pin that belongs to the caller, who gives it away.
    pub(super) unsafe fn from_pin(
        raw: NonNull<bindings::ib_umem>,
        addr: usize,
        len: usize,
    ) -> Result<Self> {
        // SAFETY: By the requirements of this function.
        let pinned = unsafe { Pinned::new(raw)? };
        // SAFETY: The list goes with the pin.
        let pages = unsafe { pinned.pages()? };
        Self::of_pages(Some(pinned), pages, addr & !PAGE_MASK, len)
    }

    /// Makes the memory of `len` bytes that begin at `offset` in the first of `pages`, which
    /// somebody else keeps pinned. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if the pages are not enough; `EOPNOTSUPP` if the kernel has one not mapped.
    ///
    /// # Safety
    ///
    /// The pointers must be to pages that stay pinned until the memory is dropped.
    pub unsafe fn borrow(pages: &[*mut bindings::page], offset: usize, len: usize) -> Result<Self> {
        // SAFETY: By the requirements of this function.
        Self::of_pages(None, unsafe { Page::list(pages)? }, offset, len)
    }

    fn of_pages(
        pinned: Option<Pin<KBox<Pinned>>>,
        pages: KVVec<Page>,
        offset: usize,
        len: usize,
    ) -> Result<Self> {
        if (pages.len() * PAGE_SIZE)
            .checked_sub(offset)
            .is_none_or(|room| room < len)
        {
            return Err(EINVAL);
        }
        Ok(Self {
            backing: Backing::User { pinned, pages },
            offset,
            len,
        })
    }

    /// Makes memory of a process that is not pinned, `len` bytes that begin at `offset` in a page.
    pub(super) fn of_demand(odp: Arc<OnDemand>, offset: usize, len: usize) -> Self {
        Self {
            backing: Backing::OnDemand(Some(odp)),
            offset,
            len,
        }
    }

    /// Makes the memory of `len` bytes at `offset` in a dma-buf.
    pub(super) fn of_mapped(buf: Pin<KBox<DmaBuf>>, offset: usize, len: usize) -> Self {
        Self {
            backing: Backing::DmaBuf(Some(buf)),
            offset,
            len,
        }
    }

    /// Returns whether the memory is that of a dma-buf.
    pub fn is_dma_buf(&self) -> bool {
        matches!(self.backing, Backing::DmaBuf(_))
    }

    /// Returns whether the memory is not pinned.
    pub fn is_on_demand(&self) -> bool {
        matches!(self.backing, Backing::OnDemand(_))
    }

    /// How much of what will be needed is looked at ahead of that, in bytes.
    pub const AHEAD: usize = 1 << 20;

    /// Has `len` bytes at `off` of memory that is not pinned fetched if one of the first
    /// [`Self::AHEAD`] is not there, for they will be needed. Whoever uses the others finds out what
    /// else is missing. Context as for their use.
    pub fn touch(&self, off: usize, len: usize, write: bool) {
        if !self.is_on_demand() {
            return;
        }
        let mut done = 0;
        while done < len.min(Self::AHEAD) {
            match self.locate(off + done, len - done, write) {
                Ok(place) => done += place.room,
                Err(_) => return,
            }
        }
    }

    /// Fetches `len` bytes at `off` of memory that is not pinned, for reading or writing. Process
    /// context.
    ///
    /// # Errors
    ///
    /// `EFAULT` if they are not all inside, or cannot be had; others if that cannot be said now.
    pub fn prefetch(&self, off: usize, len: usize, write: bool) -> Result {
        if off.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(EFAULT);
        }
        match &self.backing {
            Backing::OnDemand(Some(odp)) => odp.prefetch(self.offset + off, len, write),
            _ => Ok(()),
        }
    }

    /// Returns all memory that the kernel has mapped linearly, where offsets are addresses.
    ///
    /// It is for users in the kernel, who may name any address; one that is not in the linear
    /// mapping is answered with `EFAULT`.
    pub fn kernel() -> Self {
        Self {
            backing: Backing::Kernel,
            offset: 0,
            len: usize::MAX,
        }
    }

    /// Returns the list of the pages, and where in the first the memory begins; [`None`] if this is
    /// the kernel's. They stay pinned while this lives. Process context.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if there is no such list: the memory is not pinned, or that of a dma-buf. `ENOMEM`.
    pub fn raw_pages(&self) -> Result<Option<(KVVec<*mut bindings::page>, usize)>> {
        let pages = match &self.backing {
            Backing::User { pages, .. } => pages,
            Backing::OnDemand(_) | Backing::DmaBuf(_) => return Err(EOPNOTSUPP),
            Backing::Kernel => return Ok(None),
        };
        let mut list = KVVec::with_capacity(pages.len(), GFP_KERNEL)?;
        for page in pages {
            list.push(page.page.as_ptr(), GFP_KERNEL)?;
        }
        Ok(Some((list, self.offset)))
    }

    /// Returns the length in bytes.
    #[expect(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns where the byte at `off` is. `want` is how many are needed in all, should they have to
    /// be fetched.
    ///
    /// Errors: `EFAULT` if there is no such byte, `EAGAIN` if it is not there now.
    fn locate(&self, off: usize, want: usize, write: bool) -> Result<Place> {
        if off >= self.len {
            return Err(EFAULT);
        }
        let at = self.offset.checked_add(off).ok_or(EFAULT)?;
        let page = match &self.backing {
            Backing::User { pages, .. } => *pages.get(at / PAGE_SIZE).ok_or(EFAULT)?,
            Backing::OnDemand(odp) => {
                let odp = odp.as_ref().ok_or(EFAULT)?;
                let page = odp.page(at / PAGE_SIZE, write).inspect_err(|error| {
                    if *error == EAGAIN {
                        odp.want(at, want.min(self.len - off), write);
                    }
                })?;
                // SAFETY: Users have bottom halves disabled, see `on_demand`.
                unsafe { Page::of_process(page) }?
            }
            Backing::DmaBuf(buf) => {
                let (address, room) = buf.as_ref().ok_or(EFAULT)?.at(at)?;
                return Ok(Place {
                    page: None,
                    address,
                    room: room.min(self.len - off),
                });
            }
            Backing::Kernel => Page::of_kernel(at).ok_or(EFAULT)?,
        };
        let in_page = at % PAGE_SIZE;
        Ok(Place {
            page: Some((page, in_page)),
            // SAFETY: By the invariant of `Page` it is mapped as a whole.
            address: unsafe { page.address.add(in_page) },
            room: (PAGE_SIZE - in_page).min(self.len - off),
        })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: Looks at the current context only.
        let may_sleep = unsafe { bindings::metaroce_may_sleep() };
        match &mut self.backing {
            Backing::User { pinned, .. } => {
                if let Some(pinned) = pinned.take().filter(|_| !may_sleep) {
                    Pinned::drop_later(pinned);
                }
            }
            Backing::OnDemand(odp) => {
                if let Some(odp) = odp.take().filter(|_| !may_sleep) {
                    // What is queued has another reference, and drops it where that may sleep.
                    odp.enqueue();
                }
            }
            Backing::DmaBuf(buf) => {
                if let Some(buf) = buf.take().filter(|_| !may_sleep) {
                    DmaBuf::drop_later(buf);
                }
            }
            Backing::Kernel => {}
        }
    }
}
