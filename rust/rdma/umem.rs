// SPDX-License-Identifier: GPL-2.0

//! The memory behind memory regions: that of processes, pinned or not, that of dma-bufs, or the
//! kernel's.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use core::ptr::NonNull;

use kernel::{
    impl_has_work,
    new_work,
    page::{
        PAGE_MASK,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::Arc,
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use super::{
    dma_buf::DmaBuf,
    odp::OnDemand,
    work, //
};

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

/// A page of memory.
///
/// # Invariants
///
/// The page is mapped in the kernel at `address`; it is pinned, or in use by the user in the kernel
/// who has named it, or stays for as long as its finder has bottom halves disabled.
#[derive(Clone, Copy)]
struct Page {
    page: NonNull<bindings::page>,
    address: NonNull<u8>,
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
    unsafe fn of_process(page: NonNull<bindings::page>) -> Result<Self> {
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
    unsafe fn list(pages: &[*mut bindings::page]) -> Result<KVVec<Self>> {
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
    fn of_kernel(address: usize) -> Option<Self> {
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

/// The pin itself.
#[pin_data(PinnedDrop)]
struct Pinned {
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

/// Where a byte is, and those that follow it.
struct Place {
    /// The page, if it is known, and where in it the byte is.
    page: Option<(Page, usize)>,
    address: NonNull<u8>,
    /// How many bytes of the range follow at this address, counting the byte itself. They are in the
    /// same page, if that is known.
    room: usize,
}

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
        let pinned = KBox::pin_init(
            pin_init!(Pinned {
                // INVARIANT: By the requirements of this function.
                raw,
                work <- new_work!("Umem::work"),
            }),
            GFP_KERNEL,
        )
        .inspect_err(|_| {
            // SAFETY: By the requirements of this function.
            unsafe { bindings::ib_umem_release(raw.as_ptr()) }
        })?;

        let pages = Self::pages(&pinned)?;
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

    /// Returns the list of the pages of a pin.
    fn pages(pinned: &Pinned) -> Result<KVVec<Page>> {
        let raw = pinned.raw.as_ptr();
        // SAFETY: By the invariant of `raw`.
        let n = unsafe { bindings::metaroce_ib_umem_num_pages(raw) };
        let mut list: KVVec<*mut bindings::page> =
            KVVec::from_elem(core::ptr::null_mut(), n, GFP_KERNEL)?;
        // SAFETY: `raw` as above, and `list` is valid for writes of `n` pointers.
        let n = unsafe { bindings::metaroce_ib_umem_pages(raw, list.as_mut_ptr(), n) };

        // SAFETY: The pages are pinned as long as `pinned` lives, which goes with the list.
        unsafe { Page::list(list.get(..n).ok_or(EINVAL)?) }
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
    pub(super) fn for_each_piece(
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

    /// Returns what the CRC32C `crc` becomes when `len` bytes at `off` follow; see
    /// [`crc32c`](crate::net::crc::crc32c).
    ///
    /// # Errors
    ///
    /// `EFAULT` if they are not all inside.
    pub fn crc32c(&self, off: usize, len: usize, mut crc: u32) -> Result<u32> {
        self.for_each_piece(off, len, false, |address, _, n| {
            // SAFETY: `for_each_piece()` gives addresses that are valid for that many bytes.
            // C reads them as the memory of user space that it is, whatever changes meanwhile.
            crc = unsafe { bindings::crc32c(crc, address.cast_const().cast(), n) };
        })?;
        Ok(crc)
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

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: Looks at the current context only.
        let may_sleep = unsafe { bindings::metaroce_may_sleep() };
        match &mut self.backing {
            Backing::User { pinned, .. } => {
                if let Some(pinned) = pinned.take().filter(|_| !may_sleep) {
                    work::queue().enqueue(pinned);
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
