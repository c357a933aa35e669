// SPDX-License-Identifier: GPL-2.0

//! Operations that show objects.

use kernel::prelude::*;

use super::{
    super::{
        object::{
            Mr,
            Qp, //
        },
        restrack::Attributes,
    },
    call::status,
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a live region of `T` and a message that it is building.
    pub(super) unsafe extern "C" fn fill_res_mr_entry(
        msg: *mut bindings::sk_buff,
        mr: *mut bindings::ib_mr,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let mr = unsafe { Mr::<T>::from_raw(mr) };
        // SAFETY: By the requirements of this function.
        status(|| unsafe { Attributes::nest(msg, |attributes| T::fill_mr(mr, attributes)) })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T` and a message that it is building.
    pub(super) unsafe extern "C" fn fill_res_qp_entry(
        msg: *mut bindings::sk_buff,
        qp: *mut bindings::ib_qp,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let qp = unsafe { Qp::<T>::from_raw(qp) };
        // SAFETY: By the requirements of this function.
        status(|| unsafe { Attributes::nest(msg, |attributes| T::fill_qp(qp, attributes)) })
    }
}
