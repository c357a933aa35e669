// SPDX-License-Identifier: GPL-2.0

//! Operations on shared receive queues, but for posting to them.

use kernel::prelude::*;

use super::{
    super::{
        object::{
            Pd,
            Srq, //
        },
        udata::UserData,
    },
    call::status,
    Operations,
    VTable, //
};

/// Sizes of a shared receive queue.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs)]
pub struct SrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    /// Fewer receives than this raise an event, once; 0 for none.
    pub limit: u32,
}

/// What is to be changed of a shared receive queue.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs)]
pub struct SrqChange {
    pub max_wr: Option<u32>,
    pub limit: Option<u32>,
}

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a new queue of `size_ib_srq` bytes.
    pub(super) unsafe extern "C" fn create_srq(
        srq: *mut bindings::ib_srq,
        init: *mut bindings::ib_srq_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            // SAFETY: ib_core sets device, domain and type before.
            let (dev, pd) = unsafe {
                if (*srq).srq_type != bindings::ib_srq_type_IB_SRQT_BASIC {
                    return Err(EOPNOTSUPP);
                }
                (Self::device(srq), Pd::<T>::from_raw((*srq).pd))
            };
            // SAFETY: By the requirements of this function.
            let attr = unsafe { &mut (*init).attr };
            let asked = SrqAttr {
                max_wr: attr.max_wr,
                max_sge: attr.max_sge,
                limit: attr.srq_limit,
            };
            // SAFETY: By the requirements of this function; `destroy_srq` ends its reports.
            let got = unsafe {
                Srq::<T>::init_reporting(srq, |events| {
                    T::create_srq(dev, pd, &asked, events, udata)
                })
            }?;
            attr.max_wr = got.max_wr;
            attr.max_sge = got.max_sge;
            Ok(())
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

        status(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            if mask & !(MAX_WR | LIMIT) != 0 {
                return Err(EINVAL);
            }
            // SAFETY: By the requirements of this function.
            let ((dev, srq), attr) = unsafe { (Self::object(srq), &*attr) };
            let change = SrqChange {
                max_wr: (mask & MAX_WR != 0).then_some(attr.max_wr),
                limit: (mask & LIMIT != 0).then_some(attr.srq_limit),
            };
            T::modify_srq(dev, srq, &change, udata)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T`.
    pub(super) unsafe extern "C" fn query_srq(
        srq: *mut bindings::ib_srq,
        attr: *mut bindings::ib_srq_attr,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let ((dev, srq), attr) = unsafe { (Self::object(srq), &mut *attr) };
            let queried = T::query_srq(dev, srq)?;
            attr.max_wr = queried.max_wr;
            attr.max_sge = queried.max_sge;
            attr.srq_limit = queried.limit;
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a queue that nobody uses any more.
    pub(super) unsafe extern "C" fn destroy_srq(
        srq: *mut bindings::ib_srq,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            unsafe { Srq::<T>::deinit_reporting(srq) };
            Ok(())
        })
    }
}
