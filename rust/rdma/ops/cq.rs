// SPDX-License-Identifier: GPL-2.0

//! Changes of completion queues.

use super::{
    Cq,
    Device,
    Operations,
    VTable, //
};
use core::time::Duration;
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T` that a process has.
    pub(super) unsafe extern "C" fn resize_user_cq(
        cq: *mut bindings::ib_cq,
        cqe: c_uint,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { Self::user(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, this) =
                unsafe { (Device::<T>::from_raw((*cq).device), Cq::<T>::from_raw(cq)) };
            let entries = c_int::try_from(T::resize_cq(dev, this, cqe, udata)?)?;
            // SAFETY: By the requirements of this function; ib_core reads it after this.
            unsafe { (*cq).cqe = entries };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T`.
    pub(super) unsafe extern "C" fn modify_cq(
        cq: *mut bindings::ib_cq,
        count: u16,
        period: u16,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (dev, this) = unsafe { (Device::<T>::from_raw((*cq).device), Cq::<T>::from_raw(cq)) };
        T::moderate_cq(dev, this, count, Duration::from_micros(period.into()));
        0
    }
}
