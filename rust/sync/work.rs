// SPDX-License-Identifier: GPL-2.0

//! Workqueues of one's own, and cancelling work.
//!
//! Work items are those of the `kernel` crate: [`kernel::workqueue::Work`] and
//! [`kernel::workqueue::WorkItem`].
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    workqueue::{
        HasWork,
        Queue,
        Work,
        WorkItem, //
    }, //
};

/// A workqueue that is freed when it is dropped.
///
/// It makes progress also when memory is short (`WQ_MEM_RECLAIM`).
///
/// # Invariants
///
/// `raw` is a workqueue that this owns.
pub struct OwnedQueue {
    raw: NonNull<bindings::workqueue_struct>,
}

// SAFETY: Workqueues may be used and destroyed on any thread.
unsafe impl Send for OwnedQueue {}

// SAFETY: Workqueues may be used from several threads at once.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Makes a workqueue whose work runs on the CPU that queued it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &CStr) -> Result<Self> {
        Self::with_flags(name, bindings::wq_flags_WQ_PERCPU)
    }

    /// Makes a workqueue whose work runs where the scheduler likes, at raised priority.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_unbound(name: &CStr) -> Result<Self> {
        Self::with_flags(
            name,
            bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags_WQ_HIGHPRI,
        )
    }

    fn with_flags(name: &CStr, flags: bindings::wq_flags) -> Result<Self> {
        // SAFETY: `name` is a C string; it is copied.
        let raw = unsafe {
            bindings::metaroce_alloc_workqueue(
                name.as_char_ptr(),
                flags | bindings::wq_flags_WQ_MEM_RECLAIM,
            )
        };
        // INVARIANT: The workqueue was just made.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
        })
    }

    /// Waits until all work that is queued by now has run. Process context.
    pub fn flush(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::__flush_workqueue(self.raw.as_ptr()) };
    }
}

impl Deref for OwnedQueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: By the type invariant this is a workqueue, it stays valid while `self` is.
        unsafe { Queue::from_raw(self.raw.as_ptr().cast()) }
    }
}

impl Drop for OwnedQueue {
    /// Waits for all work, also for what that queues.
    fn drop(&mut self) {
        // SAFETY: By the type invariant. What is queued holds no reference to the queue but runs
        // before this returns.
        unsafe { bindings::destroy_workqueue(self.raw.as_ptr()) };
    }
}

/// Returns the work item `ID` of `item`.
fn raw_work<T, const ID: u64>(item: &Arc<T>) -> *mut bindings::work_struct
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    // SAFETY: The pointer is that of a live `T`, so the field is one of a live work item.
    unsafe { Work::raw_get(T::raw_get_work(Arc::as_ptr(item).cast_mut())) }.cast()
}

/// Takes the work item `ID` of `item` off its queue, and waits if it runs.
///
/// It cannot queue itself again meanwhile, others can afterwards. Returns whether it was queued.
/// Process context, and not in the work item itself.
pub fn cancel_sync<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    // SAFETY: The work item is initialised, as it is part of an `Arc`.
    let pending = unsafe { bindings::cancel_work_sync(raw_work::<T, ID>(item)) };
    if pending {
        // SAFETY: A queued work item of an `Arc` owns a reference that came from `into_raw`. It
        // was queued and now will not run, so nobody else drops that reference.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(item)) });
    }
    pending
}

/// Waits until the work item `ID` of `item` has run, if it is queued or runs. Process context.
pub fn flush<T, const ID: u64>(item: &Arc<T>)
where
    T: WorkItem<ID, Pointer = Arc<T>> + HasWork<T, ID>,
{
    // SAFETY: The work item is initialised, as it is part of an `Arc`.
    unsafe { bindings::flush_work(raw_work::<T, ID>(item)) };
}
