// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The work requests that `ibv_wr_*()` begin, one function an operation.

use crate::abi::SendWqe;
use crate::bindings as c;
use crate::errno::Errno;
use crate::qp_ex::go_on;
use crate::send::flags;
use core::ffi::c_void;

/// Begins a work request of operation `opcode`; `fill` writes what belongs to the operation.
///
/// # Safety
///
/// As for [`go_on`].
unsafe fn begin(
    ex: *mut c::ibv_qp_ex,
    opcode: c::ibv_wr_opcode,
    abi_opcode: u32,
    fill: impl FnOnce(&mut SendWqe),
) {
    // SAFETY: By this function's contract; the application has written these for this request.
    let (wr_id, wr_flags) = unsafe { ((*ex).wr_id, (*ex).wr_flags) };
    let wqe = flags(wr_flags & !c::IBV_SEND_INLINE, opcode).map(|flags| {
        let mut wqe = SendWqe {
            wr_id,
            // CAST: the ABI's operations fit their member.
            opcode: abi_opcode as u8,
            flags,
            ..Default::default()
        };
        fill(&mut wqe);
        wqe
    });
    // SAFETY: By this function's contract.
    unsafe { go_on(ex, |sq| sq.begin(wqe)) }
}

/// `ibv_wr_rdma_write()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_rdma_write(ex: *mut c::ibv_qp_ex, rkey: u32, addr: u64) {
    // SAFETY: By this function's contract.
    unsafe {
        begin(ex, c::IBV_WR_RDMA_WRITE, c::METAROCE_OP_RDMA_WRITE, |wqe| {
            wqe.rkey = rkey;
            wqe.remote_addr = addr;
        });
    }
}

/// `ibv_wr_rdma_write_imm()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_rdma_write_imm(
    ex: *mut c::ibv_qp_ex,
    rkey: u32,
    addr: u64,
    imm: u32,
) {
    let (op, abi_op) = (c::IBV_WR_RDMA_WRITE_WITH_IMM, c::METAROCE_OP_RDMA_WRITE_IMM);
    // SAFETY: By this function's contract.
    unsafe {
        begin(ex, op, abi_op, |wqe| {
            wqe.rkey = rkey;
            wqe.remote_addr = addr;
            wqe.imm_data = imm;
        });
    }
}

/// `ibv_wr_rdma_read()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_rdma_read(ex: *mut c::ibv_qp_ex, rkey: u32, addr: u64) {
    // SAFETY: By this function's contract.
    unsafe {
        begin(ex, c::IBV_WR_RDMA_READ, c::METAROCE_OP_RDMA_READ, |wqe| {
            wqe.rkey = rkey;
            wqe.remote_addr = addr;
        });
    }
}

/// `ibv_wr_send()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_send(ex: *mut c::ibv_qp_ex) {
    // SAFETY: By this function's contract.
    unsafe { begin(ex, c::IBV_WR_SEND, c::METAROCE_OP_SEND, |_| ()) }
}

/// `ibv_wr_send_imm()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_send_imm(ex: *mut c::ibv_qp_ex, imm: u32) {
    let (op, abi_op) = (c::IBV_WR_SEND_WITH_IMM, c::METAROCE_OP_SEND_IMM);
    // SAFETY: By this function's contract.
    unsafe { begin(ex, op, abi_op, |wqe| wqe.imm_data = imm) }
}

/// `ibv_wr_send_inv()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_send_inv(ex: *mut c::ibv_qp_ex, rkey: u32) {
    let (op, abi_op) = (c::IBV_WR_SEND_WITH_INV, c::METAROCE_OP_SEND_INV);
    // SAFETY: By this function's contract.
    unsafe { begin(ex, op, abi_op, |wqe| wqe.imm_data = rkey) }
}

/// `ibv_wr_atomic_cmp_swp()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_atomic_cmp_swp(
    ex: *mut c::ibv_qp_ex,
    rkey: u32,
    addr: u64,
    compare: u64,
    swap: u64,
) {
    let (op, abi_op) = (c::IBV_WR_ATOMIC_CMP_AND_SWP, c::METAROCE_OP_ATOMIC_CMP_SWP);
    // SAFETY: By this function's contract.
    unsafe {
        begin(ex, op, abi_op, |wqe| {
            wqe.rkey = rkey;
            wqe.remote_addr = addr;
            wqe.compare_add = compare;
            wqe.swap = swap;
        });
    }
}

/// `ibv_wr_atomic_fetch_add()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_atomic_fetch_add(
    ex: *mut c::ibv_qp_ex,
    rkey: u32,
    addr: u64,
    add: u64,
) {
    let (op, abi_op) = (
        c::IBV_WR_ATOMIC_FETCH_AND_ADD,
        c::METAROCE_OP_ATOMIC_FETCH_ADD,
    );
    // SAFETY: By this function's contract.
    unsafe {
        begin(ex, op, abi_op, |wqe| {
            wqe.rkey = rkey;
            wqe.remote_addr = addr;
            wqe.compare_add = add;
        });
    }
}

/// `ibv_wr_local_inv()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_local_inv(ex: *mut c::ibv_qp_ex, rkey: u32) {
    // SAFETY: By this function's contract.
    unsafe {
        begin(ex, c::IBV_WR_LOCAL_INV, c::METAROCE_OP_LOCAL_INV, |wqe| {
            wqe.imm_data = rkey;
        });
    }
}

/// `ibv_wr_bind_mw()`.
///
/// # Safety
///
/// As for [`go_on`]; `mw` and the region of `info` are live.
pub(crate) unsafe extern "C" fn wr_bind_mw(
    ex: *mut c::ibv_qp_ex,
    mw: *mut c::ibv_mw,
    rkey: u32,
    info: *const c::ibv_mw_bind_info,
) {
    // SAFETY: By this function's contract.
    unsafe {
        let (mw, info) = (&*mw, &*info);
        let lkey = info.mr.as_ref().map_or(0, |mr| mr.lkey);
        begin(ex, c::IBV_WR_BIND_MW, c::METAROCE_OP_BIND_MW, |wqe| {
            wqe.rkey = mw.rkey;
            wqe.imm_data = rkey;
            wqe.remote_addr = info.addr;
            wqe.compare_add = info.length;
            wqe.bind_lkey = lkey;
            wqe.bind_access = info.mw_access_flags;
        });
    }
}

/// `ibv_wr_atomic_write()`.
///
/// # Safety
///
/// As for [`go_on`]; `value` is readable for 8 bytes.
pub(crate) unsafe extern "C" fn wr_atomic_write(
    ex: *mut c::ibv_qp_ex,
    rkey: u32,
    addr: u64,
    value: *const c_void,
) {
    let (op, abi_op) = (c::IBV_WR_ATOMIC_WRITE, c::METAROCE_OP_ATOMIC_WRITE);
    // SAFETY: By this function's contract; the value need not be aligned.
    unsafe {
        let value = value.cast::<u64>().read_unaligned();
        begin(ex, op, abi_op, |wqe| {
            wqe.rkey = rkey;
            wqe.remote_addr = addr;
            wqe.swap = value;
        });
    }
}

/// `ibv_wr_flush()`.
///
/// # Safety
///
/// As for [`go_on`].
pub(crate) unsafe extern "C" fn wr_flush(
    ex: *mut c::ibv_qp_ex,
    rkey: u32,
    addr: u64,
    len: usize,
    placement: u8,
    selectivity: u8,
) {
    let Ok(len) = u32::try_from(len) else {
        // SAFETY: By this function's contract.
        return unsafe { go_on(ex, |sq| sq.begin(Err(Errno::EINVAL))) };
    };
    // SAFETY: By this function's contract.
    unsafe {
        begin(ex, c::IBV_WR_FLUSH, c::METAROCE_OP_FLUSH, |wqe| {
            wqe.rkey = rkey;
            wqe.remote_addr = addr;
            wqe.imm_data = u32::from(placement) | (u32::from(selectivity) << 8);
            wqe.bind_lkey = len;
        });
    }
}
