// SPDX-License-Identifier: GPL-2.0

//! Counters of a port, for `rdma statistic show` and sysfs, and of a device, for sysfs.

use kernel::{
    prelude::*,
    str::as_char_ptr_in_const_context, //
};

/// Describes a counter.
#[repr(transparent)]
pub struct CounterDesc(bindings::rdma_stat_desc);

// SAFETY: A description does not change, and what it points to is `'static`.
unsafe impl Send for CounterDesc {}

// SAFETY: As above.
unsafe impl Sync for CounterDesc {}

impl CounterDesc {
    /// Describes the counter `name`.
    pub const fn new(name: &'static CStr) -> Self {
        Self(bindings::rdma_stat_desc {
            name: as_char_ptr_in_const_context(name),
            flags: 0,
            priv_: core::ptr::null(),
        })
    }

    /// Describes the counters `names`.
    pub const fn list<const N: usize>(names: &[&'static CStr; N]) -> [Self; N] {
        let mut list = [const { Self::new(c"") }; N];
        let mut i = 0;
        while i < N {
            list[i] = Self::new(names[i]);
            i += 1;
        }
        list
    }

    /// Allocates ib_core's structure for counters, of which `rdma statistic` shows those by an index
    /// that is `shown`.
    ///
    /// Returns null for lack of memory, as ib_core wants it.
    pub(super) fn alloc(
        descs: &'static [Self],
        shown: impl Fn(usize) -> bool,
    ) -> *mut bindings::rdma_hw_stats {
        let Ok(n) = c_int::try_from(descs.len()) else {
            return core::ptr::null_mut();
        };
        // SAFETY: `descs` lives forever and has `n` entries, which are transparent.
        let stats = unsafe {
            bindings::rdma_alloc_hw_stats_struct(
                descs.as_ptr().cast(),
                n,
                // CAST: A small constant.
                bindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as c_ulong,
            )
        };
        if stats.is_null() {
            return stats;
        }
        for i in (0..descs.len()).filter(|&i| !shown(i)) {
            // CAST: `usize` has at least the bits of `u32`.
            let bits = c_ulong::BITS as usize;
            // SAFETY: The structure was just made, nobody else has it yet, and its bitmap has a bit
            // for each of its counters.
            unsafe { *(*stats).is_disabled.add(i / bits) |= 1 << (i % bits) };
        }
        stats
    }
}

/// Borrows the values of the counters.
///
/// # Safety
///
/// `stats` must be from [`CounterDesc::alloc`], and the caller must hold, during `'a`, the lock under
/// which ib_core has it filled: its own for those of a port or device, the counter's for those of a
/// counter.
pub(super) unsafe fn values<'a>(stats: *mut bindings::rdma_hw_stats) -> Result<&'a mut [u64]> {
    // SAFETY: By the requirements of this function.
    let n = usize::try_from(unsafe { (*stats).num_counters })?;
    // SAFETY: The structure ends in that many values.
    Ok(unsafe { core::slice::from_raw_parts_mut((*stats).value.as_mut_ptr(), n) })
}
