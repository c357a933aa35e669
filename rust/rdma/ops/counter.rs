// SPDX-License-Identifier: GPL-2.0

//! Operations on counters that queue pairs are bound to.
//!
//! ib_core gives memory for a counter, and takes it back without a word to the driver if the first
//! queue pair cannot be bound to it. So the driver's part is made by that binding, and if that fails
//! there is none.

use core::cell::UnsafeCell;

use kernel::prelude::*;

use super::{
    super::{
        object::{
            Counter,
            Qp, //
        },
        stats::{
            self,
            CounterDesc, //
        },
    },
    call::status,
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a new counter of `size_rdma_counter` bytes.
    pub(super) unsafe extern "C" fn counter_init(counter: *mut bindings::rdma_counter) {
        // SAFETY: By the requirements of this function. Nothing is lost if the part is never
        // dropped.
        unsafe { Counter::<T>::init(counter, UnsafeCell::new(None)) };
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    pub(super) unsafe extern "C" fn counter_alloc_stats(
        _counter: *mut bindings::rdma_counter,
    ) -> *mut bindings::rdma_hw_stats {
        // ib_core wants the same counters, by the same indices, as for the port.
        CounterDesc::alloc(T::COUNTERS, T::is_of_qp)
    }

    /// # Safety
    ///
    /// To be called by ib_core with a counter after `counter_init`, whose lock it holds, and a live
    /// queue pair of `T` that is not bound.
    pub(super) unsafe extern "C" fn counter_bind_qp(
        counter: *mut bindings::rdma_counter,
        qp: *mut bindings::ib_qp,
        _port: u32,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let ((dev, this), cell) =
                unsafe { (Self::object(qp), Counter::<T>::from_raw(counter)) };
            // SAFETY: The lock is held, see the invariant of `Counter`.
            let part = unsafe { &mut *cell.get() };
            let data = match part {
                Some(data) => data,
                None => {
                    let (data, id) = T::new_counter(dev)?;
                    // SAFETY: ib_core reads the member after this.
                    unsafe { (*counter).id = id };
                    part.insert(data)
                }
            };
            T::bind_counter(this, Some(data));
            // SAFETY: It is the driver that sets this member, while the lock is held.
            unsafe { (*qp).counter = counter };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T` that is bound to a counter, whose lock
    /// it holds.
    pub(super) unsafe extern "C" fn counter_unbind_qp(
        qp: *mut bindings::ib_qp,
        _port: u32,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        T::bind_counter(unsafe { Qp::<T>::from_raw(qp) }, None);
        // SAFETY: It is the driver that sets this member, while the lock is held.
        unsafe { (*qp).counter = core::ptr::null_mut() };
        0
    }

    /// # Safety
    ///
    /// To be called by ib_core with a counter that a queue pair was bound to, whose lock it holds.
    pub(super) unsafe extern "C" fn counter_update_stats(
        counter: *mut bindings::rdma_counter,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let (cell, values) = unsafe {
                (
                    Counter::<T>::from_raw(counter),
                    stats::values((*counter).stats)?,
                )
            };
            // SAFETY: The lock is held, see the invariant of `Counter`.
            if let Some(data) = unsafe { &*cell.get() } {
                T::counter_values(data, values);
            }
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a counter that nobody uses any more.
    pub(super) unsafe extern "C" fn counter_dealloc(counter: *mut bindings::rdma_counter) -> c_int {
        // SAFETY: By the requirements of this function.
        unsafe { Counter::<T>::deinit(counter) };
        0
    }
}
