// SPDX-License-Identifier: GPL-2.0

//! The interface with the core. All `unsafe` of this module is here, but for two calls that prepare
//! statics.
//!
//! C header: `include/metaroce/offload.h`

use super::codec::{
    self,
    Codec,
    Operation,
    Public, //
};
use crate::net::netdev::NetDevice;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        from_result, //
    },
    prelude::*,
};

/// `struct metaroce_ofl_caps`.
pub(crate) type Caps = bindings::metaroce_ofl_caps;

type Ofl = bindings::metaroce_ofl;

/// What the firmware understands.
static CODEC: Public = Public;

/// A registration, which ends when this is dropped. Process context, the RTNL is not held then.
///
/// # Invariants
///
/// `ofl` is a registration that this owns.
pub(crate) struct Registration {
    ofl: NonNull<Ofl>,
}

// SAFETY: Registrations may be used and ended on any thread.
unsafe impl Send for Registration {}

// SAFETY: As above.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers for a network device. Process context, with or without the RTNL.
    ///
    /// Errors: as `metaroce_ofl_register()`.
    pub(crate) fn new(ndev: &NetDevice) -> Result<Self> {
        let caps = CODEC.caps();
        // SAFETY: `ndev` is live; the operations are static.
        let ofl = from_err_ptr(unsafe {
            bindings::metaroce_ofl_register(ndev.as_raw(), &OPS.0, &caps, ptr::null_mut())
        })?;
        // INVARIANT: Just made.
        Ok(Self {
            ofl: NonNull::new(ofl).ok_or(EINVAL)?,
        })
    }

    /// The firmware stands still. Any context but NMI.
    pub(crate) fn fault(&self, why: &CStr) {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_ofl_fault(self.ofl.as_ptr(), why.as_char_ptr()) };
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_ofl_unregister(self.ofl.as_ptr()) };
    }
}

struct Table(bindings::metaroce_ofl_ops);

// SAFETY: The operations may be called on any thread, and nothing changes them.
unsafe impl Sync for Table {}

static OPS: Table = Table(bindings::metaroce_ofl_ops {
    name: c"metaroce_ionic".to_bytes_with_nul().as_ptr(),
    mr_add: Some(mr_add),
    mr_del: Some(mr_del),
    cq_add: Some(cq_add),
    cq_del: Some(cq_del),
    conn_add: Some(conn_add),
    conn_set_planes: Some(conn_set_planes),
    conn_del: Some(conn_del),
    qp_add: Some(qp_add),
    qp_modify: Some(qp_modify),
    qp_del: Some(qp_del),
    qp_export: None,
    qp_ring: Some(qp_ring),
    // The NIC's filters would bring the packets.
    rx: None,
    get_stats: Some(get_stats),
});

fn attempt(operation: Operation) -> c_int {
    from_result(|| {
        codec::carry_out(&CODEC, operation)?;
        Ok(0)
    })
}

extern "C" fn mr_add(_ofl: *mut Ofl, _mr: *const bindings::metaroce_ofl_mr) -> c_int {
    attempt(Operation::MrAdd)
}

extern "C" fn cq_add(_ofl: *mut Ofl, _cq: *mut bindings::metaroce_ofl_cq) -> c_int {
    attempt(Operation::CqAdd)
}

extern "C" fn conn_add(_ofl: *mut Ofl, _conn: *mut bindings::metaroce_ofl_conn) -> c_int {
    attempt(Operation::ConnAdd)
}

extern "C" fn qp_add(_ofl: *mut Ofl, _qp: *mut bindings::metaroce_ofl_qp) -> c_int {
    attempt(Operation::QpAdd)
}

extern "C" fn qp_modify(
    _ofl: *mut Ofl,
    _qp: *mut bindings::metaroce_ofl_qp,
    _attr: *const bindings::metaroce_ofl_qp_attr,
    _mask: u32,
) -> c_int {
    attempt(Operation::QpModify)
}

// Nothing was added, so there is nothing for the rest to do.

extern "C" fn mr_del(_ofl: *mut Ofl, _key: u32) {}

extern "C" fn cq_del(_ofl: *mut Ofl, _cq: *mut bindings::metaroce_ofl_cq) {}

extern "C" fn conn_set_planes(
    _ofl: *mut Ofl,
    _conn: *mut bindings::metaroce_ofl_conn,
    _planes: *const bindings::metaroce_ofl_plane,
    _n: u32,
) {
}

extern "C" fn conn_del(_ofl: *mut Ofl, _conn: *mut bindings::metaroce_ofl_conn) {}

extern "C" fn qp_del(_ofl: *mut Ofl, _qp: *mut bindings::metaroce_ofl_qp) {}

extern "C" fn qp_ring(_ofl: *mut Ofl, _qp: *mut bindings::metaroce_ofl_qp) {}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn get_stats(_ofl: *mut Ofl, stats: *mut bindings::metaroce_ofl_stats) {
    // SAFETY: By the requirements of this function.
    unsafe { *stats = bindings::metaroce_ofl_stats::default() };
}
