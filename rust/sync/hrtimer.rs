// SPDX-License-Identifier: GPL-2.0

//! A timer that may be re-armed from anywhere and stopped for good.
//!
//! The timers of the `kernel` crate are armed once by a handle, and dropping the handle waits for
//! the callback. A protocol re-arms its timers all the time, in bottom halves and in the timer's
//! own callback, where nobody may wait.
//!
//! C header: [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h)

use super::lock_bh::{
    new_spinlock_bh,
    SpinLockBh, //
};
use core::{
    cell::UnsafeCell,
    ptr, //
};
use kernel::{
    container_of,
    macros::kunit_tests,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
    types::Opaque, //
};

/// The value of [`Timer::expires`] while the timer is not armed.
const NEVER: u64 = u64::MAX;

/// Returns the time by which timers go, `CLOCK_MONOTONIC`, in nanoseconds. Any context.
#[inline]
pub fn now() -> u64 {
    // SAFETY: An FFI call with no additional requirements.
    unsafe { bindings::metaroce_ktime_get_ns() }
}

/// The owner of a [`Timer`].
///
/// `ID` tells apart several timers of one owner.
pub trait TimerCallback<const ID: u64 = 0>: Send + Sync {
    /// Called when the timer expired, in softirq context.
    ///
    /// It may arm the timer again. It may run although the timer was meanwhile armed for a later
    /// time, so it should look at its own deadlines.
    fn expired(this: ArcBorrow<'_, Self>);
}

/// What can be done with a timer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It has no owner, and is not armed.
    Detached,
    /// It has an owner.
    Attached,
    /// It is never armed again.
    Stopped,
}

/// A timer in soft mode on `CLOCK_MONOTONIC`.
///
/// Typically a field of the object `T` that lives in an [`Arc`]. The timer does nothing until
/// [`attach`] gives it a reference to the owner. The reference is kept, a cycle if the timer is
/// a field of its owner, until [`stop`] ends the timer for good. An owner that is never stopped is
/// thus leaked, and the callback never sees one that is being destroyed.
///
/// # Invariants
///
/// - `raw` is set up with [`Timer::run`] as its function.
/// - `raw` is queued only in phase [`Phase::Attached`], by someone who holds `phase`.
/// - `owner` is written only by who changes the phase from [`Phase::Detached`], before that, and
///   by who changed it from [`Phase::Attached`], after no callback runs any more. In between it
///   comes from [`Arc::into_raw`] and owns that reference.
///
/// [`attach`]: Timer::attach
/// [`stop`]: Timer::stop
#[pin_data(PinnedDrop)]
pub struct Timer<T: TimerCallback<ID>, const ID: u64 = 0> {
    #[pin]
    raw: Opaque<bindings::hrtimer>,
    #[pin]
    phase: SpinLockBh<Phase>,
    owner: UnsafeCell<*const T>,
    /// When the timer expires, [`NEVER`] if it is not armed. Written by who holds `phase`.
    expires: Atomic<u64>,
}

// SAFETY: What the timer holds is an `Arc<T>`, which it lends to a callback on any CPU; `T` is
// `Send` and `Sync` as the callback demands.
unsafe impl<T: TimerCallback<ID>, const ID: u64> Send for Timer<T, ID> {}

// SAFETY: All methods may be called concurrently: `phase` serialises what changes the timer, and
// the type invariants say who writes `owner`.
unsafe impl<T: TimerCallback<ID>, const ID: u64> Sync for Timer<T, ID> {}

impl<T: TimerCallback<ID>, const ID: u64> Timer<T, ID> {
    /// Constructs a new timer initialiser.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: `run` is the function.
            raw <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for writes, and pinned as long as the timer exists.
                unsafe {
                    bindings::hrtimer_setup(
                        slot,
                        Some(Self::run),
                        // CAST: A small constant, which C names by a signed type.
                        bindings::CLOCK_MONOTONIC as bindings::clockid_t,
                        MODE,
                    )
                }
            }),
            phase <- new_spinlock_bh!(Phase::Detached, "Timer::phase"),
            owner: UnsafeCell::new(ptr::null()),
            expires: Atomic::new(NEVER),
        })
    }

    /// Gives the timer its owner. From now on it can be armed.
    ///
    /// Does nothing but drop `owner` if there is one already, or the timer is stopped.
    pub fn attach(&self, owner: Arc<T>) {
        let mut phase = self.phase.lock();
        if *phase == Phase::Detached {
            // INVARIANT: The phase is about to change from `Detached`, and the lock is held.
            //
            // SAFETY: By the type invariants nobody else writes `owner` now, and nobody reads it:
            // that is for the callback, and the timer was never queued yet.
            unsafe { *self.owner.get() = Arc::into_raw(owner) };
            *phase = Phase::Attached;
        }
    }

    /// Arms the timer for the time `ns`, instead of what it was armed for.
    ///
    /// Does nothing if the timer has no owner or is stopped. Softirq and process context, also
    /// the timer's callback.
    pub fn arm_at(&self, ns: u64) {
        let phase = self.phase.lock();
        if *phase == Phase::Attached {
            self.start(ns);
        }
    }

    /// Sees to it that the callback runs at `ns` or earlier.
    ///
    /// Costs next to nothing if the timer is armed for an earlier time; then it fires early.
    /// Otherwise as [`Timer::arm_at`].
    ///
    /// A caller whose deadline is protected by a lock, which the callback takes before it looks at
    /// the deadline, may call this with or without the lock, but after changing the deadline: if
    /// the callback is about to run just now, then it sees the change.
    pub fn arm_by(&self, ns: u64) {
        if self.expires.load(Relaxed) <= ns {
            return;
        }
        let phase = self.phase.lock();
        if *phase == Phase::Attached && self.expires.load(Relaxed) > ns {
            self.start(ns);
        }
    }

    /// Queues the timer; the caller holds `phase`, and the phase is [`Phase::Attached`].
    fn start(&self, ns: u64) {
        let ns = ns.min(i64::MAX.unsigned_abs());
        self.expires.store(ns, Relaxed);
        // SAFETY: The timer is set up. It stays where it is until it is dropped, and that waits
        // until the timer is neither queued nor running. `hrtimer_start_range_ns()` may be called
        // for a timer that is queued or whose callback runs.
        //
        // CAST: Limited just above.
        unsafe {
            bindings::hrtimer_start_range_ns(self.raw.get(), ns as bindings::ktime_t, 0, MODE)
        };
    }

    /// Returns whether the timer is armed.
    pub fn is_armed(&self) -> bool {
        self.expires.load(Relaxed) != NEVER
    }

    /// Disarms the timer, and waits until its callback does not run.
    ///
    /// It can be armed again, and may be at once if others do so. Process context. The caller
    /// holds no lock that the callback takes, and is not the callback.
    pub fn cancel_sync(&self) {
        // SAFETY: The timer is set up.
        unsafe { bindings::hrtimer_cancel(self.raw.get()) };
        self.disarmed();
    }

    /// Takes note that the timer is not queued, unless someone has queued it.
    fn disarmed(&self) {
        let _phase = self.phase.lock();
        // SAFETY: The timer is set up. Nobody queues it while the lock is held.
        if !unsafe { bindings::metaroce_hrtimer_is_queued(self.raw.get()) } {
            self.expires.store(NEVER, Relaxed);
        }
    }

    /// Ends the timer for good, waits until its callback does not run, and drops the reference to
    /// the owner.
    ///
    /// Context as for [`Timer::cancel_sync`]. May be called several times.
    pub fn stop(&self) {
        let phase = {
            let mut phase = self.phase.lock();
            core::mem::replace(&mut *phase, Phase::Stopped)
        };
        // Nobody arms it from here on: who does so holds the lock and looks at the phase first.
        self.cancel_sync();
        if phase == Phase::Attached {
            // INVARIANT: This changed the phase from `Attached`, and no callback runs any more.
            //
            // SAFETY: By the type invariants `owner` came from `Arc::into_raw` and nobody else
            // reads or writes it now.
            let owner = unsafe {
                let owner = ptr::replace(self.owner.get(), ptr::null());
                Arc::from_raw(owner)
            };
            drop(owner);
        }
    }

    /// The function of the timer.
    ///
    /// # Safety
    ///
    /// `raw` must be the `raw` of a `Timer<T, ID>` that was queued.
    unsafe extern "C" fn run(raw: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        let raw = Opaque::cast_from(raw).cast_mut();
        // SAFETY: By the safety requirements of this function.
        let this = unsafe { &*container_of!(raw, Self, raw) };

        this.disarmed();
        // SAFETY: The timer was queued, so in phase `Attached`, and `owner` does not change until
        // the callback is done. It owns a reference, which thus outlives the borrow.
        let owner = unsafe { ArcBorrow::from_raw(*this.owner.get()) };
        T::expired(owner);
        // Who wants it to run again has queued it.
        bindings::hrtimer_restart_HRTIMER_NORESTART
    }
}

/// Expiry is an absolute time, on the CPU that armed the timer, in softirq context.
const MODE: bindings::hrtimer_mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_PINNED_SOFT;

#[pinned_drop]
impl<T: TimerCallback<ID>, const ID: u64> PinnedDrop for Timer<T, ID> {
    fn drop(self: Pin<&mut Self>) {
        // If the timer is a field of its owner, then it was never attached or it is stopped.
        self.stop();
    }
}

#[kunit_tests(metaroce_hrtimer)]
mod tests {
    use super::*;
    use kernel::time::{
        delay::fsleep,
        Delta, //
    };

    #[pin_data]
    struct Ticker {
        #[pin]
        timer: Timer<Self>,
        ticks: Atomic<u32>,
    }

    impl TimerCallback for Ticker {
        fn expired(this: ArcBorrow<'_, Self>) {
            this.ticks.add(1, Relaxed);
            this.timer.arm_at(now());
        }
    }

    #[test]
    fn runs_again_until_stopped() -> Result {
        let ticker = Arc::pin_init(
            pin_init!(Ticker {
                timer <- Timer::new(),
                ticks: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?;
        ticker.timer.arm_at(0);
        assert!(!ticker.timer.is_armed());

        ticker.timer.attach(ticker.clone());
        ticker.timer.arm_at(NEVER);
        ticker.timer.arm_by(0);
        fsleep(Delta::from_millis(50));
        assert!(ticker.ticks.load(Relaxed) > 1);

        ticker.timer.stop();
        ticker.timer.arm_at(0);
        ticker.timer.arm_by(0);
        let ticks = ticker.ticks.load(Relaxed);
        fsleep(Delta::from_millis(10));
        assert_eq!(ticker.ticks.load(Relaxed), ticks);
        assert!(!ticker.timer.is_armed());
        // The timer has let go of its owner.
        assert!(Arc::into_unique_or_drop(ticker).is_some());
        Ok(())
    }
}
