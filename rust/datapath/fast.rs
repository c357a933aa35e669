// SPDX-License-Identifier: GPL-2.0

//! Memory regions that users in the kernel register by work requests (fast registration).
//!
//! Such a user gives the region a list of pages (`ib_map_mr_sg()`), opens it by a work request with
//! the next key, lets its peer use it, and closes it by invalidating the key, locally or from the
//! peer. After that it gives the pages back; so the pages are used only with the region's lock
//! held, and an invalidation waits for who uses them.

use super::{
    memory::Range,
    mr::{
        access,
        AccessError, //
    },
    mw::Bind, //
};
use crate::{
    rdma::umem::Umem,
    sync::{
        id_table::IdTable,
        lock_bh::{
            new_spinlock_bh,
            SpinLockBh, //
        },
    }, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLockIrq, //
    },
};

/// Rights that can be given.
const ACCESS: u32 =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;

/// Bits of a key that its owner chooses.
const TAG_BITS: u32 = 8;

/// Index parts of keys: between those of other regions and those of memory windows.
const INDICES: core::ops::Range<u32> = super::mr::MAX_MR..2 * super::mr::MAX_MR;

/// A list of pages, and what of it is meant.
struct Mapping {
    /// Addresses in the kernel's linear mapping; as many as there is room for.
    pages: KVVec<usize>,
    page_size: u64,
    /// Address by which work requests name the first byte, which is at this address modulo the
    /// size of a page in the first page.
    iova: u64,
    len: u64,
    /// Whether the pages were given since they were last used up.
    fresh: bool,
}

impl Mapping {
    fn new(max_pages: usize) -> Result<Self> {
        Ok(Self {
            pages: KVVec::with_capacity(max_pages, GFP_KERNEL)?,
            page_size: 1,
            iova: 0,
            len: 0,
            fresh: false,
        })
    }
}

struct Inner {
    key: u32,
    /// Rights of the open region; [`None`] while it is closed.
    open: Option<u32>,
    mapping: Mapping,
}

/// A region for fast registration.
#[pin_data]
pub(crate) struct FastMr {
    index: Atomic<u32>,
    pd: u32,
    max_pages: usize,
    /// What the next registration opens. Taken in any context.
    #[pin]
    next: SpinLockIrq<Mapping>,
    #[pin]
    inner: SpinLockBh<Inner>,
}

impl FastMr {
    /// Returns the first key.
    pub(crate) fn key(&self) -> u32 {
        self.index.load(Relaxed) << TAG_BITS
    }

    /// Begins a list of pages of this size. Any context.
    ///
    /// Errors: `EINVAL` if no page is as large.
    pub(crate) fn map_begin(&self, page_size: u32) -> Result {
        if !page_size.is_power_of_two() {
            return Err(EINVAL);
        }
        let mut next = self.next.lock();
        next.pages.clear();
        next.page_size = page_size.into();
        next.fresh = false;
        Ok(())
    }

    /// Adds a page to the list. Any context.
    ///
    /// Errors: `ENOMEM` if the list is full.
    pub(crate) fn map_page(&self, address: u64) -> Result {
        let address = usize::try_from(address)?;
        let mut next = self.next.lock();
        if next.pages.len() >= self.max_pages {
            return Err(ENOMEM);
        }
        next.pages.push_within_capacity(address).map_err(|_| ENOMEM)
    }

    /// Ends the list: `len` bytes are meant. Any context.
    pub(crate) fn map_end(&self, len: u64) {
        let mut next = self.next.lock();
        next.len = len;
        next.fresh = true;
    }
}

impl Inner {
    /// Returns whether `len` bytes at `va` are inside of the open region, and where they begin in
    /// its pages.
    fn locate(&self, range: &Range) -> Result<u64, AccessError> {
        let rights = self.open.ok_or(AccessError::Key)?;
        if rights & range.rights != range.rights {
            return Err(AccessError::Rights);
        }
        let map = &self.mapping;
        let offset = range.va.checked_sub(map.iova).ok_or(AccessError::Bounds)?;
        match offset.checked_add(range.len.into()) {
            Some(end) if end <= map.len => Ok((map.iova & (map.page_size - 1)) + offset),
            _ => Err(AccessError::Bounds),
        }
    }
}

/// All regions of a device for fast registration, by the index part of their keys.
pub(crate) struct FastTable {
    table: Pin<KBox<IdTable<FastMr>>>,
    /// Where the pages are.
    memory: Umem,
}

impl FastTable {
    /// Makes an empty table.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            table: KBox::pin_init(IdTable::new(), GFP_KERNEL)?,
            memory: Umem::kernel(),
        })
    }

    /// Makes a region with room for a list of `max_pages` pages. Process context.
    ///
    /// Errors: `ENOMEM`, or what the table says when all keys are in use.
    pub(crate) fn alloc(&self, pd: u32, max_pages: usize) -> Result<Arc<FastMr>> {
        let (next, mapping) = (Mapping::new(max_pages)?, Mapping::new(max_pages)?);
        let mr = Arc::pin_init(
            pin_init!(FastMr {
                index: Atomic::new(0),
                pd,
                max_pages,
                next <- new_spinlock_irq!(next),
                inner <- new_spinlock_bh!(Inner {
                    key: 0,
                    open: None,
                    mapping,
                }),
            }),
            GFP_KERNEL,
        )?;
        let index = self.table.alloc(INDICES, mr.clone())?;
        mr.index.store(index, Relaxed);
        Ok(mr)
    }

    /// Takes a region out; when this returns nobody uses it any more. Process context, may sleep.
    pub(crate) fn dealloc(&self, mr: &FastMr) {
        drop(self.table.remove(mr.index.load(Relaxed)));
    }

    /// Whether a key is one that such a region can have.
    pub(super) fn owns(key: u32) -> bool {
        INDICES.contains(&(key >> TAG_BITS))
    }

    fn with<R>(&self, key: u32, f: impl FnOnce(&FastMr, &mut Inner) -> R) -> Option<R> {
        let mr = self.table.lookup(key >> TAG_BITS)?;
        let mut inner = mr.inner.lock();
        Some(f(&mr, &mut inner))
    }

    /// Opens the region with the index part of the key `to.rkey`, by that key, with the rights
    /// `to.access` and from the address `to.addr` on, to the pages that were mapped last. Returns whether it could be: it is closed, in domain `pd`,
    /// and pages were mapped since it was last opened. The caller has bottom halves disabled.
    pub(super) fn register(&self, pd: u32, to: &Bind) -> bool {
        let (key, rights) = (to.rkey, to.access);
        self.with(key, |mr, inner| {
            let mut next = mr.next.lock();
            if mr.pd != pd || inner.open.is_some() || !next.fresh || rights & !ACCESS != 0 {
                return false;
            }
            next.fresh = false;
            core::mem::swap(&mut *next, &mut inner.mapping);
            inner.mapping.iova = to.addr;
            inner.key = key;
            inner.open = Some(rights);
            true
        }) == Some(true)
    }

    /// Whether a key can be invalidated from domain `pd`.
    pub(super) fn may_invalidate(&self, pd: u32, key: u32) -> bool {
        self.with(key, |mr, inner| mr.pd == pd && inner.key == key) == Some(true)
    }

    /// Closes a region. Returns whether the key is one that can be invalidated from domain `pd`;
    /// that of a region that was closed before is.
    pub(super) fn invalidate(&self, pd: u32, key: u32) -> bool {
        self.with(key, |mr, inner| {
            let fine = mr.pd == pd && inner.key == key;
            if fine {
                inner.open = None;
            }
            fine
        }) == Some(true)
    }

    /// Calls `f` with each piece of a range, see
    /// [`Endpoint::with_local`](super::endpoint::Endpoint::with_local).
    pub(super) fn with_pieces<E: From<AccessError>>(
        &self,
        pd: u32,
        range: &Range,
        mut f: impl FnMut(&Umem, usize, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        self.with(range.key, |mr, inner| {
            if mr.pd != pd {
                return Err(AccessError::Domain.into());
            }
            if inner.key != range.key {
                return Err(AccessError::Key.into());
            }
            let mut at = inner.locate(range)?;
            let map = &inner.mapping;
            let mut left = u64::from(range.len);
            while left > 0 {
                // CAST: `usize` is 64 bits wide here.
                let page = map
                    .pages
                    .get((at / map.page_size) as usize)
                    .ok_or(AccessError::Bounds)?;
                let in_page = at % map.page_size;
                let n = (map.page_size - in_page).min(left);
                // CAST: As above; the piece is no longer than the range.
                f(&self.memory, page + in_page as usize, n as u32)?;
                at += n;
                left -= n;
            }
            Ok(())
        })
        .unwrap_or(Err(AccessError::Key.into()))
    }
}
