// SPDX-License-Identifier: GPL-2.0

//! Mutexes in a `static`.

use core::{
    cell::UnsafeCell,
    mem::MaybeUninit,
    pin::Pin, //
};

use kernel::{
    interrupt::local_interrupt_disable,
    macros::kunit_tests,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        lock::mutex::MutexGuard,
        LockClassKey,
        Mutex, //
    },
};

/// Nobody has locked the mutex yet.
const NEW: u32 = 0;
/// Somebody makes it.
const BUSY: u32 = 1;
/// It is there.
const READY: u32 = 2;

/// A mutex in a `static`, to be had by [`global_mutex!`].
///
/// The first to lock it makes it. So nobody has to see to it that it is initialised before it is
/// used, as with [`kernel::sync::global_lock!`], which cannot do without `unsafe`.
///
/// Its value is never dropped: whoever puts something into it takes that out when the module goes.
///
/// # Invariants
///
/// `state` only goes up, from `NEW` by `BUSY` to `READY`. Only who made it `BUSY` accesses `mutex`
/// before it is `READY`; from then on `mutex` is initialised, and shared.
pub struct GlobalMutex<T> {
    state: Atomic<u32>,
    mutex: UnsafeCell<MaybeUninit<Mutex<T>>>,
    value: fn() -> T,
    name: &'static CStr,
    class: fn() -> Pin<&'static LockClassKey>,
}

// SAFETY: By the type invariant threads share a `Mutex<T>` only, which is `Sync` if `T` is `Send`,
// and functions. The value is made on one thread and used on others, as `Send` allows.
unsafe impl<T: Send> Sync for GlobalMutex<T> {}

impl<T> GlobalMutex<T> {
    /// Makes a mutex of the value that `value` will return. `class` must be its own for each.
    pub const fn new(
        value: fn() -> T,
        name: &'static CStr,
        class: fn() -> Pin<&'static LockClassKey>,
    ) -> Self {
        // INVARIANT: There is no mutex yet.
        Self {
            state: Atomic::new(NEW),
            mutex: UnsafeCell::new(MaybeUninit::uninit()),
            value,
            name,
            class,
        }
    }

    /// Locks the mutex. Process context.
    pub fn lock(&'static self) -> MutexGuard<'static, T> {
        if self.state.load(Acquire) != READY {
            self.init();
        }
        // SAFETY: It is `READY`, here or in `init`, so by the type invariant there is a mutex and
        // nobody has more than a shared reference to it.
        unsafe { (*self.mutex.get()).assume_init_ref() }.lock()
    }

    /// Makes the mutex, or waits for who does. It is `READY` on return.
    #[cold]
    fn init(&'static self) {
        let mutex = Mutex::new((self.value)(), self.name, (self.class)());
        {
            // Who makes it is not preempted while others wait for it.
            let _no_preemption = local_interrupt_disable();
            // INVARIANT: One caller at most gets from `NEW` to `BUSY`.
            if self.state.cmpxchg(NEW, BUSY, Relaxed).is_ok() {
                // SAFETY: By the type invariant nobody else accesses the place, which is valid for
                // writes, and stays where it is: a reference to it is `'static`.
                unsafe { pin_init::raw_init(self.mutex.get().cast::<Mutex<T>>(), mutex) };
                // INVARIANT: It is initialised, and this was the last exclusive access.
                self.state.store(READY, Release);
                return;
            }
        }
        // The other one is on another CPU, and has but a few instructions to go.
        while self.state.load(Acquire) != READY {
            core::hint::spin_loop();
        }
    }
}

/// Defines a `static` [`GlobalMutex`] whose first value is that of the expression.
macro_rules! global_mutex {
    ($(#[$meta:meta])* $vis:vis static $name:ident: $type:ty = $value:expr;) => {
        $(#[$meta])*
        $vis static $name: $crate::sync::global_mutex::GlobalMutex<$type> =
            $crate::sync::global_mutex::GlobalMutex::new(
                || $value,
                ::kernel::c_str!(::core::stringify!($name)),
                || ::kernel::sync::static_lock_class!(),
            );
    };
}
pub(crate) use global_mutex;

#[kunit_tests(metaroce_global_mutex)]
mod tests {
    use super::*;

    global_mutex! {
        static VALUE: u32 = 7;
    }

    #[test]
    fn is_made_once() {
        let first = *VALUE.lock();
        assert!(first >= 7);
        *VALUE.lock() += 1;
        // Who comes to make it when it is there makes none.
        VALUE.init();
        assert_eq!(*VALUE.lock(), first + 1);
    }
}
