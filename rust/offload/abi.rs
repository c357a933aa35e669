// SPDX-License-Identifier: GPL-2.0

//! Calls of drivers' operations, and the structures that they get.
//!
//! C header: `include/metaroce/offload.h`

use super::{
    nic::Nic,
    objects::{
        NicConn,
        NicCq,
        NicQp, //
    }, //
};
use crate::net::skbuff::RxSkb;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

pub(super) use bindings::{
    metaroce_ofl_conn as RawConn,
    metaroce_ofl_cq as RawCq,
    metaroce_ofl_mr as RawMr,
    metaroce_ofl_plane as RawPlane,
    metaroce_ofl_qp as RawQp,
    metaroce_ofl_qp_attr as RawAttr,
    metaroce_ofl_ring as RawRing,
    metaroce_ofl_stats as RawStats, //
};

/// A structure that drivers see. Who may use it when is said in the header.
#[repr(transparent)]
pub(super) struct Shared<T>(Opaque<T>);

impl<T> Shared<T> {
    pub(super) fn new(raw: T) -> Self {
        Self(Opaque::new(raw))
    }

    pub(super) fn get(&self) -> *mut T {
        self.0.get()
    }
}

// SAFETY: The structures do not depend on the thread they are used from.
unsafe impl<T> Send for Shared<T> {}

// SAFETY: Only a pointer can be got from a shared one.
unsafe impl<T> Sync for Shared<T> {}

/// The operations of a driver.
///
/// # Invariants
///
/// Points to operations of which all that are not optional are there, and which are valid and do
/// not change until the registration has ended.
#[derive(Clone, Copy)]
pub(super) struct Ops(NonNull<bindings::metaroce_ofl_ops>);

// SAFETY: By the type invariant the operations do not change; the interface promises drivers contexts, not
// threads.
unsafe impl Send for Ops {}

// SAFETY: As above.
unsafe impl Sync for Ops {}

/// Calls an operation that is there, by the invariant of [`Ops`], or returns `$none`.
macro_rules! call {
    ($nic:expr, $op:ident($($arg:expr),*), $none:expr) => {{
        let ops: Ops = $nic.ops;
        // SAFETY: By the type invariant of `Ops`.
        match unsafe { (*ops.0.as_ptr()).$op } {
            // SAFETY: The operation is called while the registration lasts and in the context that
            // the header promises, see the callers; its arguments are live objects of the driver's.
            Some(op) => unsafe { op($nic.raw.get() $(, $arg)*) },
            None => $none,
        }
    }};
}

impl Ops {
    /// Takes a driver's operations.
    ///
    /// Errors: `EINVAL` if one is missing.
    ///
    /// # Safety
    ///
    /// `raw` must be valid, and not change, until the registration has ended.
    pub(super) unsafe fn new(raw: *const bindings::metaroce_ofl_ops) -> Result<Self> {
        let raw = NonNull::new(raw.cast_mut()).ok_or(EINVAL)?;
        // SAFETY: By the requirements of this function.
        let ops = unsafe { raw.as_ref() };
        let complete = !ops.name.is_null()
            && ops.mr_add.is_some()
            && ops.mr_del.is_some()
            && ops.cq_add.is_some()
            && ops.cq_del.is_some()
            && ops.conn_add.is_some()
            && ops.conn_set_planes.is_some()
            && ops.conn_del.is_some()
            && ops.qp_add.is_some()
            && ops.qp_modify.is_some()
            && ops.qp_del.is_some()
            && ops.qp_ring.is_some()
            && ops.get_stats.is_some();
        if !complete {
            return Err(EINVAL);
        }
        // INVARIANT: Just checked; the caller promises the rest.
        Ok(Self(raw))
    }

    /// Returns the driver's name.
    pub(super) fn name(&self) -> &CStr {
        // SAFETY: By the type invariant, and the name is a C string.
        unsafe { CStr::from_char_ptr((*self.0.as_ptr()).name) }
    }
}

/// The operations. But for the atomic ones, the caller holds the registration's mutex.
impl Nic {
    pub(super) fn op_mr_add(&self, mr: &RawMr) -> Result {
        to_result(call!(self, mr_add(mr), EOPNOTSUPP.to_errno()))
    }

    pub(super) fn op_mr_del(&self, key: u32) {
        call!(self, mr_del(key), ());
    }

    pub(super) fn op_cq_add(&self, cq: &NicCq) -> Result {
        to_result(call!(self, cq_add(cq.raw.get()), EOPNOTSUPP.to_errno()))
    }

    pub(super) fn op_cq_del(&self, cq: &NicCq) {
        call!(self, cq_del(cq.raw.get()), ());
    }

    pub(super) fn op_conn_add(&self, conn: &NicConn) -> Result {
        to_result(call!(self, conn_add(conn.raw.get()), EOPNOTSUPP.to_errno()))
    }

    pub(super) fn op_conn_set_planes(&self, conn: &NicConn, planes: &[RawPlane]) {
        // CAST: There are a handful.
        let n = planes.len() as u32;
        call!(
            self,
            conn_set_planes(conn.raw.get(), planes.as_ptr(), n),
            ()
        );
    }

    pub(super) fn op_conn_del(&self, conn: &NicConn) {
        call!(self, conn_del(conn.raw.get()), ());
    }

    pub(super) fn op_qp_add(&self, qp: &NicQp) -> Result {
        to_result(call!(self, qp_add(qp.raw.get()), EOPNOTSUPP.to_errno()))
    }

    pub(super) fn op_qp_modify(&self, qp: &NicQp, attr: &RawAttr, mask: u32) -> Result {
        let none = EOPNOTSUPP.to_errno();
        to_result(call!(self, qp_modify(qp.raw.get(), attr, mask), none))
    }

    /// Writes the state of a queue pair to `buf`, and returns its length.
    pub(super) fn op_qp_export(&self, qp: &NicQp, buf: &mut [u8]) -> Result<usize> {
        let none = EOPNOTSUPP.to_errno();
        let (to, size) = (buf.as_mut_ptr().cast(), buf.len());
        let len = call!(self, qp_export(qp.raw.get(), to, size), none);
        to_result(len.min(0))?;
        let len = usize::try_from(len)?;
        if len > size {
            return Err(EINVAL);
        }
        Ok(len)
    }

    pub(super) fn op_qp_del(&self, qp: &NicQp) {
        call!(self, qp_del(qp.raw.get()), ());
    }

    /// Atomic; not after `qp_del`.
    pub(super) fn op_qp_ring(&self, qp: &NicQp) {
        call!(self, qp_ring(qp.raw.get()), ());
    }

    /// Atomic; not after `conn_del`.
    pub(super) fn op_rx(&self, conn: &NicConn, skb: &RxSkb, (off, len): (usize, usize)) {
        let skb = skb.as_raw().as_ptr();
        // CAST: A packet is shorter than 4 GiB.
        let (off, len) = (off as u32, len as u32);
        call!(self, rx(conn.raw.get(), skb, off, len), ());
    }

    pub(super) fn op_get_stats(&self) -> RawStats {
        let mut stats = RawStats::default();
        call!(self, get_stats(&raw mut stats), ());
        stats
    }

    /// Shows the driver that the network device is gone.
    pub(super) fn forget_netdev(&self) {
        // SAFETY: The structure is valid; drivers look at the member in operations only, which the
        // mutex that the caller holds excludes.
        unsafe { (*self.raw.get()).ndev = core::ptr::null_mut() };
    }
}

impl NicConn {
    /// Keeps the planes that the driver was told of. The registration's mutex is held.
    pub(super) fn keep_planes(&self, planes: &[RawPlane]) {
        // SAFETY: The structure is valid; it is used in operations only, which the mutex excludes.
        let raw = unsafe { &mut *self.raw.get() };
        // CAST: There are a handful.
        raw.n_planes = planes.len() as u32;
        for (to, from) in raw.planes.iter_mut().zip(planes) {
            *to = *from;
        }
    }
}

impl NicQp {
    /// What the driver went on from is gone. The registration's mutex is held.
    pub(super) fn forget_state(&self) {
        // SAFETY: The structure is valid; the state is used in `qp_add` only, which has returned.
        let raw = unsafe { &mut *self.raw.get() };
        raw.state = core::ptr::null();
        raw.state_len = 0;
    }

    /// Keeps the attributes that the driver has set. The registration's mutex is held.
    pub(super) fn keep_attr(&self, attr: &RawAttr) {
        // SAFETY: The structure is valid; attributes are used in operations only, which the mutex
        // excludes.
        unsafe { (*self.raw.get()).attr = *attr };
    }
}
