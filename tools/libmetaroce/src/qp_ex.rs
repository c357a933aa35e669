// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Posting sends one call at a time (`ibv_wr_*()`).
//!
//! The send queue's lock is taken by `ibv_wr_start()` and given back by `ibv_wr_complete()` or
//! `ibv_wr_abort()`. An error is remembered until then: either all work requests are posted, or
//! none.

use crate::ah::Ah;
use crate::bindings as c;
use crate::errno::{self, Errno};
use crate::object::Object;
use crate::qp::{may_send, ring_if, Qp};
use crate::send::SendQueue;
use crate::wr;
use core::ffi::{c_int, c_void};
use core::slice;

/// Operations of an RC queue pair.
const RC_OPS: u32 = c::IBV_QP_EX_WITH_RDMA_WRITE
    | c::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | c::IBV_QP_EX_WITH_SEND
    | c::IBV_QP_EX_WITH_SEND_WITH_IMM
    | c::IBV_QP_EX_WITH_SEND_WITH_INV
    | c::IBV_QP_EX_WITH_RDMA_READ
    | c::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | c::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
    | c::IBV_QP_EX_WITH_LOCAL_INV
    | c::IBV_QP_EX_WITH_BIND_MW
    | c::IBV_QP_EX_WITH_ATOMIC_WRITE
    | c::IBV_QP_EX_WITH_FLUSH;

/// Operations of a UC queue pair.
const UC_OPS: u32 = c::IBV_QP_EX_WITH_RDMA_WRITE
    | c::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | c::IBV_QP_EX_WITH_SEND
    | c::IBV_QP_EX_WITH_SEND_WITH_IMM
    | c::IBV_QP_EX_WITH_LOCAL_INV
    | c::IBV_QP_EX_WITH_BIND_MW;

/// Operations of a UD queue pair.
const UD_OPS: u32 = c::IBV_QP_EX_WITH_SEND | c::IBV_QP_EX_WITH_SEND_WITH_IMM;

/// Checks that a queue pair of a type can have these operations.
pub(crate) fn check(qp_type: c::ibv_qp_type, wanted: u64) -> Result<(), Errno> {
    let known = match qp_type {
        c::IBV_QPT_RC => RC_OPS,
        c::IBV_QPT_UC => UC_OPS,
        c::IBV_QPT_UD => UD_OPS,
        _ => 0,
    };
    if wanted & !u64::from(known) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

/// Sets the operations that were asked for.
pub(crate) fn set_ops(ex: &mut c::ibv_qp_ex, wanted: u64) {
    let wants = |flag: u32| wanted & u64::from(flag) != 0;

    ex.wr_start = Some(wr_start);
    ex.wr_complete = Some(wr_complete);
    ex.wr_abort = Some(wr_abort);
    ex.wr_set_ud_addr = Some(wr_set_ud_addr);
    ex.wr_set_sge = Some(wr_set_sge);
    ex.wr_set_sge_list = Some(wr_set_sge_list);
    ex.wr_set_inline_data = Some(wr_set_inline_data);
    ex.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    if wants(c::IBV_QP_EX_WITH_RDMA_WRITE) {
        ex.wr_rdma_write = Some(wr::wr_rdma_write);
    }
    if wants(c::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) {
        ex.wr_rdma_write_imm = Some(wr::wr_rdma_write_imm);
    }
    if wants(c::IBV_QP_EX_WITH_SEND) {
        ex.wr_send = Some(wr::wr_send);
    }
    if wants(c::IBV_QP_EX_WITH_SEND_WITH_IMM) {
        ex.wr_send_imm = Some(wr::wr_send_imm);
    }
    if wants(c::IBV_QP_EX_WITH_SEND_WITH_INV) {
        ex.wr_send_inv = Some(wr::wr_send_inv);
    }
    if wants(c::IBV_QP_EX_WITH_RDMA_READ) {
        ex.wr_rdma_read = Some(wr::wr_rdma_read);
    }
    if wants(c::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP) {
        ex.wr_atomic_cmp_swp = Some(wr::wr_atomic_cmp_swp);
    }
    if wants(c::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD) {
        ex.wr_atomic_fetch_add = Some(wr::wr_atomic_fetch_add);
    }
    if wants(c::IBV_QP_EX_WITH_LOCAL_INV) {
        ex.wr_local_inv = Some(wr::wr_local_inv);
    }
    if wants(c::IBV_QP_EX_WITH_ATOMIC_WRITE) {
        ex.wr_atomic_write = Some(wr::wr_atomic_write);
    }
    if wants(c::IBV_QP_EX_WITH_FLUSH) {
        ex.wr_flush = Some(wr::wr_flush);
    }
    if wants(c::IBV_QP_EX_WITH_BIND_MW) {
        ex.wr_bind_mw = Some(wr::wr_bind_mw);
    }
}

/// # Safety
///
/// `ex` is of a queue pair of this provider.
unsafe fn qp_of<'a>(ex: *mut c::ibv_qp_ex) -> &'a Qp {
    // SAFETY: By this function's contract; `ibv_qp` is the beginning of `ibv_qp_ex`.
    unsafe { Qp::from_verbs(ex.cast()) }
}

/// Goes on with the send queue that `wr_start` has locked.
///
/// # Safety
///
/// As for [`qp_of`], after [`wr_start`].
pub(crate) unsafe fn go_on(ex: *mut c::ibv_qp_ex, f: impl FnOnce(&mut SendQueue)) {
    // SAFETY: By this function's contract.
    if let Some(sq) = &unsafe { qp_of(ex) }.sq {
        // SAFETY: `wr_start` has kept it.
        let mut guard = unsafe { sq.resume() };
        f(&mut guard);
        guard.keep();
    }
}

/// `ibv_wr_start()`.
///
/// # Safety
///
/// As for [`qp_of`], and no posting is under way in this thread.
unsafe extern "C" fn wr_start(ex: *mut c::ibv_qp_ex) {
    // SAFETY: By this function's contract.
    let qp = unsafe { qp_of(ex) };
    if let Some(sq) = &qp.sq {
        let mut guard = sq.lock();
        guard.start(if may_send(qp.state()) {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        });
        guard.keep();
    }
}

/// `ibv_wr_complete()`.
///
/// # Safety
///
/// As for [`go_on`].
unsafe extern "C" fn wr_complete(ex: *mut c::ibv_qp_ex) -> c_int {
    // SAFETY: By this function's contract.
    let qp = unsafe { qp_of(ex) };
    let Some(sq) = &qp.sq else {
        return Errno::EINVAL.code();
    };
    // SAFETY: `wr_start` has kept it.
    let doorbell = unsafe { sq.resume() }.complete();
    errno::code(doorbell.and_then(|doorbell| ring_if(qp, doorbell)))
}

/// `ibv_wr_abort()`.
///
/// # Safety
///
/// As for [`go_on`].
unsafe extern "C" fn wr_abort(ex: *mut c::ibv_qp_ex) {
    // SAFETY: By this function's contract.
    if let Some(sq) = &unsafe { qp_of(ex) }.sq {
        // SAFETY: `wr_start` has kept it.
        unsafe { sq.resume() }.abort();
    }
}

/// `ibv_wr_set_ud_addr()`.
///
/// # Safety
///
/// As for [`go_on`]; `ah` is null or an address handle of this provider.
unsafe extern "C" fn wr_set_ud_addr(
    ex: *mut c::ibv_qp_ex,
    ah: *mut c::ibv_ah,
    remote_qpn: u32,
    remote_qkey: u32,
) {
    // SAFETY: By this function's contract.
    let number = unsafe { (!ah.is_null()).then(|| Ah::from_verbs(ah).number()) };
    // SAFETY: By this function's contract.
    unsafe {
        go_on(ex, |sq| {
            sq.set_address(number.ok_or(Errno::EINVAL), remote_qpn, remote_qkey);
        });
    }
}

/// `ibv_wr_set_sge()`.
///
/// # Safety
///
/// As for [`go_on`].
unsafe extern "C" fn wr_set_sge(ex: *mut c::ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let sge = c::ibv_sge { addr, length, lkey };
    // SAFETY: By this function's contract.
    unsafe { go_on(ex, |sq| sq.set_list(slice::from_ref(&sge))) }
}

/// `ibv_wr_set_sge_list()`.
///
/// # Safety
///
/// As for [`go_on`]; `list` is readable for `num` elements.
unsafe extern "C" fn wr_set_sge_list(ex: *mut c::ibv_qp_ex, num: usize, list: *const c::ibv_sge) {
    let list = if num == 0 || list.is_null() {
        &[]
    } else {
        // SAFETY: By this function's contract.
        unsafe { slice::from_raw_parts(list, num) }
    };
    // SAFETY: By this function's contract.
    unsafe { go_on(ex, |sq| sq.set_list(list)) }
}

/// `ibv_wr_set_inline_data()`.
///
/// # Safety
///
/// As for [`go_on`]; `addr` is readable for `length` bytes.
unsafe extern "C" fn wr_set_inline_data(ex: *mut c::ibv_qp_ex, addr: *mut c_void, length: usize) {
    let data = c::ibv_data_buf { addr, length };
    // SAFETY: By this function's contract.
    unsafe { wr_set_inline_data_list(ex, 1, &data) }
}

/// `ibv_wr_set_inline_data_list()`.
///
/// # Safety
///
/// As for [`go_on`]; `list` is readable for `num` elements, and so is what they name.
unsafe extern "C" fn wr_set_inline_data_list(
    ex: *mut c::ibv_qp_ex,
    num: usize,
    list: *const c::ibv_data_buf,
) {
    let list = if num == 0 || list.is_null() {
        &[]
    } else {
        // SAFETY: By this function's contract.
        unsafe { slice::from_raw_parts(list, num) }
    };
    // SAFETY: By this function's contract.
    unsafe { go_on(ex, |sq| sq.set_inline(list)) }
}
