// SPDX-License-Identifier: GPL-2.0

//! Operations on queue pairs, but for posting to them.

use kernel::prelude::*;

use super::{
    super::{
        object::{
            Cq,
            Pd,
            Qp,
            Srq, //
        },
        qp::{
            AttrMask,
            QpAttr,
            QpCap,
            QpType, //
        },
        udata::UserData,
    },
    call::status,
    Operations,
    VTable, //
};

/// What a queue pair is created with.
pub struct QpInit<'a, T: Operations> {
    /// The service type.
    pub qp_type: QpType,
    /// Sizes that the queues must have.
    pub cap: QpCap,
    /// Where sends complete.
    pub send_cq: Option<&'a Cq<T>>,
    /// Where receives complete.
    pub recv_cq: Option<&'a Cq<T>>,
    /// Where receives are taken from, if not from a queue of the pair's own.
    pub srq: Option<&'a Srq<T>>,
    /// Whether every send makes a completion.
    pub signal_all: bool,
    /// Of the values of `enum ib_qp_create_flags`.
    pub create_flags: u32,
}

/// What a queue pair was created with.
#[derive(Clone, Copy, Debug)]
pub struct QpCreated {
    /// Number of the queue pair, of 24 bits.
    pub qp_num: u32,
    /// Sizes that the queues have.
    pub cap: QpCap,
}

/// What is found out about a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpQueried {
    /// The attributes.
    pub attr: QpAttr,
    /// Whether every send makes a completion.
    pub signal_all: bool,
}

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a new queue pair of `size_ib_qp` bytes.
    pub(super) unsafe extern "C" fn create_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            // SAFETY: ib_core sets device and domain before; types that have no domain of their
            // own (XRC targets) are for users in the kernel.
            let (dev, pd) = unsafe {
                let pd = (*qp).pd;
                if pd.is_null() {
                    return Err(EOPNOTSUPP);
                }
                (Self::device(qp), Pd::<T>::from_raw(pd))
            };
            // SAFETY: By the requirements of this function.
            let attr = unsafe { &mut *attr };
            // SAFETY: A queue that is not null is a live one of the same device.
            let cq = |cq: *mut bindings::ib_cq| unsafe {
                (!cq.is_null()).then(|| Cq::<T>::from_raw(cq))
            };
            let init = QpInit {
                qp_type: attr.qp_type.into(),
                cap: (&attr.cap).into(),
                send_cq: cq(attr.send_cq),
                recv_cq: cq(attr.recv_cq),
                // SAFETY: A queue that is not null is a live one of the same device.
                srq: unsafe { (!attr.srq.is_null()).then(|| Srq::<T>::from_raw(attr.srq)) },
                signal_all: attr.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
                create_flags: attr.create_flags,
            };
            // SAFETY: By the requirements of this function; `destroy_qp` ends its reports.
            let created = unsafe {
                Qp::<T>::init_reporting(qp, |events| T::create_qp(dev, pd, &init, events, udata))
            }?;
            created.cap.fill(&mut attr.cap);
            // SAFETY: By the requirements of this function; ib_core reads it after this.
            unsafe { (*qp).qp_num = created.qp_num };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T`.
    pub(super) unsafe extern "C" fn modify_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        mask: c_int,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, qp) = unsafe { Self::object(qp) };
            let mask = AttrMask::from_raw(mask);
            if !mask.is_standard() {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the requirements of this function; ib_core has resolved the GID.
            let attr = unsafe { QpAttr::from_raw(&*attr, mask) }?;
            T::modify_qp(dev, qp, &attr, mask)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T`.
    pub(super) unsafe extern "C" fn query_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        _mask: c_int,
        init: *mut bindings::ib_qp_init_attr,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            let (dev, this) = unsafe { Self::object(qp) };
            let queried = T::query_qp(dev, this)?;
            // SAFETY: By the requirements of this function; these members of the queue pair do not
            // change after its creation.
            let (attr, init, qp) = unsafe { (&mut *attr, &mut *init, &*qp) };
            queried.attr.fill(attr);
            queried.attr.cap.fill(&mut init.cap);
            init.qp_context = qp.qp_context;
            init.send_cq = qp.send_cq;
            init.recv_cq = qp.recv_cq;
            init.srq = qp.srq;
            init.qp_type = qp.qp_type;
            init.sq_sig_type = if queried.signal_all {
                bindings::ib_sig_type_IB_SIGNAL_ALL_WR
            } else {
                bindings::ib_sig_type_IB_SIGNAL_REQ_WR
            };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a queue pair that nobody uses any more.
    pub(super) unsafe extern "C" fn destroy_qp(
        qp: *mut bindings::ib_qp,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, this) = unsafe { Self::object(qp) };
            // ib_mad destroys its queue pair before its completion queue, and may be busy with a
            // completion, for which it posts a receive in the end: resolving an address takes
            // seconds. It begins with no other any more.
            //
            // SAFETY: By the requirements of this function; ib_mad is not in that work here.
            unsafe {
                if (*qp).qp_type == bindings::ib_qp_type_IB_QPT_GSI {
                    bindings::metaroce_ib_flush_cq((*qp).send_cq);
                    bindings::metaroce_ib_flush_cq((*qp).recv_cq);
                }
            }
            T::destroy_qp(dev, this);
            // SAFETY: By the requirements of this function.
            unsafe { Qp::<T>::deinit_reporting(qp) };
            Ok(())
        })
    }
}
