// SPDX-License-Identifier: GPL-2.0

//! Operations on shared receive queues.

use super::{
    post_list,
    Device,
    Operations,
    Pd,
    RecvRequest,
    Reporting,
    Srq,
    SrqAttr,
    SrqChange,
    UserData,
    VTable, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a new queue of `size_ib_srq` bytes.
    pub(super) unsafe extern "C" fn create_srq(
        srq: *mut bindings::ib_srq,
        init: *mut bindings::ib_srq_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            // SAFETY: ib_core sets device, domain and type before.
            let (dev, pd) = unsafe {
                if (*srq).srq_type != bindings::ib_srq_type_IB_SRQT_BASIC {
                    return Err(EOPNOTSUPP);
                }
                (
                    Device::<T>::from_raw((*srq).device),
                    Pd::<T>::from_raw((*srq).pd),
                )
            };
            // SAFETY: By the requirements of this function.
            let attr = unsafe { &mut (*init).attr };
            let asked = SrqAttr {
                max_wr: attr.max_wr,
                max_sge: attr.max_sge,
                limit: attr.srq_limit,
            };
            // SAFETY: The events are severed below if this fails, otherwise before the queue is
            // freed, in `destroy_srq`.
            let events = unsafe { Srq::<T>::events(srq) }?;
            let (data, got) = T::create_srq(dev, pd, &asked, events.clone(), udata)
                .inspect_err(|_| events.sever())?;
            attr.max_wr = got.max_wr;
            attr.max_sge = got.max_sge;
            // SAFETY: By the requirements of this function.
            unsafe { Srq::<T>::init(srq, Reporting::new(data, events)) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T`.
    pub(super) unsafe extern "C" fn modify_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_attr,
        mask: bindings::ib_srq_attr_mask,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        const MAX_WR: u32 = bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR;
        const LIMIT: u32 = bindings::ib_srq_attr_mask_IB_SRQ_LIMIT;

        from_result(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            if mask & !(MAX_WR | LIMIT) != 0 {
                return Err(EINVAL);
            }
            // SAFETY: By the requirements of this function.
            let (dev, srq, attr) = unsafe {
                (
                    Device::<T>::from_raw((*srq).device),
                    Srq::<T>::from_raw(srq),
                    &*attr,
                )
            };
            let change = SrqChange {
                max_wr: (mask & MAX_WR != 0).then_some(attr.max_wr),
                limit: (mask & LIMIT != 0).then_some(attr.srq_limit),
            };
            T::modify_srq(dev, srq, &change, udata).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T`.
    pub(super) unsafe extern "C" fn query_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, srq, attr) = unsafe {
                (
                    Device::<T>::from_raw((*srq).device),
                    Srq::<T>::from_raw(srq),
                    &mut *attr,
                )
            };
            let queried = T::query_srq(dev, srq)?;
            attr.max_wr = queried.max_wr;
            attr.max_sge = queried.max_sge;
            attr.srq_limit = queried.limit;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a queue that nobody uses any more.
    pub(super) unsafe extern "C" fn destroy_srq(
        srq: *mut bindings::ib_srq,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            unsafe { Srq::<T>::from_raw(srq) }.reporting().sever();
            // SAFETY: By the requirements of this function.
            unsafe { Srq::<T>::deinit(srq) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T`.
    pub(super) unsafe extern "C" fn post_srq_recv(
        srq: *mut bindings::ib_srq,
        wr: *const bindings::ib_recv_wr,
        bad_wr: *mut *const bindings::ib_recv_wr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, this) = unsafe {
                (
                    Device::<T>::from_raw((*srq).device),
                    Srq::<T>::from_raw(srq),
                )
            };
            let post = |wr: &bindings::ib_recv_wr| {
                // SAFETY: The request belongs to a user in the kernel.
                let request = unsafe { RecvRequest::from_raw(wr) };
                T::post_srq_recv(dev, this, &request)
            };
            // SAFETY: By the requirements of this function.
            let result = unsafe { post_list(wr, bad_wr, |wr| wr.next, post) };
            T::posted_srq(dev, this);
            result
        })
    }
}
