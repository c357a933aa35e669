// SPDX-License-Identifier: GPL-2.0

//! A table from numbers to reference counted objects, looked up without a shared lock.
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h)

use core::{
    marker::PhantomData,
    mem::align_of,
    ops::Range, //
};
use kernel::{
    error::to_result,
    macros::kunit_tests,
    prelude::*,
    sync::{
        rcu,
        Arc,
        ArcBorrow, //
    },
    types::Opaque, //
};

/// A table from numbers to objects.
///
/// [`lookup`] and [`with`] take no lock and may run in any context; they run concurrently with
/// everything else.
///
/// # Invariants
///
/// - `xa` is set up from the end of the initialiser until the drop.
/// - Every entry of `xa` comes from [`Arc::into_raw`], and the table owns that reference.
/// - The reference of an entry that was in `xa` is dropped after an RCU grace period that began
///   when the entry was not in `xa` any more, or while nobody else can use the table.
///
/// [`lookup`]: IdTable::lookup
/// [`with`]: IdTable::with
#[pin_data(PinnedDrop)]
pub struct IdTable<T: Send + Sync + 'static> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    /// Where the search for a free number begins. Used under the lock of `xa`.
    #[pin]
    next: Opaque<u32>,
    _p: PhantomData<Arc<T>>,
}

// SAFETY: The table hands out and drops `Arc<T>` on any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: Send + Sync + 'static> Send for IdTable<T> {}

// SAFETY: An xarray serialises its changes by its own lock, and readers use RCU.
unsafe impl<T: Send + Sync + 'static> Sync for IdTable<T> {}

impl<T: Send + Sync + 'static> IdTable<T> {
    /// Constructs an initialiser of an empty table.
    pub fn new() -> impl PinInit<Self> {
        Self::starting_at(0)
    }

    /// As [`IdTable::new`]; the first number that [`IdTable::alloc`] returns is `first`, if that is
    /// one of those asked for.
    pub fn starting_at(first: u32) -> impl PinInit<Self> {
        // The low two bits of an entry tell the xarray that it is not a pointer.
        const { assert!(align_of::<T>() >= 4) };

        pin_init!(Self {
            // INVARIANT: Empty, so that there is no entry to say anything of.
            xa <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for writes.
                unsafe { bindings::metaroce_xa_init(slot) }
            }),
            next: Opaque::new(first),
            _p: PhantomData,
        })
    }

    /// Adds `object` by the number `id`. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the number is in use, `ENOMEM`.
    pub fn insert(&self, id: u32, object: Arc<T>) -> Result {
        let entry = Arc::into_raw(object);
        // INVARIANT: If it succeeds, then the reference belongs to the table.
        //
        // SAFETY: By the type invariants the xarray is set up.
        let ret =
            unsafe { bindings::metaroce_xa_insert_bh(self.xa.get(), id, entry.cast_mut().cast()) };
        to_result(ret).inspect_err(|_| {
            // SAFETY: The pointer came from `into_raw`, and the table has not taken it.
            drop(unsafe { Arc::from_raw(entry) });
        })
    }

    /// Adds `object` by a free number out of `ids`, and returns the number. Process context, may
    /// sleep.
    ///
    /// Numbers are used in turn, so that one is not in use again soon.
    ///
    /// # Errors
    ///
    /// `EBUSY` if all numbers are in use, `EINVAL` if `ids` is empty, `ENOMEM`.
    pub fn alloc(&self, ids: Range<u32>, object: Arc<T>) -> Result<u32> {
        if ids.is_empty() {
            return Err(EINVAL);
        }
        let entry = Arc::into_raw(object);
        let mut id = 0;
        // INVARIANT: If it succeeds, then the reference belongs to the table.
        //
        // SAFETY: By the type invariants the xarray is set up. `next` is used by this call only, under
        // the lock of the xarray. `id` is valid for writes.
        let ret = unsafe {
            bindings::metaroce_xa_alloc_cyclic_bh(
                self.xa.get(),
                &raw mut id,
                entry.cast_mut().cast(),
                ids.start,
                ids.end - 1,
                self.next.get(),
            )
        };
        // One says that the numbers wrapped around.
        to_result(ret.min(0)).inspect_err(|_| {
            // SAFETY: The pointer came from `into_raw`, and the table has not taken it.
            drop(unsafe { Arc::from_raw(entry) });
        })?;
        Ok(id)
    }

    /// Calls `f` with the object of number `id`, if there is one.
    ///
    /// `f` runs under the RCU read lock and must not sleep. No reference is taken.
    #[inline]
    pub fn with<R>(&self, id: u32, f: impl FnOnce(ArcBorrow<'_, T>) -> R) -> Option<R> {
        let guard = rcu::read_lock();
        // CAST: `unsigned long` is no narrower than 32 bits; so for all below.
        //
        // SAFETY: By the type invariants the xarray is set up.
        let entry = unsafe { bindings::xa_load(self.xa.get(), id as c_ulong) };
        if entry.is_null() {
            return None;
        }
        // SAFETY: By the type invariants the entry came from `Arc::into_raw`, and the table's
        // reference is dropped only after a grace period that began once the entry could not be
        // found. It was found after `guard` was acquired, so no such grace period ends before
        // `guard` is dropped: until then the table's reference keeps the object alive, and taking
        // another reference from the borrow is fine, the count is not zero. The borrow cannot
        // leave `f`.
        let object = unsafe { ArcBorrow::from_raw(entry.cast_const().cast::<T>()) };
        let ret = f(object);
        drop(guard);
        Some(ret)
    }

    /// Returns the object of number `id`, if there is one. Any context.
    #[inline]
    pub fn lookup(&self, id: u32) -> Option<Arc<T>> {
        self.with(id, |object| object.into())
    }

    /// Puts `object` in the place of the one with number `id`, and returns that after waiting as
    /// [`Self::remove`] does. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT`, and nothing changed, if there is none.
    pub fn replace(&self, id: u32, object: Arc<T>) -> Result<Arc<T>> {
        let entry = Arc::into_raw(object);
        // INVARIANT: If it succeeds, then the reference belongs to the table.
        //
        // SAFETY: By the type invariants the xarray is set up.
        let old =
            unsafe { bindings::metaroce_xa_replace_bh(self.xa.get(), id, entry.cast_mut().cast()) };
        if old.is_null() {
            // SAFETY: The pointer came from `into_raw`, and the table has not taken it.
            drop(unsafe { Arc::from_raw(entry) });
            return Err(ENOENT);
        }
        synchronize_rcu_expedited();
        // INVARIANT: A grace period has passed since the entry was replaced.
        //
        // SAFETY: By the type invariants the entry came from `Arc::into_raw`; the table's
        // reference goes to the caller.
        Ok(unsafe { Arc::from_raw(old.cast_const().cast::<T>()) })
    }

    /// Takes the object of number `id` out, and waits until no user of [`IdTable::with`] has it,
    /// and whoever looked it up with bottom halves disabled has enabled them. Process context.
    pub fn remove(&self, id: u32) -> Option<Arc<T>> {
        // SAFETY: By the type invariants the xarray is set up.
        let entry = unsafe { bindings::metaroce_xa_erase_bh(self.xa.get(), id) };
        if entry.is_null() {
            return None;
        }
        synchronize_rcu_expedited();
        // INVARIANT: A grace period has passed since the entry was erased.
        //
        // SAFETY: By the type invariants the entry came from `Arc::into_raw`; the table's
        // reference goes to the caller.
        Some(unsafe { Arc::from_raw(entry.cast_const().cast::<T>()) })
    }

    /// Calls `f` for every object, in the order of their numbers.
    ///
    /// `f` may sleep if the caller may, and may change the table. What is added or removed
    /// meanwhile may be visited or not.
    pub fn for_each(&self, mut f: impl FnMut(u32, Arc<T>)) {
        let mut next = Some(0u32);
        while let Some((id, object)) = next.and_then(|id| self.find(id)) {
            f(id, object);
            next = id.checked_add(1);
        }
    }

    /// Returns the first object whose number is at least `id`.
    fn find(&self, id: u32) -> Option<(u32, Arc<T>)> {
        let mut index = id as c_ulong;
        let guard = rcu::read_lock();
        // SAFETY: By the type invariants the xarray is set up; `index` is valid for reads and writes.
        let entry = unsafe {
            bindings::metaroce_xa_find(self.xa.get(), &raw mut index, u32::MAX as c_ulong)
        };
        if entry.is_null() {
            return None;
        }
        // SAFETY: As in `with`.
        let object = unsafe { ArcBorrow::from_raw(entry.cast_const().cast::<T>()) };
        let object = Arc::from(object);
        drop(guard);
        Some((u32::try_from(index).ok()?, object))
    }
}

#[pinned_drop]
impl<T: Send + Sync + 'static> PinnedDrop for IdTable<T> {
    fn drop(self: Pin<&mut Self>) {
        while let Some((id, object)) = self.find(0) {
            // SAFETY: By the type invariants the xarray is set up.
            let entry = unsafe { bindings::metaroce_xa_erase_bh(self.xa.get(), id) };
            // INVARIANT: Nobody else can use the table.
            //
            // SAFETY: By the type invariants the entry came from `Arc::into_raw`. It is the one
            // that was found, so it is not null.
            drop(unsafe { Arc::from_raw(entry.cast_const().cast::<T>()) });
            drop(object);
        }
        // SAFETY: By the type invariants the xarray is set up; it is not used hereafter.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}

/// Waits for a grace period without waiting long. Process context.
pub fn synchronize_rcu_expedited() {
    // SAFETY: May be called from process context, as the callers promise; it may only sleep.
    unsafe { bindings::synchronize_rcu_expedited() };
}

#[kunit_tests(metaroce_id_table)]
mod tests {
    use super::*;

    fn table() -> Result<Pin<KBox<IdTable<u64>>>> {
        KBox::pin_init(IdTable::new(), GFP_KERNEL)
    }

    #[test]
    fn numbers_are_used_in_turn() -> Result {
        let table = table()?;
        for id in 5..8 {
            assert_eq!(
                table.alloc(5..8, Arc::new(u64::from(id), GFP_KERNEL)?),
                Ok(id)
            );
        }
        assert_eq!(table.alloc(5..8, Arc::new(0, GFP_KERNEL)?), Err(EBUSY));
        assert_eq!(table.alloc(5..5, Arc::new(0, GFP_KERNEL)?), Err(EINVAL));
        assert_eq!(table.remove(6).map(|object| *object), Some(6));
        assert_eq!(table.remove(5).map(|object| *object), Some(5));
        assert!(table.lookup(6).is_none());
        assert_eq!(table.alloc(5..8, Arc::new(0, GFP_KERNEL)?), Ok(5));
        assert_eq!(table.alloc(5..8, Arc::new(0, GFP_KERNEL)?), Ok(6));
        Ok(())
    }

    #[test]
    fn numbers_start_where_they_are_told_to() -> Result {
        for (first, then) in [(6, [6, 7, 5]), (9, [5, 6, 7])] {
            let table = KBox::pin_init(IdTable::starting_at(first), GFP_KERNEL)?;
            for id in then {
                assert_eq!(table.alloc(5..8, Arc::new(0u64, GFP_KERNEL)?), Ok(id));
            }
        }
        Ok(())
    }

    #[test]
    fn the_table_owns_one_reference() -> Result {
        let table = table()?;
        let object = Arc::new(7, GFP_KERNEL)?;
        table.insert(u32::MAX, object.clone())?;
        assert_eq!(table.insert(u32::MAX, object.clone()), Err(EBUSY));
        let same = table
            .lookup(u32::MAX)
            .is_some_and(|o| Arc::ptr_eq(&o, &object));
        assert!(same);
        let mut visited = 0;
        table.for_each(|id, _| visited += u64::from(id));
        assert_eq!(visited, u64::from(u32::MAX));
        drop(table);
        // Only the last reference makes a unique one.
        assert!(Arc::into_unique_or_drop(object).is_some());
        Ok(())
    }
}
