// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Completion queues that are polled one completion at a time (`ibv_cq_ex`).
//!
//! The queue's lock is taken by `ibv_start_poll()` and given back by `ibv_end_poll()`, or by
//! `ibv_start_poll()` itself if there is nothing to poll.

use crate::abi::Cqe;
use crate::bindings as c;
use crate::completion::{service_level, wc_flags};
use crate::cq::{create, Cq, Wanted};
use crate::errno::Errno;
use crate::object::Object;
use crate::pd;
use core::ffi::{c_int, c_uint};

/// What can be read of a completion.
const WC_FLAGS: u32 = c::IBV_WC_EX_WITH_BYTE_LEN
    | c::IBV_WC_EX_WITH_IMM
    | c::IBV_WC_EX_WITH_QP_NUM
    | c::IBV_WC_EX_WITH_SRC_QP
    | c::IBV_WC_EX_WITH_SLID
    | c::IBV_WC_EX_WITH_SL
    | c::IBV_WC_EX_WITH_DLID_PATH_BITS
    | c::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | c::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

const COMP_MASK: u32 = c::IBV_CQ_INIT_ATTR_MASK_FLAGS | c::IBV_CQ_INIT_ATTR_MASK_PD;

/// `ibv_create_cq_ex()`.
///
/// # Safety
///
/// `context` is an open context of this provider, `attr` readable with what it names.
pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut c::ibv_context,
    attr: *mut c::ibv_cq_init_attr_ex,
) -> *mut c::ibv_cq_ex {
    // SAFETY: By this function's contract.
    match unsafe { create_ex(context, attr) } {
        Ok(cq) => cq.into_verbs().cast(),
        Err(error) => error.null(),
    }
}

/// # Safety
///
/// As for [`create_cq_ex`].
unsafe fn create_ex(
    context: *mut c::ibv_context,
    attr: *mut c::ibv_cq_init_attr_ex,
) -> Result<Box<Cq>, Errno> {
    // SAFETY: By this function's contract.
    let attr = unsafe { &mut *attr };
    if attr.comp_mask & !COMP_MASK != 0 || attr.wc_flags & !u64::from(WC_FLAGS) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut single = false;
    if attr.comp_mask & c::IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
        if attr.flags & !c::IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        single = attr.flags & c::IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0;
    }
    if attr.comp_mask & c::IBV_CQ_INIT_ATTR_MASK_PD != 0 {
        // SAFETY: By this function's contract.
        single |= unsafe { pd::is_single_threaded(attr.parent_domain) }.ok_or(Errno::EINVAL)?;
    }
    // SAFETY: By this function's contract.
    let cq = unsafe {
        create(
            context,
            Wanted {
                cqe: c_int::try_from(attr.cqe).map_err(|_| Errno::EINVAL)?,
                channel: attr.channel,
                // CAST: checked by the kernel.
                comp_vector: attr.comp_vector as c_int,
                single,
            },
        )
    }?;
    // SAFETY: Nobody else knows the object yet.
    let ex = unsafe { &mut *cq.verbs.as_ptr().cast::<c::ibv_cq_ex>() };
    set_ops(ex, attr.wc_flags);
    Ok(cq)
}

fn set_ops(ex: &mut c::ibv_cq_ex, wanted: u64) {
    let wants = |flag: u32| wanted & u64::from(flag) != 0;

    ex.start_poll = Some(start_poll);
    ex.next_poll = Some(next_poll);
    ex.end_poll = Some(end_poll);
    ex.read_opcode = Some(read_opcode);
    ex.read_vendor_err = Some(read_vendor_err);
    ex.read_wc_flags = Some(read_wc_flags);
    if wants(c::IBV_WC_EX_WITH_BYTE_LEN) {
        ex.read_byte_len = Some(read_byte_len);
    }
    if wants(c::IBV_WC_EX_WITH_IMM) {
        ex.read_imm_data = Some(read_imm_data);
    }
    if wants(c::IBV_WC_EX_WITH_QP_NUM) {
        ex.read_qp_num = Some(read_qp_num);
    }
    if wants(c::IBV_WC_EX_WITH_SRC_QP) {
        ex.read_src_qp = Some(read_src_qp);
    }
    // RoCE has no local identifiers.
    if wants(c::IBV_WC_EX_WITH_SLID) {
        ex.read_slid = Some(read_slid);
    }
    if wants(c::IBV_WC_EX_WITH_SL) {
        ex.read_sl = Some(read_sl);
    }
    if wants(c::IBV_WC_EX_WITH_DLID_PATH_BITS) {
        ex.read_dlid_path_bits = Some(read_dlid_path_bits);
    }
    if wants(c::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) {
        ex.read_completion_ts = Some(read_completion_ts);
    }
    if wants(c::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) {
        ex.read_completion_wallclock_ns = Some(read_completion_wallclock_ns);
    }
}

/// # Safety
///
/// `ex` came from [`create_cq_ex`].
unsafe fn cq_of<'a>(ex: *mut c::ibv_cq_ex) -> &'a Cq {
    // SAFETY: By this function's contract; `ibv_cq` is the beginning of `ibv_cq_ex`.
    unsafe { Cq::from_verbs(ex.cast()) }
}

/// Shows the completion that was taken to the application.
///
/// # Safety
///
/// `ex` came from [`create_cq_ex`], whose lock is held.
unsafe fn show(ex: *mut c::ibv_cq_ex, taken: Result<Option<Cqe>, Errno>) -> Result<(), c_int> {
    let cqe = taken.map_err(Errno::code)?.ok_or(Errno::ENOENT.code())?;
    // SAFETY: By this function's contract: these members are the provider's to write.
    unsafe {
        (&raw mut (*ex).wr_id).write(cqe.wr_id);
        (&raw mut (*ex).status).write(cqe.status);
    }
    Ok(())
}

/// `ibv_start_poll()`.
///
/// # Safety
///
/// As for [`cq_of`], and no polling is under way in this thread. `attr` is readable.
unsafe extern "C" fn start_poll(ex: *mut c::ibv_cq_ex, attr: *mut c::ibv_poll_cq_attr) -> c_int {
    // SAFETY: By this function's contract.
    let (cq, comp_mask) = unsafe { (cq_of(ex), (*attr).comp_mask) };
    let Some(queue) = cq.queue.as_ref().filter(|_| comp_mask == 0) else {
        return Errno::EINVAL.code();
    };
    let mut guard = queue.lock();
    let taken = guard.take_current();
    // SAFETY: As above.
    match unsafe { show(ex, taken) } {
        Ok(()) => {
            guard.keep();
            0
        }
        Err(code) => code,
    }
}

/// `ibv_next_poll()`.
///
/// # Safety
///
/// As for [`cq_of`], and the polling is under way.
unsafe extern "C" fn next_poll(ex: *mut c::ibv_cq_ex) -> c_int {
    // SAFETY: By this function's contract.
    let Some(queue) = unsafe { cq_of(ex) }.queue.as_ref() else {
        return Errno::EINVAL.code();
    };
    // SAFETY: `start_poll` has kept it.
    let mut guard = unsafe { queue.resume() };
    let taken = guard.take_current();
    guard.keep();
    // SAFETY: As above.
    match unsafe { show(ex, taken) } {
        Ok(()) => 0,
        Err(code) => code,
    }
}

/// `ibv_end_poll()`.
///
/// # Safety
///
/// As for [`next_poll`].
unsafe extern "C" fn end_poll(ex: *mut c::ibv_cq_ex) {
    // SAFETY: By this function's contract.
    if let Some(queue) = &unsafe { cq_of(ex) }.queue {
        // SAFETY: `start_poll` has kept it. A damaged ring shows when it is polled next.
        let _ = unsafe { queue.resume() }.publish();
    }
}

/// Reads of the completion that was polled.
///
/// # Safety
///
/// As for [`next_poll`].
unsafe fn read<R: Default>(ex: *mut c::ibv_cq_ex, f: impl FnOnce(&Cqe) -> R) -> R {
    // SAFETY: By this function's contract.
    let Some(queue) = &unsafe { cq_of(ex) }.queue else {
        return R::default();
    };
    // SAFETY: `start_poll` has kept it.
    let guard = unsafe { queue.resume() };
    let value = f(guard.current());
    guard.keep();
    value
}

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $f:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// As for [`next_poll`].
            unsafe extern "C" fn $name(ex: *mut c::ibv_cq_ex) -> $type {
                // SAFETY: By this function's contract.
                unsafe { read(ex, $f) }
            }
        )*
    };
}

readers! {
    /// `ibv_wc_read_opcode()`.
    read_opcode: c::ibv_wc_opcode = |cqe| cqe.opcode;
    /// `ibv_wc_read_vendor_err()`.
    read_vendor_err: u32 = |cqe| cqe.vendor_err;
    /// `ibv_wc_read_wc_flags()`.
    read_wc_flags: c_uint = |cqe| wc_flags(cqe.wc_flags);
    /// `ibv_wc_read_byte_len()`.
    read_byte_len: u32 = |cqe| cqe.byte_len;
    /// `ibv_wc_read_imm_data()` and `ibv_wc_read_invalidated_rkey()`.
    read_imm_data: u32 = |cqe| cqe.imm_data;
    /// `ibv_wc_read_qp_num()`.
    read_qp_num: u32 = |cqe| cqe.qp_num;
    /// `ibv_wc_read_src_qp()`.
    read_src_qp: u32 = |cqe| cqe.src_qp;
    /// `ibv_wc_read_slid()`.
    read_slid: u32 = |_| 0;
    /// `ibv_wc_read_sl()`.
    read_sl: u8 = service_level;
    /// `ibv_wc_read_dlid_path_bits()`.
    read_dlid_path_bits: u8 = |_| 0;
    /// `ibv_wc_read_completion_ts()`: nanoseconds of `CLOCK_MONOTONIC`.
    read_completion_ts: u64 = |cqe| cqe.timestamp;
    /// `ibv_wc_read_completion_wallclock_ns()`.
    read_completion_wallclock_ns: u64 = |cqe| wall_clock(cqe.timestamp);
}

/// Returns the time of day at `monotonic`, as far apart as the two clocks are now.
fn wall_clock(monotonic: u64) -> u64 {
    let now = |clock: u32| {
        let mut time = c::timespec::default();
        // SAFETY: The structure is writable. It does not fail for clocks that all systems have.
        unsafe { c::clock_gettime(clock as c_int, &mut time) };
        // CAST: Neither is negative.
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    now(c::CLOCK_REALTIME)
        .wrapping_sub(now(c::CLOCK_MONOTONIC))
        .wrapping_add(monotonic)
}
