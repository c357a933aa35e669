// SPDX-License-Identifier: GPL-2.0

//! Counters that every CPU counts for itself.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use core::ptr::NonNull;
use kernel::{
    macros::kunit_tests,
    prelude::*, //
};

/// `N` counters, each one instance a CPU.
///
/// # Invariants
///
/// `raw` is a per-CPU array of `N` numbers that this owns.
pub struct PerCpuCounters<const N: usize> {
    raw: NonNull<u64>,
}

// SAFETY: The allocator of per-CPU memory keeps no owner: what one thread has got another may free.
unsafe impl<const N: usize> Send for PerCpuCounters<N> {}

// SAFETY: Every CPU changes its own instance, by operations that cannot be interrupted half-way;
// summing reads each as a whole.
unsafe impl<const N: usize> Sync for PerCpuCounters<N> {}

impl<const N: usize> PerCpuCounters<N> {
    /// Makes counters that are zero.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        // SAFETY: An FFI call with no additional requirements.
        let raw = unsafe { bindings::metaroce_alloc_percpu_u64(N) };
        // INVARIANT: The array was just allocated.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
        })
    }

    /// Returns the per-CPU address of a counter.
    fn counter(&self, index: usize) -> Option<*mut u64> {
        // `wrapping_add`, because a per-CPU address does not point to an object.
        (index < N).then(|| self.raw.as_ptr().wrapping_add(index))
    }

    /// Adds `n` to the counter `index`. Any context.
    #[inline]
    pub fn add(&self, index: usize, n: u64) {
        if let Some(counter) = self.counter(index) {
            // SAFETY: By the type invariant this is the per-CPU address of a number.
            unsafe { bindings::metaroce_this_cpu_add_u64(counter, n) };
        }
    }

    /// Adds one to the counter `index`. Any context.
    #[inline]
    pub fn inc(&self, index: usize) {
        self.add(index, 1);
    }

    /// Returns the value of the counter `index` over all CPUs, zero if there is no such counter.
    pub fn sum(&self, index: usize) -> u64 {
        self.counter(index).map_or(0, |counter| {
            // SAFETY: By the type invariant this is the per-CPU address of a number.
            unsafe { bindings::metaroce_percpu_sum_u64(counter) }
        })
    }
}

impl<const N: usize> Drop for PerCpuCounters<N> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the memory.
        unsafe { bindings::free_percpu(self.raw.as_ptr().cast()) };
    }
}

#[kunit_tests(metaroce_percpu_counters)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_counts_for_itself() -> Result {
        let counters = PerCpuCounters::<3>::new()?;
        counters.inc(0);
        counters.add(2, u64::MAX);
        counters.add(2, 6);
        counters.inc(3);
        assert_eq!(counters.sum(0), 1);
        assert_eq!(counters.sum(1), 0);
        // They wrap around.
        assert_eq!(counters.sum(2), 5);
        assert_eq!(counters.sum(3), 0);
        Ok(())
    }
}
