// SPDX-License-Identifier: GPL-2.0

//! Operations on protection domains.

use kernel::prelude::*;

use super::{
    super::{
        object::Pd,
        udata::UserData, //
    },
    call::status,
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a new domain of `size_ib_pd` bytes.
    pub(super) unsafe extern "C" fn alloc_pd(
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            // SAFETY: ib_core sets the device before.
            let data = T::alloc_pd(unsafe { Self::device(pd) }, udata)?;
            // SAFETY: By the requirements of this function.
            unsafe { Pd::<T>::init(pd, data) };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a domain that nobody uses any more.
    pub(super) unsafe extern "C" fn dealloc_pd(
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            unsafe { Pd::<T>::deinit(pd) };
            Ok(())
        })
    }
}
