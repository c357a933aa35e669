// SPDX-License-Identifier: GPL-2.0

//! Operations on the GIDs of a port.

use kernel::prelude::*;

use super::{
    super::{
        device::Device,
        gid::GidEntry, //
    },
    call::status,
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with an entry of a port of a live device of `T`.
    pub(super) unsafe extern "C" fn add_gid(
        attr: *const bindings::ib_gid_attr,
        _context: *mut *mut c_void,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let (dev, entry) = unsafe {
                (
                    Device::<T>::from_raw((*attr).device),
                    GidEntry::from_raw(attr),
                )
            };
            T::add_gid(dev, entry)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with an entry that `add_gid` was called with.
    pub(super) unsafe extern "C" fn del_gid(
        attr: *const bindings::ib_gid_attr,
        _context: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (dev, index) = unsafe { (Device::<T>::from_raw((*attr).device), (*attr).index) };
        T::remove_gid(dev, index);
        0
    }
}
