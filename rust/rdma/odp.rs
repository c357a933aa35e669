// SPDX-License-Identifier: GPL-2.0

//! Memory of processes that is not pinned: on-demand paging.
//!
//! Pages are looked up by whoever needs them, with bottom halves disabled, where nothing can wait
//! for a page that is not there. So a page that is missing is asked for, and a worker fetches it;
//! the user comes back later. When the memory management takes a page away, nobody uses it any more
//! after a grace period of RCU.
//!
//! C header: [`include/rdma/ib_umem_odp.h`](srctree/include/rdma/ib_umem_odp.h)

use core::ptr::NonNull;
use kernel::{
    alloc::KVVec,
    error::from_err_ptr,
    impl_has_work,
    new_condvar,
    new_mutex,
    new_work, //
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        CondVar,
        Mutex, //
    },
    workqueue::{
        Queue,
        Work,
        WorkItem, //
    },
};

use super::{
    device::Device,
    ops::Operations,
    work, //
};
use crate::sync::{
    id_table::synchronize_rcu_expedited,
    lock_bh::{
        new_spinlock_bh,
        SpinLockBh, //
    },
};

/// An entry of a page list: the address of a `struct page`, and these bits; 0 if the page is not
/// there.
const WRITABLE: usize = 1 << 0;
/// There is no such page, as was found out when it was asked for: instead of the address there is
/// when that was, in milliseconds. The process may have changed that since.
const FAULTY: usize = 1 << 1;
/// The page is being taken away.
const LEAVING: usize = 1 << 2;
const FLAGS: usize = WRITABLE | FAULTY | LEAVING;
/// How far the rest is shifted in a [`FAULTY`] entry.
const TIME_SHIFT: u32 = 3;

/// For how long what was found out holds, in milliseconds.
const FAULTY_MS: usize = 1000;

fn now_ms() -> usize {
    // CAST: `usize` is 64 bits wide here.
    (crate::sync::hrtimer::now() / 1_000_000) as usize
}

/// The page of an entry, 0 if there is none.
fn page_of(entry: usize) -> usize {
    match entry & FAULTY {
        0 => entry & !FLAGS,
        _ => 0,
    }
}

/// Requests for pages that wait for the worker. Who finds no room asks again.
const WANTED: usize = 8;

/// Most bytes that are fetched at a time.
const STEP: u64 = 1 << 20;

/// A range of pages that somebody needs.
#[derive(Clone, Copy)]
struct Want {
    /// Addresses in the process.
    start: u64,
    end: u64,
    write: bool,
}

/// A range of a process's memory that is not pinned.
#[pin_data(PinnedDrop)]
pub(super) struct OnDemand {
    /// # Invariants
    ///
    /// Points to a `struct ib_umem_odp` that this owns, of which `private` is null or points to
    /// this.
    raw: NonNull<bindings::ib_umem_odp>,
    /// Address of the first page in the process.
    start: u64,
    /// One entry a page.
    ///
    /// # Invariants
    ///
    /// A page that is found here in an RCU read side section, without [`LEAVING`], stays in the
    /// process for as long as that section lasts.
    pages: KVVec<Atomic<usize>>,
    #[pin]
    wanted: SpinLockBh<[Option<Want>; WANTED]>,
    /// Somebody is fetching: they cannot be two, for ib_core has one list of what it has found.
    #[pin]
    fetching: Mutex<bool>,
    /// Told when nobody is any more.
    #[pin]
    idle: CondVar,
    /// Where the worker runs.
    queue: &'static Queue,
    #[pin]
    work: Work<Self>,
}

// SAFETY: A `struct ib_umem_odp` does not depend on the thread that it is used from.
unsafe impl Send for OnDemand {}

// SAFETY: It has locks of its own for what is done through a shared reference.
unsafe impl Sync for OnDemand {}

impl_has_work! {
    impl HasWork<Self> for OnDemand { self.work }
}

impl WorkItem for OnDemand {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        while let Some(want) = this.next_wanted() {
            // Whoever needs the pages finds out.
            let _ = this.fetch(want);
        }
    }
}

#[pinned_drop]
impl PinnedDrop for OnDemand {
    /// Process context.
    fn drop(self: Pin<&mut Self>) {
        let raw = self.raw.as_ptr();
        // SAFETY: By the invariant of `raw` this owns it. The lock is held where that is needed, and
        // nobody uses pages any more that are found in the list. The last callee waits for callbacks
        // that run.
        unsafe {
            bindings::metaroce_odp_lock(raw);
            Self::forget(&self.pages);
            bindings::metaroce_odp_unlock(raw);
            bindings::metaroce_odp_release(raw);
        }
    }
}

static NOTIFIER: bindings::mmu_interval_notifier_ops = bindings::mmu_interval_notifier_ops {
    invalidate: Some(OnDemand::invalidate),
    ..pin_init::zeroed()
};

impl OnDemand {
    /// Takes note of `len` bytes at `addr` of the current process, whose pages come when they are
    /// needed.
    ///
    /// # Errors
    ///
    /// What ib_core says; `EOPNOTSUPP` if the kernel has no on-demand paging, `ENOMEM`.
    pub(super) fn new<T: Operations>(
        dev: &Device<T>,
        addr: u64,
        len: usize,
        access: u32,
    ) -> Result<Arc<Self>> {
        // SAFETY: Of this device; it is unregistered when its regions are gone, and what is left of
        // them is in the queue.
        let queue = unsafe { work::fetching()? };
        // CAST: Access flags are a bit mask, which C happens to pass as a signed number.
        //
        // SAFETY: `dev` is a live device. The range is checked by the callee.
        let raw = from_err_ptr(unsafe {
            bindings::metaroce_odp_get(
                dev.as_raw(),
                c_ulong::try_from(addr)?,
                len,
                access as c_int,
                &NOTIFIER,
            )
        })?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        // SAFETY: The object was just made.
        let (start, end) = unsafe {
            (
                bindings::metaroce_odp_start(raw.as_ptr()),
                bindings::metaroce_odp_end(raw.as_ptr()),
            )
        };
        let make = || {
            // CAST: `usize` is 64 bits wide here.
            let n = (end - start) as usize / PAGE_SIZE;
            let mut pages = KVVec::with_capacity(n, GFP_KERNEL_ACCOUNT)?;
            for _ in 0..n {
                pages.push(Atomic::new(0), GFP_KERNEL_ACCOUNT)?;
            }
            Arc::pin_init(
                pin_init!(Self {
                    // INVARIANT: The object was just made, and nobody else knows of it.
                    raw,
                    start,
                    pages,
                    wanted <- new_spinlock_bh!([None; WANTED]),
                    fetching <- new_mutex!(false),
                    idle <- new_condvar!(),
                    queue,
                    work <- new_work!("OnDemand::work"),
                }),
                GFP_KERNEL,
            )
        };
        let this = make().inspect_err(|_| {
            // SAFETY: The object was just made, and nobody else knows of it.
            unsafe { bindings::metaroce_odp_release(raw.as_ptr()) }
        })?;
        // INVARIANT: It points to `this`, which is never moved.
        //
        // SAFETY: The callback looks at it under the same lock.
        unsafe {
            bindings::metaroce_odp_lock(raw.as_ptr());
            (*raw.as_ptr()).private = Arc::as_ptr(&this).cast_mut().cast();
            bindings::metaroce_odp_unlock(raw.as_ptr());
        }
        Ok(this)
    }

    /// Returns the page of a number, for reading or writing. The caller has bottom halves disabled,
    /// or is in another RCU read side section, for as long as it uses the page.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the page is not there; `EFAULT` if there is none.
    pub(super) fn page(&self, index: usize, write: bool) -> Result<NonNull<bindings::page>> {
        let slot = self.pages.get(index).ok_or(EFAULT)?;
        let entry = slot.load(Acquire);
        if entry & FAULTY != 0 && now_ms().wrapping_sub(entry >> TIME_SHIFT) < FAULTY_MS {
            return Err(EFAULT);
        }
        if entry & LEAVING != 0 || write && entry & WRITABLE == 0 {
            return Err(EAGAIN);
        }
        let page = core::ptr::with_exposed_provenance_mut(page_of(entry));
        NonNull::new(page).ok_or(EAGAIN)
    }

    /// Has `len` bytes from `offset` in the first page on fetched. Any context but hard interrupts.
    pub(super) fn want(self: &Arc<Self>, offset: usize, len: usize, write: bool) {
        // CAST: `u64` has the bits of `usize`.
        let start = self.start + offset as u64;
        let want = Want {
            start,
            end: start + (len as u64).max(1),
            write,
        };
        {
            let mut wanted = self.wanted.lock();
            let near = wanted
                .iter_mut()
                .flatten()
                .find(|w| w.start <= want.end && want.start <= w.end && w.write == want.write);
            match near {
                Some(w) => {
                    w.start = w.start.min(want.start);
                    w.end = w.end.max(want.end);
                }
                None => {
                    if let Some(free) = wanted.iter_mut().find(|w| w.is_none()) {
                        *free = Some(want);
                    }
                }
            }
        }
        self.enqueue();
    }

    /// Has the worker look. It also drops the last reference, if it comes to that, where that may
    /// sleep.
    pub(super) fn enqueue(self: &Arc<Self>) {
        // If it is queued already, then it has yet to look.
        let _ = self.queue.enqueue(self.clone());
    }

    fn next_wanted(&self) -> Option<Want> {
        self.wanted.lock().iter_mut().find_map(Option::take)
    }

    /// Fetches `len` bytes from `offset` in the first page on. Process context.
    ///
    /// # Errors
    ///
    /// `EFAULT` if they are not all there, or not writable; others if that cannot be said now.
    pub(super) fn prefetch(&self, offset: usize, len: usize, write: bool) -> Result {
        // CAST: `u64` has the bits of `usize`.
        let start = self.start + offset as u64;
        self.fetch(Want {
            start,
            end: start + len as u64,
            write,
        })
    }

    fn fetch(&self, want: Want) -> Result {
        let mut at = want.start;
        while at < want.end {
            let len = (want.end - at).min(STEP - at % STEP);
            if let Err(error) = self.fetch_step(at, len, want.write) {
                // CAST: `usize` is 64 bits wide here, and what is asked for lies inside.
                let index = (at - self.start) as usize / PAGE_SIZE;
                let rest = PAGE_SIZE as u64 - at % PAGE_SIZE as u64;
                if len <= rest {
                    self.fail(index, error);
                    return Err(error);
                }
                // Some of the pages may be there.
                while at < want.end {
                    let rest = PAGE_SIZE as u64 - at % PAGE_SIZE as u64;
                    let len = (want.end - at).min(rest);
                    self.fetch(Want {
                        start: at,
                        end: at + len,
                        write: want.write,
                    })?;
                    at += len;
                }
                return Ok(());
            }
            at += len;
        }
        Ok(())
    }

    /// Fetches the pages of a few bytes, when nobody else does.
    ///
    /// Errors: `ERESTARTSYS` if a signal comes first. A process must not wait for good: it may be
    /// the one that the other waits for.
    fn fetch_step(&self, at: u64, len: u64, write: bool) -> Result {
        {
            let mut fetching = self.fetching.lock();
            while *fetching {
                if self.idle.wait_interruptible(&mut fetching) {
                    return Err(ERESTARTSYS);
                }
            }
            *fetching = true;
        }
        let result = self.fetch_alone(at, len, write);
        *self.fetching.lock() = false;
        self.idle.notify_all();
        result
    }

    fn fetch_alone(&self, at: u64, len: u64, write: bool) -> Result {
        let mut result = Ok(());
        let raw = self.raw.as_ptr();
        // SAFETY: By the invariant of `raw`; the range is checked by the callee.
        let n = unsafe { bindings::metaroce_odp_map_and_lock(raw, at, len, write) };
        if n < 0 {
            return Err(Error::from_errno(n));
        }
        // CAST: As above.
        let first = (at - self.start) as usize / PAGE_SIZE;
        // CAST: As above.
        let last = (at + len - 1 - self.start) as usize / PAGE_SIZE;
        for index in first..=last {
            let mut writable = false;
            // SAFETY: The lock is held, and the callee has checked that the range is inside.
            let page = unsafe { bindings::metaroce_odp_page(raw, index, &raw mut writable) };
            let entry = match page.expose_provenance() {
                0 => {
                    // The process has it, but the kernel does not.
                    result = Err(EFAULT);
                    0
                }
                page if writable => page | WRITABLE,
                page => page,
            };
            if let Some(slot) = self.pages.get(index) {
                // INVARIANT: The page is taken away only after the lock is dropped, by
                // `invalidate`.
                slot.store(entry, Release);
            }
        }
        // SAFETY: Locked above.
        unsafe { bindings::metaroce_odp_unlock(raw) };
        result
    }

    /// Takes note that a page cannot be had, unless it may just be a bad moment.
    fn fail(&self, index: usize, error: Error) {
        if [EBUSY, EAGAIN, ENOMEM, EINTR, ERESTARTSYS].contains(&error) {
            return;
        }
        if let Some(slot) = self.pages.get(index) {
            let old = slot.load(Relaxed);
            if page_of(old) == 0 {
                let _ = slot.cmpxchg(old, now_ms() << TIME_SHIFT | FAULTY, Full);
            }
        }
    }

    /// The memory management takes pages away.
    ///
    /// # Safety
    ///
    /// To be called by the memory management with the notifier of an object of [`OnDemand::new`].
    unsafe extern "C" fn invalidate(
        mni: *mut bindings::mmu_interval_notifier,
        range: *const bindings::mmu_notifier_range,
        seq: c_ulong,
    ) -> bool {
        // SAFETY: By the requirements of this function.
        unsafe {
            if !bindings::metaroce_mmu_range_blockable(range) {
                return false;
            }
            let raw = bindings::metaroce_odp_of(mni);
            bindings::metaroce_odp_lock(raw);
            bindings::metaroce_mmu_interval_set_seq(mni, seq);
            // CAST: `u64` has at least the bits of `c_ulong`.
            let (start, end) = ((*range).start as u64, (*range).end as u64);
            let start = start.max(bindings::metaroce_odp_start(raw));
            let end = end.min(bindings::metaroce_odp_end(raw));
            let this = (*raw).private.cast_const().cast::<Self>();
            if let Some(this) = this.as_ref() {
                this.take_away(start, end);
            }
            bindings::metaroce_odp_unmap(raw, start, end);
            bindings::metaroce_odp_unlock(raw);
        }
        true
    }

    /// Forgets the pages of a range, and waits for their users. The lock is held.
    fn take_away(&self, start: u64, end: u64) {
        // CAST: `usize` is 64 bits wide here, and the range lies inside.
        let range = (start - self.start) as usize / PAGE_SIZE
            ..((end - self.start) as usize).div_ceil(PAGE_SIZE);
        let Some(slots) = self.pages.get(range) else {
            return;
        };
        let mut used = false;
        for slot in slots {
            let entry = slot.load(Relaxed);
            if page_of(entry) != 0 {
                slot.store(entry | LEAVING, Release);
                used = true;
            }
        }
        if !used {
            return;
        }
        synchronize_rcu_expedited();
        // SAFETY: The lock is held, and users have just been waited for.
        unsafe { Self::forget(slots) };
    }

    /// Takes pages out of the list. Those that may have been written to are dirty, which nobody else
    /// knows: the process's page table does not say so, and a clean page may be thrown away.
    ///
    /// # Safety
    ///
    /// The lock must be held, without which the memory management takes no page of the list away,
    /// and nobody must use the pages any more.
    unsafe fn forget(slots: &[Atomic<usize>]) {
        for slot in slots {
            if slot.load(Relaxed) == 0 {
                continue;
            }
            let entry = slot.xchg(0, Full);
            if page_of(entry) != 0 && entry & WRITABLE != 0 {
                // SAFETY: By the requirements of this function the page stays.
                unsafe {
                    bindings::metaroce_page_set_dirty(core::ptr::with_exposed_provenance_mut(
                        page_of(entry),
                    ));
                }
            }
        }
    }
}
