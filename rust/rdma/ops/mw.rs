// SPDX-License-Identifier: GPL-2.0

//! Operations on memory windows.

use kernel::prelude::*;

use super::{
    super::object::{
        Mw,
        Pd, //
    },
    call::status,
    Operations,
    VTable, //
};

/// A type of memory windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MwType {
    /// Bound by a verb.
    One,
    /// Bound and invalidated by work requests.
    Two,
}

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a new window of `size_ib_mw` bytes.
    pub(super) unsafe extern "C" fn alloc_mw(
        mw: *mut bindings::ib_mw,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { Self::user(udata) }?;
            // SAFETY: ib_core sets device, domain and type before.
            let (dev, pd, mw_type) =
                unsafe { (Self::device(mw), Pd::<T>::from_raw((*mw).pd), (*mw).type_) };
            let mw_type = match mw_type {
                bindings::ib_mw_type_IB_MW_TYPE_1 => MwType::One,
                bindings::ib_mw_type_IB_MW_TYPE_2 => MwType::Two,
                _ => return Err(EINVAL),
            };
            let (data, rkey) = T::alloc_mw(dev, pd, mw_type, udata)?;
            // SAFETY: By the requirements of this function.
            unsafe {
                (*mw).rkey = rkey;
                Mw::<T>::init(mw, data);
            }
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a window that nobody uses any more.
    pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut bindings::ib_mw) -> c_int {
        // SAFETY: By the requirements of this function.
        let (dev, this) = unsafe { Self::object(mw) };
        T::dealloc_mw(dev, this);
        // SAFETY: By the requirements of this function.
        unsafe { Mw::<T>::deinit(mw) };
        0
    }
}
