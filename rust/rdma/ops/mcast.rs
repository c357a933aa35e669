// SPDX-License-Identifier: GPL-2.0

//! Operations on multicast groups.

use kernel::prelude::*;

use super::{
    super::{
        device::Device,
        gid::Gid,
        object::Qp, //
    },
    call::status,
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// Calls `op` with the queue pair that is to be added to a group, or taken out of it.
    ///
    /// # Safety
    ///
    /// `qp` is a live queue pair of `T`, `gid` is valid for reads.
    unsafe fn of_group(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
        op: fn(&Device<T>, &Qp<T>, Gid) -> Result,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let ((dev, qp), group) = unsafe { (Self::object(qp), Gid::from(&*gid)) };
        status(|| op(dev, qp, group))
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
        // SAFETY: By the requirements of this function.
        unsafe { Self::of_group(qp, gid, T::attach_mcast) }
    }

    /// # Safety
    ///
    /// As for [`Self::attach_mcast`].
    pub(super) unsafe extern "C" fn detach_mcast(
        qp: *mut bindings::ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        unsafe { Self::of_group(qp, gid, T::detach_mcast) }
    }
}
