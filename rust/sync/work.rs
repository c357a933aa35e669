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
    macros::kunit_tests,
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
/// It makes progress also when memory is short (`WQ_MEM_RECLAIM`), but for [`Self::new_long`].
///
/// # Invariants
///
/// `raw` is a workqueue that this owns.
pub struct OwnedQueue {
    raw: NonNull<bindings::workqueue_struct>,
}

// SAFETY: A workqueue belongs to no thread; any that may sleep can call `destroy_workqueue()`.
unsafe impl Send for OwnedQueue {}

// SAFETY: `queue_work()` takes the locks of the queue by itself.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Makes a workqueue whose work runs on the CPU that queued it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &CStr) -> Result<Self> {
        Self::with_flags(
            name,
            bindings::wq_flags_WQ_PERCPU | bindings::wq_flags_WQ_MEM_RECLAIM,
        )
    }

    /// Makes a workqueue whose work runs where the scheduler likes, at raised priority.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_unbound(name: &CStr) -> Result<Self> {
        Self::with_flags(
            name,
            bindings::wq_flags_WQ_UNBOUND
                | bindings::wq_flags_WQ_HIGHPRI
                | bindings::wq_flags_WQ_MEM_RECLAIM,
        )
    }

    /// Makes a workqueue for work that waits for long, or needs much memory: it runs where the
    /// scheduler likes, and may make no progress when memory is short.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_long(name: &CStr) -> Result<Self> {
        Self::with_flags(name, bindings::wq_flags_WQ_UNBOUND)
    }

    fn with_flags(name: &CStr, flags: bindings::wq_flags) -> Result<Self> {
        // SAFETY: `name` is a C string; it is copied.
        let raw = unsafe { bindings::metaroce_alloc_workqueue(name.as_char_ptr(), flags) };
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

#[kunit_tests(metaroce_work)]
mod tests {
    use super::*;
    use kernel::{
        impl_has_work,
        new_mutex,
        new_work,
        sync::Mutex, //
    };

    /// Counts how often it has run.
    #[pin_data]
    struct Job {
        #[pin]
        runs: Mutex<u32>,
        #[pin]
        work: Work<Self>,
    }

    impl_has_work! {
        impl HasWork<Self> for Job { self.work }
    }

    impl WorkItem for Job {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>) {
            *this.runs.lock() += 1;
        }
    }

    impl Job {
        fn new() -> Result<Arc<Self>> {
            Arc::pin_init(
                pin_init!(Self {
                    runs <- new_mutex!(0),
                    work <- new_work!("Job::work"),
                }),
                GFP_KERNEL,
            )
        }
    }

    #[test]
    fn what_is_queued_runs_once() -> Result {
        for queue in [
            OwnedQueue::new(c"kunit")?,
            OwnedQueue::new_unbound(c"kunit")?,
            OwnedQueue::new_long(c"kunit")?,
        ] {
            let job = Job::new()?;
            assert!(queue.enqueue(job.clone()).is_ok());
            queue.flush();
            assert_eq!(*job.runs.lock(), 1);
            assert!(queue.enqueue(job.clone()).is_ok());
            flush(&job);
            assert_eq!(*job.runs.lock(), 2);
            assert!(queue.enqueue(job.clone()).is_ok());
            drop(queue);
            assert_eq!(*job.runs.lock(), 3);
            assert!(Arc::into_unique_or_drop(job).is_some());
        }
        Ok(())
    }

    #[test]
    fn what_is_cancelled_keeps_no_reference() -> Result {
        let queue = OwnedQueue::new(c"kunit")?;
        let job = Job::new()?;
        assert!(!cancel_sync(&job));
        // Its worker waits for the lock until the other has been cancelled.
        let other = Job::new()?;
        let runs = other.runs.lock();
        assert!(queue.enqueue(other.clone()).is_ok());
        let _ = queue.enqueue(job.clone());
        let cancelled = cancel_sync(&job);
        drop(runs);
        flush(&other);
        assert_eq!(*job.runs.lock(), u32::from(!cancelled));
        assert!(Arc::into_unique_or_drop(job).is_some());
        Ok(())
    }
}
