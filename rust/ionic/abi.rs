// SPDX-License-Identifier: GPL-2.0

//! The interface with the core: the operations that it calls.
//!
//! C header: `include/metaroce/offload.h`

use super::{
    codec::{
        self,
        Codec,
        Operation,
        Public, //
    },
    registration::{
        Operations,
        Registration, //
    },
};
use crate::net::netdev::NetDevice;
use core::ptr;
use kernel::{
    error::from_result,
    prelude::*, //
};

/// `struct metaroce_ofl_caps`.
pub(crate) type Caps = bindings::metaroce_ofl_caps;

type Ofl = bindings::metaroce_ofl;

/// What the firmware understands.
static CODEC: Public = Public;

/// Registers for a network device. Process context, with or without the RTNL.
///
/// Errors: as `metaroce_ofl_register()`.
pub(crate) fn register(ndev: &NetDevice) -> Result<Registration> {
    // SAFETY: The operations do not look at the last argument.
    unsafe { Registration::new(ndev, &OPS, &CODEC.caps(), ptr::null_mut()) }
}

static OPS: Operations = Operations::new(bindings::metaroce_ofl_ops {
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
