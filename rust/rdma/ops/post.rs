// SPDX-License-Identifier: GPL-2.0

//! Operations that post work requests.

use kernel::prelude::*;

use super::{
    super::{
        post::{
            post_list,
            RecvRequest,
            SendRequest, //
        },
        qp::QpType,
    },
    call::status,
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T`.
    pub(super) unsafe extern "C" fn post_send(
        qp: *mut bindings::ib_qp,
        wr: *const bindings::ib_send_wr,
        bad_wr: *mut *const bindings::ib_send_wr,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let (dev, this) = unsafe { Self::object(qp) };
            // User space puts its work into the shared queue, and posts nothing to have it seen.
            if wr.is_null() {
                return T::doorbell(dev, this);
            }
            // SAFETY: By the requirements of this function; the member does not change.
            let is_datagram = matches!(unsafe { (*qp).qp_type }.into(), QpType::Ud | QpType::Gsi);
            let post = |wr: &bindings::ib_send_wr| {
                // SAFETY: The request belongs to a user in the kernel, who makes what its opcode
                // and the queue pair call for, or the driver refuses it without a look.
                let request = unsafe { SendRequest::from_raw(wr, is_datagram) };
                T::post_send(dev, this, &request)
            };
            // SAFETY: By the requirements of this function.
            let result = unsafe { post_list(wr, bad_wr, |wr| wr.next, post) };
            // What came before a bad request is posted.
            T::posted(dev, this);
            result
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T`.
    pub(super) unsafe extern "C" fn post_recv(
        qp: *mut bindings::ib_qp,
        wr: *const bindings::ib_recv_wr,
        bad_wr: *mut *const bindings::ib_recv_wr,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (dev, qp) = unsafe { Self::object(qp) };
        let post = |request: &RecvRequest<'_>| T::post_recv(dev, qp, request);
        // SAFETY: By the requirements of this function.
        unsafe { Self::post_recv_list(wr, bad_wr, post, || T::posted(dev, qp)) }
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T`.
    pub(super) unsafe extern "C" fn post_srq_recv(
        srq: *mut bindings::ib_srq,
        wr: *const bindings::ib_recv_wr,
        bad_wr: *mut *const bindings::ib_recv_wr,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (dev, srq) = unsafe { Self::object(srq) };
        let post = |request: &RecvRequest<'_>| T::post_srq_recv(dev, srq, request);
        // SAFETY: By the requirements of this function.
        unsafe { Self::post_recv_list(wr, bad_wr, post, || T::posted_srq(dev, srq)) }
    }

    /// Calls `post` with each of a list of receives, up to the first that fails, and then `posted`.
    ///
    /// # Safety
    ///
    /// `wr` and `bad_wr` must be those of a verb of a user in the kernel.
    unsafe fn post_recv_list(
        wr: *const bindings::ib_recv_wr,
        bad_wr: *mut *const bindings::ib_recv_wr,
        post: impl Fn(&RecvRequest<'_>) -> Result,
        posted: impl FnOnce(),
    ) -> c_int {
        status(|| {
            let post = |wr: &bindings::ib_recv_wr| {
                // SAFETY: The request belongs to a user in the kernel.
                post(&unsafe { RecvRequest::from_raw(wr) })
            };
            // SAFETY: By the requirements of this function.
            let result = unsafe { post_list(wr, bad_wr, |wr| wr.next, post) };
            posted();
            result
        })
    }
}
