// SPDX-License-Identifier: GPL-2.0

//! Operations on the counters of a device and its port.

use kernel::{
    error::from_result,
    prelude::*, //
};

use super::{
    super::{
        device::Device,
        stats::{
            self,
            CounterDesc, //
        },
    },
    call::check_port,
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core.
    pub(super) unsafe extern "C" fn alloc_hw_port_stats(
        _dev: *mut bindings::ib_device,
        _port: u32,
    ) -> *mut bindings::rdma_hw_stats {
        CounterDesc::alloc(T::COUNTERS, T::is_of_port)
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    pub(super) unsafe extern "C" fn alloc_hw_device_stats(
        _dev: *mut bindings::ib_device,
    ) -> *mut bindings::rdma_hw_stats {
        CounterDesc::alloc(T::DEVICE_COUNTERS, |_| true)
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T` and counters of `alloc_hw_port_stats`, or
    /// for port 0 of `alloc_hw_device_stats`, whose lock it holds.
    pub(super) unsafe extern "C" fn get_hw_stats(
        dev: *mut bindings::ib_device,
        stats: *mut bindings::rdma_hw_stats,
        port: u32,
        _index: c_int,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let dev = unsafe { Device::<T>::from_raw(dev) };
            // SAFETY: By the requirements of this function.
            let values = unsafe { stats::values(stats) }?;
            if port == 0 {
                T::device_counters(dev, values);
            } else {
                check_port(port)?;
                T::counters(dev, values);
            }
            Ok(c_int::try_from(values.len())?)
        })
    }
}
