// SPDX-License-Identifier: GPL-2.0

//! Memory shared with a process by mapping it.

use core::ptr::NonNull;

use kernel::{
    error::to_result,
    macros::kunit_tests,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

use super::object::Context;

pub use super::shared_mem::SharedMem;

/// What ib_core keeps for an offset that user space can map.
#[repr(C)]
struct Entry {
    raw: bindings::rdma_user_mmap_entry,
    mem: SharedMem,
}

/// The entries of a user context.
#[pin_data]
pub(super) struct Entries {
    /// [`None`] once the context is gone.
    ///
    /// # Invariants
    ///
    /// The entries in the list are inserted in the context and not removed.
    #[pin]
    list: Mutex<Option<KVec<RawEntry>>>,
}

/// A pointer to the C part of an [`Entry`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct RawEntry(NonNull<bindings::rdma_user_mmap_entry>);

// SAFETY: Entries do not depend on the thread they are used from.
unsafe impl Send for RawEntry {}

// SAFETY: A shared pointer is only compared.
unsafe impl Sync for RawEntry {}

impl Entries {
    /// Makes the empty list of a new context.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                list <- new_mutex!(Some(KVec::new())),
            }),
            GFP_KERNEL,
        )
    }

    /// Removes what is left; the context is going away.
    pub(super) fn close(&self) {
        let list = (*self.list.lock()).take();
        for entry in list.into_iter().flatten() {
            // SAFETY: By the invariant of `list`; nobody else removes the entry any more.
            unsafe { bindings::rdma_user_mmap_entry_remove(entry.0.as_ptr()) };
        }
    }

    /// Removes an entry, unless the context has gone and the entry with it.
    fn remove(&self, entry: RawEntry) {
        let mut list = self.list.lock();
        let Some(at) = (*list)
            .as_ref()
            .and_then(|list| list.iter().position(|e| *e == entry))
        else {
            return;
        };
        if let Some(list) = &mut *list {
            // The index was just found.
            let _ = list.remove(at);
        }
        // SAFETY: By the invariant of `list`, which is locked: the context is still there.
        unsafe { bindings::rdma_user_mmap_entry_remove(entry.0.as_ptr()) };
    }
}

/// Lets a process map a [`SharedMem`]; dropping it ends that, but not the mappings there are.
///
/// It ends with the user context, too.
pub struct MmapEntry {
    entries: Arc<Entries>,
    raw: RawEntry,
    offset: u64,
    size: u64,
}

impl MmapEntry {
    /// Makes `mem` mappable by the process that `context` belongs to.
    pub fn new<D>(context: &Context<D>, mem: SharedMem) -> Result<Self> {
        const_assert!(core::mem::offset_of!(Entry, raw) == 0);

        let entries = context.entries().clone();
        let len = ring::Shared::len(&mem);
        let entry = KBox::new(
            Entry {
                raw: pin_init::zeroed(),
                mem,
            },
            GFP_KERNEL,
        )?;

        let mut guard = entries.list.lock();
        let list = (*guard).as_mut().ok_or(EINVAL)?;
        list.reserve(1, GFP_KERNEL)?;
        let entry = KBox::into_raw(entry);
        // SAFETY: `context` is live, and `entry` is a zeroed entry that lives until `mmap_free`.
        let ret = unsafe {
            bindings::rdma_user_mmap_entry_insert(context.as_raw(), &raw mut (*entry).raw, len)
        };
        if let Err(e) = to_result(ret) {
            // SAFETY: The entry was not inserted, so this is the only pointer to it.
            drop(unsafe { KBox::from_raw(entry) });
            return Err(e);
        }
        // SAFETY: The pointer is from a box, so it is not null.
        let raw = RawEntry(unsafe { NonNull::new_unchecked(entry.cast()) });
        // INVARIANT: Just inserted. There is room.
        let _ = list.push_within_capacity(raw);
        drop(guard);

        Ok(Self {
            // SAFETY: The entry was inserted above.
            offset: unsafe { bindings::metaroce_rdma_user_mmap_get_offset(raw.0.as_ptr()) },
            // CAST: `u64` has at least the bits of `usize`.
            size: len as u64,
            entries,
            raw,
        })
    }

    /// Returns the offset for `mmap()`.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size for `mmap()`.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for MmapEntry {
    fn drop(&mut self) {
        // `mmap_free` frees the entry when the last reference is gone.
        self.entries.remove(self.raw);
    }
}

/// Maps what the offset of `vma` stands for.
///
/// # Safety
///
/// To be called by ib_core's `mmap` operation only, with a live context of a driver whose entries
/// are all [`MmapEntry`]s.
pub(super) unsafe fn mmap(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> Result {
    // SAFETY: By the requirements of this function.
    let entry = unsafe { bindings::rdma_user_mmap_entry_get(context, vma) };
    if entry.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: The entry is that of an `MmapEntry`, and this holds a reference to it.
    let mem = unsafe { (*entry.cast::<Entry>()).mem.clone() };
    // SAFETY: `vma` is being set up by the caller, and the memory is whole pages of that length. Those that are mapped live on when the memory is freed.
    let ret = unsafe {
        bindings::metaroce_map_shared(vma, mem.base().as_ptr().cast(), ring::Shared::len(&mem))
    };
    // SAFETY: Gives up the reference of above.
    unsafe { bindings::rdma_user_mmap_entry_put(entry) };
    to_result(ret)
}

/// Frees an entry that nobody uses any more.
///
/// # Safety
///
/// To be called by ib_core's `mmap_free` operation only, with the entry of an [`MmapEntry`].
pub(super) unsafe fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
    // SAFETY: The entry is at the start of an `Entry` that `MmapEntry::new` leaked, and ib_core
    // calls this once.
    drop(unsafe { KBox::from_raw(entry.cast::<Entry>()) });
}

#[kunit_tests(metaroce_shared_mem)]
mod tests {
    use super::*;
    use ring::Shared;

    #[test]
    fn nothing_outside_is_reached() -> Result {
        let mem = SharedMem::new(5000)?;
        let len = mem.len();
        assert!(len >= 5000);
        let mut buf = [1; 8];
        mem.read(len - 8, &mut buf).ok_or(EINVAL)?;
        // It is zeroed, up to the end.
        assert_eq!(buf, [0; 8]);
        for off in [len - 7, len, usize::MAX - 3, usize::MAX] {
            assert!(mem.read(off, &mut buf).is_none());
            assert!(mem.write(off, &buf).is_none());
        }
        for off in [2, len - 2, len, usize::MAX - 3] {
            assert!(mem.load_acquire(off).is_none());
            assert!(mem.store_release(off, 1).is_none());
        }
        assert!(SharedMem::new(0).is_err());
        assert!(SharedMem::new(usize::MAX).is_err());
        Ok(())
    }

    #[test]
    fn clones_are_the_same_memory() -> Result {
        let mem = SharedMem::new(100)?;
        let same = mem.clone();
        mem.store_release(8, 0x0403_0201).ok_or(EINVAL)?;
        mem.write(12, &[5, 6]).ok_or(EINVAL)?;
        drop(mem);
        let mut buf = [0; 6];
        same.read(8, &mut buf).ok_or(EINVAL)?;
        assert_eq!(buf[..4], 0x0403_0201u32.to_ne_bytes());
        assert_eq!(buf[4..], [5, 6]);
        Ok(())
    }
}
