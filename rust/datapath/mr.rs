// SPDX-License-Identifier: GPL-2.0

//! Memory regions: user memory, reached by key.

use crate::{
    rdma::umem::Umem,
    sync::id_table::IdTable, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    },
};

/// Access rights, with the values of `enum ib_access_flags`.
pub(crate) mod access {
    pub(crate) const LOCAL_WRITE: u32 = 1 << 0;
    pub(crate) const REMOTE_WRITE: u32 = 1 << 1;
    pub(crate) const REMOTE_READ: u32 = 1 << 2;
    pub(crate) const REMOTE_ATOMIC: u32 = 1 << 3;
    pub(crate) const MW_BIND: u32 = 1 << 4;
    pub(crate) const ZERO_BASED: u32 = 1 << 5;
    pub(crate) const FLUSH_GLOBAL: u32 = 1 << 8;
    pub(crate) const FLUSH_PERSISTENT: u32 = 1 << 9;
}

/// Why memory may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessError {
    /// No region has this key.
    Key,
    /// The region belongs to another protection domain.
    Domain,
    /// The range is not wholly inside the region.
    Bounds,
    /// The region does not allow this use.
    Rights,
    /// The memory is not there now, and is being fetched: to be tried again.
    Absent,
}

impl From<Error> for AccessError {
    /// What went wrong with memory whose range is inside of a region.
    fn from(error: Error) -> Self {
        if error == EAGAIN {
            Self::Absent
        } else {
            Self::Bounds
        }
    }
}

/// Bits of a key that change each time its index is used again.
pub(super) const TAG_BITS: u32 = 8;

/// End of the index parts of memory regions' keys. Those above are for fast registration, then for
/// memory windows.
pub(crate) const MAX_MR: u32 = 1 << (30 - TAG_BITS);

/// In [`Mr::windows`]: the region is going, no window can be bound to it.
const CLOSED: u32 = u32::MAX;

/// A registered memory region.
pub(crate) struct Mr {
    /// lkey and rkey, they are the same number.
    key: Atomic<u32>,
    pd: u32,
    /// Address by which work requests name the first byte.
    va: u64,
    len: u64,
    access: u32,
    umem: Arc<Umem>,
    /// Memory windows that are bound to the region, or [`CLOSED`].
    windows: Atomic<u32>,
}

impl Mr {
    pub(super) fn new(
        key: u32,
        pd: u32,
        umem: Arc<Umem>,
        (va, len): (u64, u64),
        access: u32,
    ) -> Result<Arc<Self>> {
        let mr = Self {
            key: Atomic::new(key),
            pd,
            va,
            len,
            access,
            umem,
            windows: Atomic::new(0),
        };
        Ok(Arc::new(mr, GFP_KERNEL)?)
    }

    /// Returns the number of the region's protection domain.
    pub(crate) fn pd(&self) -> u32 {
        self.pd
    }

    /// Returns the region's lkey, which is its rkey as well.
    pub(crate) fn key(&self) -> u32 {
        self.key.load(Relaxed)
    }

    /// Checks that `len` bytes at `va` may be used with the rights `access` from domain `pd`.
    pub(super) fn check(&self, pd: u32, va: u64, len: u64, access: u32) -> Result<(), AccessError> {
        if self.pd != pd {
            return Err(AccessError::Domain);
        }
        if self.access & access != access {
            return Err(AccessError::Rights);
        }
        self.offset_of(va, len).map(|_| ())
    }

    /// Returns where in the region's memory the `len` bytes at `va` begin.
    ///
    /// Errors: [`AccessError::Bounds`] if they are not all inside.
    pub(crate) fn offset_of(&self, va: u64, len: u64) -> Result<usize, AccessError> {
        let offset = va.checked_sub(self.va).ok_or(AccessError::Bounds)?;
        match offset.checked_add(len) {
            Some(end) if end <= self.len => {
                usize::try_from(offset).map_err(|_| AccessError::Bounds)
            }
            _ => Err(AccessError::Bounds),
        }
    }

    /// Counts one more memory window bound to the region; false if the region is going.
    pub(super) fn bound(&self) -> bool {
        let mut n = self.windows.load(Relaxed);
        while n < CLOSED - 1 {
            match self.windows.cmpxchg(n, n + 1, Full) {
                Ok(_) => return true,
                Err(now) => n = now,
            }
        }
        false
    }

    /// A window that was counted is not bound any more.
    pub(super) fn unbound(&self) {
        self.windows.fetch_sub(1, Full);
    }

    /// Returns how many memory windows are bound to the region.
    pub(crate) fn windows(&self) -> u32 {
        match self.windows.load(Relaxed) {
            CLOSED => 0,
            n => n,
        }
    }

    /// Returns the memory.
    pub(crate) fn memory(&self) -> &Umem {
        &self.umem
    }

    /// Returns what the region consists of: address, length, access rights, memory.
    pub(crate) fn parts(&self) -> (u64, u64, u32, &Arc<Umem>) {
        (self.va, self.len, self.access, &self.umem)
    }
}

/// All memory regions of a device, by the index part of their keys.
pub(crate) struct MrTable {
    pub(super) table: Pin<KBox<IdTable<Mr>>>,
    /// The changing part of the next key.
    tag: Atomic<u32>,
}

impl MrTable {
    /// Makes an empty table.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            table: KBox::pin_init(IdTable::new(), GFP_KERNEL)?,
            tag: Atomic::new(0),
        })
    }

    /// Gives the key of a region to another one: over other memory, or for other uses. Process
    /// context, may sleep. When this returns, nobody uses the old one any more.
    ///
    /// Errors: `EINVAL` while memory windows are bound to the region; `ENOMEM`. The old one stays
    /// then.
    pub(crate) fn reregister(
        &self,
        old: &Mr,
        pd: u32,
        umem: Arc<Umem>,
        (va, len): (u64, u64),
        access: u32,
    ) -> Result<Arc<Mr>> {
        let mr = Mr::new(old.key(), pd, umem, (va, len), access)?;
        old.windows.cmpxchg(0, CLOSED, Full).map_err(|_| EINVAL)?;
        self.table
            .replace(old.key() >> TAG_BITS, mr.clone())
            .inspect_err(|_| old.windows.store(0, Relaxed))?;
        Ok(mr)
    }

    /// Adds a region over `umem` and gives it a key. Process context.
    ///
    /// Errors: `ENOMEM`, `ENOSPC` (or what the table says) when all keys are in use.
    pub(crate) fn register(
        &self,
        pd: u32,
        umem: Arc<Umem>,
        va: u64,
        len: u64,
        access: u32,
    ) -> Result<Arc<Mr>> {
        let mr = Mr::new(0, pd, umem, (va, len), access)?;
        let index = self.table.alloc(1..MAX_MR, mr.clone())?;
        // A stale key misses for the next 255 uses of its index. Until the key is stored, nobody
        // can know it: the lookup compares the whole of it.
        let tag = self.tag.fetch_add(1, Relaxed) & ((1 << TAG_BITS) - 1);
        mr.key.store(index << TAG_BITS | tag, Relaxed);
        Ok(mr)
    }

    /// Takes a region out; when this returns nobody uses it any more. Process context, may sleep.
    ///
    /// Errors: `EINVAL`, as verbs want it, while memory windows are bound to the region.
    pub(crate) fn deregister(&self, mr: &Mr) -> Result {
        mr.windows.cmpxchg(0, CLOSED, Full).map_err(|_| EINVAL)?;
        drop(self.table.remove(mr.key() >> TAG_BITS));
        Ok(())
    }

    /// Returns the region with key `key`. The caller has bottom halves disabled, and drops what
    /// it gets before it enables them: that is what [`Self::deregister`] waits for.
    pub(super) fn lookup(&self, key: u32) -> Option<Arc<Mr>> {
        self.table
            .lookup(key >> TAG_BITS)
            .filter(|mr| mr.key() == key && key != 0)
    }

    /// Calls `f` with each region, until it fails. What comes or goes meanwhile may be visited or
    /// not. Process context, may sleep.
    ///
    /// Errors: what `f` returns.
    pub(crate) fn try_for_each(&self, mut f: impl FnMut(&Mr) -> Result) -> Result {
        let mut result = Ok(());
        self.table.for_each(|_, mr| {
            // One that is just being entered has no key yet.
            if result.is_ok() && mr.key() != 0 {
                result = f(&mr);
            }
        });
        result
    }

    /// Checks that a region as a whole may be used from domain `pd` with the rights `access`.
    pub(super) fn has_rights(&self, pd: u32, key: u32, access: u32) -> Result<(), AccessError> {
        let mr = self.lookup(key).ok_or(AccessError::Key)?;
        mr.check(pd, mr.va, 0, access)
    }

    /// Returns the region with key `key` if `len` bytes at `va` in it may be used from domain
    /// `pd` with the rights `access`. Context as for [`Self::lookup`].
    pub(crate) fn get(
        &self,
        pd: u32,
        key: u32,
        va: u64,
        len: u64,
        access: u32,
    ) -> Result<Arc<Mr>, AccessError> {
        let mr = self.lookup(key).ok_or(AccessError::Key)?;
        mr.check(pd, va, len, access)?;
        Ok(mr)
    }
}
