// SPDX-License-Identifier: GPL-2.0

//! Operations on completion queues.

use core::time::Duration;

use kernel::{
    error::from_result,
    prelude::*, //
};

use super::{
    super::{
        object::Cq,
        udata::UserData,
        wc::Completions, //
    },
    call::status,
    Operations,
    VTable, //
};

/// What a completion queue is created with.
#[derive(Clone, Copy, Debug)]
pub struct CqInit {
    /// Number of completions that there must be room for.
    pub entries: u32,
    /// The completion vector.
    pub comp_vector: u32,
    /// Whether completions carry time stamps.
    pub timestamps: bool,
}

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a new queue of `size_ib_cq` bytes; `attrs` is null for users
    /// in the kernel.
    pub(super) unsafe extern "C" fn create_cq(
        cq: *mut bindings::ib_cq,
        attr: *const bindings::ib_cq_init_attr,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        const TIMESTAMPS: u32 =
            bindings::ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;

        status(|| {
            // SAFETY: By the requirements of this function.
            let udata =
                unsafe { UserData::from_raw(bindings::metaroce_uverbs_driver_udata(attrs)) };
            // SAFETY: ib_core sets the device before.
            let dev = unsafe { Self::device(cq) };
            // SAFETY: By the requirements of this function.
            let attr = unsafe { &*attr };
            if attr.flags & !TIMESTAMPS != 0 {
                return Err(EOPNOTSUPP);
            }
            let init = CqInit {
                entries: attr.cqe,
                comp_vector: attr.comp_vector,
                timestamps: attr.flags & TIMESTAMPS != 0,
            };
            // SAFETY: By the requirements of this function; `destroy_cq` ends its reports.
            let entries = unsafe {
                Cq::<T>::init_reporting(cq, |events| {
                    let (data, entries) = T::create_cq(dev, &init, events, udata)?;
                    Ok((data, c_int::try_from(entries)?))
                })
            }?;
            // SAFETY: By the requirements of this function; ib_core reads it after this.
            unsafe { (*cq).cqe = entries };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T` that a process has.
    pub(super) unsafe extern "C" fn resize_user_cq(
        cq: *mut bindings::ib_cq,
        cqe: c_uint,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { Self::user(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, this) = unsafe { Self::object(cq) };
            let entries = c_int::try_from(T::resize_cq(dev, this, cqe, udata)?)?;
            // SAFETY: By the requirements of this function; ib_core reads it after this.
            unsafe { (*cq).cqe = entries };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T`.
    pub(super) unsafe extern "C" fn modify_cq(
        cq: *mut bindings::ib_cq,
        count: u16,
        period: u16,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (dev, cq) = unsafe { Self::object(cq) };
        T::moderate_cq(dev, cq, count, Duration::from_micros(period.into()));
        0
    }

    /// # Safety
    ///
    /// To be called by ib_core with a queue that nobody uses any more.
    pub(super) unsafe extern "C" fn destroy_cq(
        cq: *mut bindings::ib_cq,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, this) = unsafe { Self::object(cq) };
            T::destroy_cq(dev, this);
            // SAFETY: By the requirements of this function.
            unsafe { Cq::<T>::deinit_reporting(cq) };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T`.
    pub(super) unsafe extern "C" fn req_notify_cq(
        cq: *mut bindings::ib_cq,
        flags: bindings::ib_cq_notify_flags,
    ) -> c_int {
        const SOLICITED: u32 = bindings::ib_cq_notify_flags_IB_CQ_SOLICITED;
        const REPORT_MISSED: u32 = bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;

        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, cq) = unsafe { Self::object(cq) };
            let solicited_only =
                flags & bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK == SOLICITED;
            let missed = T::req_notify_cq(dev, cq, solicited_only)?;
            Ok(c_int::from(missed && flags & REPORT_MISSED != 0))
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T` and places for `n` completions.
    pub(super) unsafe extern "C" fn poll_cq(
        cq: *mut bindings::ib_cq,
        n: c_int,
        places: *mut bindings::ib_wc,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, cq) = unsafe { Self::object(cq) };
            // SAFETY: By the requirements of this function.
            let mut places = unsafe { Completions::from_raw(places, usize::try_from(n)?) };
            T::poll_cq(dev, cq, &mut places)?;
            Ok(c_int::try_from(places.filled())?)
        })
    }
}
