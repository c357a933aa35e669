// SPDX-License-Identifier: GPL-2.0

//! A spinlock for data that is shared with bottom halves.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

use kernel::{
    bindings::{
        lock_class_key,
        spinlock_t, //
    },
    ffi::c_char,
    sync::lock::{
        Backend,
        Guard,
        Lock, //
    }, //
};

/// Creates a [`SpinLockBh`] initialiser with the given name and a newly-created lock class.
///
/// It uses the name if one is given, otherwise it generates one based on the file name and line
/// number.
macro_rules! new_spinlock_bh {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::lock_bh::SpinLockBh::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub(crate) use new_spinlock_bh;

/// A spinlock whose owner runs with bottom halves disabled.
///
/// It may be acquired in process context and in softirq context, but not in hard interrupts.
/// Instances of [`SpinLockBh`] need a lock class and to be pinned: use [`new_spinlock_bh`].
pub type SpinLockBh<T> = Lock<T, SpinLockBhBackend>;

/// A [`Guard`] acquired from locking a [`SpinLockBh`].
///
/// Bottom halves are disabled while it exists.
pub type SpinLockBhGuard<'a, T> = Guard<'a, T, SpinLockBhBackend>;

/// A kernel `spinlock_t` lock backend that disables bottom halves.
pub struct SpinLockBhBackend;

// SAFETY: The underlying kernel `spinlock_t` object ensures mutual exclusion. `relock` uses the
// default implementation that always calls the same locking method.
unsafe impl Backend for SpinLockBhBackend {
    type State = spinlock_t;
    type GuardState = ();

    #[inline]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut lock_class_key) {
        // SAFETY: The safety requirements ensure that `ptr` is valid for writes, and `name` and
        // `key` are valid for read indefinitely.
        unsafe { kernel::bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The safety requirements of this function ensure that `ptr` points to valid
        // memory, and that it has been initialised before.
        unsafe { bindings::metaroce_spin_lock_bh(ptr.cast()) }
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, _guard_state: &Self::GuardState) {
        // SAFETY: The safety requirements of this function ensure that `ptr` is valid and that the
        // caller is the owner of the spinlock.
        unsafe { bindings::metaroce_spin_unlock_bh(ptr.cast()) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: The `ptr` pointer is guaranteed to be valid and initialized before use.
        let result = unsafe { bindings::metaroce_spin_trylock_bh(ptr.cast()) };

        if result != 0 {
            Some(())
        } else {
            None
        }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The `ptr` pointer is guaranteed to be valid and initialized before use.
        unsafe { kernel::bindings::spin_assert_is_held(ptr) }
    }
}

/// Evidence that bottom halves are disabled on the current CPU.
///
/// # Invariants
///
/// Bottom halves are disabled by this while an instance exists.
pub struct BhDisabled(kernel::types::NotThreadSafe);

impl BhDisabled {
    /// Disables bottom halves until the result is dropped. Not in hard interrupts.
    #[inline]
    pub fn new() -> Self {
        // SAFETY: An FFI call with no additional requirements.
        unsafe { bindings::metaroce_local_bh_disable() };
        // INVARIANT: Bottom halves were just disabled.
        Self(kernel::types::NotThreadSafe)
    }
}

impl Default for BhDisabled {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for BhDisabled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant this undoes a call to `local_bh_disable()`. The type is
        // not `Send`, so it was on the same thread.
        unsafe { bindings::metaroce_local_bh_enable() };
    }
}
