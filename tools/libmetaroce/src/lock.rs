// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The lock of a queue.

use core::cell::UnsafeCell;
use core::hint;
use core::mem;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Looks at a held lock before its holder is given the CPU.
const SPINS: u32 = 100;

/// A spin lock around a queue.
///
/// Unlike a mutex of the standard library, it can be taken in one verb and given back in another
/// (`ibv_start_poll()` and `ibv_end_poll()`, `ibv_wr_start()` and `ibv_wr_complete()`), and it can
/// be no lock at all, for queues of a thread domain. It is held for the time that a few slots take
/// to be written.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    held: AtomicBool,
    /// The application promises to use the queue in one thread at a time.
    single: bool,
    value: UnsafeCell<T>,
}

// SAFETY: The lock hands the value to one thread at a time, or the application does.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The lock, held until this is dropped.
pub(crate) struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// Makes a lock around `value`. With `single` it does nothing: the application promises to use
    /// the queue in one thread at a time.
    pub(crate) fn new(value: T, single: bool) -> Self {
        Self {
            held: AtomicBool::new(false),
            single,
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard(self)
    }

    /// Goes on with the lock that [`Guard::keep`] kept.
    ///
    /// # Safety
    ///
    /// A guard was kept, by this thread or one that has handed over to it, and was not resumed
    /// since.
    pub(crate) unsafe fn resume(&self) -> Guard<'_, T> {
        Guard(self)
    }

    fn acquire(&self) {
        if self.single {
            return;
        }
        let mut spins = 0;
        while self
            .held
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            if spins < SPINS {
                spins += 1;
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

impl<T> Guard<'_, T> {
    /// Keeps the lock held, see [`Lock::resume`].
    pub(crate) fn keep(self) {
        mem::forget(self);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: The lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: The lock is held.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if !self.0.single {
            self.0.held.store(false, Ordering::Release);
        }
    }
}
