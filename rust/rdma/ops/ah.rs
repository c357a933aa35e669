// SPDX-License-Identifier: GPL-2.0

//! Operations on address handles.

use kernel::prelude::*;

use super::{
    super::{
        object::{
            Ah,
            Pd, //
        },
        qp::AddressVector,
        udata::UserData,
    },
    call::status,
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a new handle of `size_ib_ah` bytes and attributes whose GID is
    /// resolved; `udata` is null for users in the kernel.
    pub(super) unsafe extern "C" fn create_ah(
        ah: *mut bindings::ib_ah,
        init: *mut bindings::rdma_ah_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            // SAFETY: ib_core sets device and domain before.
            let (dev, pd) = unsafe { (Self::device(ah), Pd::<T>::from_raw((*ah).pd)) };
            // SAFETY: By the requirements of this function.
            let (address, flags) =
                unsafe { (AddressVector::from_raw(&*(*init).ah_attr), (*init).flags) };
            let sleepable = flags & bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0;
            let flags = if sleepable { GFP_KERNEL } else { GFP_ATOMIC };
            let data = T::create_ah(dev, pd, &address, flags, udata)?;
            // SAFETY: By the requirements of this function.
            unsafe { Ah::<T>::init(ah, data) };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live handle of `T` and attributes whose GID is resolved.
    pub(super) unsafe extern "C" fn modify_ah(
        ah: *mut bindings::ib_ah,
        attr: *mut bindings::rdma_ah_attr,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let (this, address) =
                unsafe { (Ah::<T>::from_raw(ah), AddressVector::from_raw(&*attr)) };
            T::modify_ah(this, &address)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live handle of `T` and a place for the attributes.
    pub(super) unsafe extern "C" fn query_ah(
        ah: *mut bindings::ib_ah,
        attr: *mut bindings::rdma_ah_attr,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (this, attr) = unsafe { (Ah::<T>::from_raw(ah), &mut *attr) };
        T::query_ah(this).fill(attr);
        0
    }

    /// # Safety
    ///
    /// To be called by ib_core with a handle that nobody uses any more.
    pub(super) unsafe extern "C" fn destroy_ah(ah: *mut bindings::ib_ah, _flags: u32) -> c_int {
        // SAFETY: By the requirements of this function.
        unsafe { Ah::<T>::deinit(ah) };
        0
    }
}
