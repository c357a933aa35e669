// SPDX-License-Identifier: GPL-2.0

//! Operations on multicast groups.

use super::{
    Device,
    Operations,
    Qp,
    VTable, //
};
use crate::rdma::gid::Gid;
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Operations> VTable<T> {
    /// Finds out what is to be added to which group, or taken out of it.
    ///
    /// # Safety
    ///
    /// `qp` is a live queue pair of `T`, `gid` is valid for reads; both for `'a`.
    unsafe fn member<'a>(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
    ) -> (&'a Device<T>, &'a Qp<T>, Gid) {
        // SAFETY: By the requirements of this function.
        unsafe {
            (
                Device::<T>::from_raw((*qp).device),
                Qp::<T>::from_raw(qp),
                Gid::from(&*gid),
            )
        }
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T` and the address of a group, which it
    /// has checked to be one.
    pub(super) unsafe extern "C" fn attach_mcast(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, qp, group) = unsafe { Self::member(qp, gid) };
            T::attach_mcast(dev, qp, group).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// As for [`Self::attach_mcast`].
    pub(super) unsafe extern "C" fn detach_mcast(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, qp, group) = unsafe { Self::member(qp, gid) };
            T::detach_mcast(dev, qp, group).map(|()| 0)
        })
    }
}
