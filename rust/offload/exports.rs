// SPDX-License-Identifier: GPL-2.0

//! What drivers call. `rust/helpers/offload.c` exports it.
//!
//! C header: `include/metaroce/offload.h`

use super::{
    abi::Ops,
    nic::Nic,
    objects::{
        NicCq,
        NicQp, //
    },
    registry, //
};
use crate::{
    datapath::cq::Completion,
    net::netdev::NetDevice, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};

/// # Safety
///
/// As the header says of `metaroce_ofl_register()`.
#[no_mangle]
unsafe extern "C" fn metaroce_ofl_core_register(
    ndev: *mut bindings::net_device,
    ops: *const bindings::metaroce_ofl_ops,
    caps: *const bindings::metaroce_ofl_caps,
    priv_: *mut c_void,
) -> *mut bindings::metaroce_ofl {
    let register = || {
        // SAFETY: By the requirements of this function, the operations stay valid.
        let ops = unsafe { Ops::new(ops) }?;
        // SAFETY: By the requirements of this function.
        let (ndev, caps) = unsafe { (NetDevice::from_raw(ndev), *caps) };
        registry::register(ndev, ops, caps, priv_)
    };
    match register() {
        // The C part is at offset 0.
        Ok(nic) => Arc::as_ptr(&nic).cast_mut().cast(),
        Err(e) => e.to_ptr(),
    }
}

/// Borrows a registration.
///
/// # Safety
///
/// `ofl` must be from `metaroce_ofl_register()`, and not be unregistered during `'a`.
unsafe fn nic<'a>(ofl: *mut bindings::metaroce_ofl) -> ArcBorrow<'a, Nic> {
    // SAFETY: The C part is at offset 0 of a registration, which is in an `Arc` that the registry
    // keeps.
    unsafe { ArcBorrow::from_raw(ofl.cast_const().cast::<Nic>()) }
}

/// # Safety
///
/// As the header says of `metaroce_ofl_unregister()`.
#[no_mangle]
unsafe extern "C" fn metaroce_ofl_core_unregister(ofl: *mut bindings::metaroce_ofl) {
    // SAFETY: By the requirements of this function; nobody else unregisters it.
    let nic = unsafe { nic(ofl) };
    registry::unregister(&nic);
}

/// # Safety
///
/// As the header says of `metaroce_ofl_fault()`.
#[no_mangle]
unsafe extern "C" fn metaroce_ofl_core_fault(ofl: *mut bindings::metaroce_ofl, why: *const c_char) {
    // SAFETY: By the requirements of this function.
    let (nic, why) = unsafe { (nic(ofl), CStr::from_char_ptr(why)) };
    registry::fault(nic, why);
}

/// # Safety
///
/// As the header says of `metaroce_ofl_complete()`.
#[no_mangle]
unsafe extern "C" fn metaroce_ofl_core_complete(
    ofl: *mut bindings::metaroce_ofl,
    cq: *mut bindings::metaroce_ofl_cq,
    cqe: *const bindings::metaroce_cqe,
    solicited: bool,
) -> c_int {
    // SAFETY: By the requirements of this function; the C part is at offset 0 of a queue, which the
    // registration keeps until the driver has let go of it.
    let (nic, cq, cqe) = unsafe { (nic(ofl), &*cq.cast::<NicCq>(), *cqe) };
    let completion = Completion {
        wr_id: cqe.wr_id,
        status: cqe.status,
        opcode: cqe.opcode,
        byte_len: cqe.byte_len,
        imm: cqe.imm_data,
        qp_num: cqe.qp_num,
        wc_flags: cqe.wc_flags,
        src_qp: cqe.src_qp,
        vendor_err: cqe.vendor_err,
        network_hdr_type: cqe.network_hdr_type,
        ..Completion::default()
    };
    match nic.complete(cq, &completion, solicited) {
        Ok(()) => 0,
        Err(_) => EOVERFLOW.to_errno(),
    }
}

/// # Safety
///
/// As the header says of `metaroce_ofl_qp_event()`.
#[no_mangle]
unsafe extern "C" fn metaroce_ofl_core_qp_event(
    _ofl: *mut bindings::metaroce_ofl,
    qp: *mut bindings::metaroce_ofl_qp,
    event: bindings::metaroce_ofl_event,
) {
    // SAFETY: By the requirements of this function; the C part is at offset 0 of a queue pair, which
    // the registration keeps until the driver has let go of it.
    unsafe { &*qp.cast::<NicQp>() }.on_event(event);
}
