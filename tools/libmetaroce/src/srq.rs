// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Shared receive queues.

use crate::abi::{CreateSrqResp, ModifySrq};
use crate::bindings as c;
use crate::errno::{self, Errno};
use crate::lock::Lock;
use crate::mapping::map_ring;
use crate::object::{allocate, Object, Verbs};
use crate::pd;
use crate::post::post_list;
use crate::recv::RecvQueue;
use core::ffi::c_int;
use core::ptr;

/// A shared receive queue.
#[repr(C)]
struct Srq {
    verbs: Verbs<c::verbs_srq>,
    /// [`None`] only until the kernel has made the queue.
    queue: Option<Lock<RecvQueue>>,
}

// SAFETY: `verbs` is the first member, and `ibv_srq` is at the start of it.
unsafe impl Object for Srq {
    type Verbs = c::ibv_srq;
}

const _: () = assert!(core::mem::offset_of!(c::verbs_srq, srq) == 0);

/// `ibv_create_srq()`.
///
/// # Safety
///
/// `pd` is a protection domain of this provider, `attr` readable and writable.
pub(crate) unsafe extern "C" fn create_srq(
    pd: *mut c::ibv_pd,
    attr: *mut c::ibv_srq_init_attr,
) -> *mut c::ibv_srq {
    // SAFETY: By this function's contract.
    match unsafe { create(pd, attr) } {
        Ok(srq) => srq.into_verbs(),
        Err(error) => error.null(),
    }
}

/// Creates the queue and maps its ring.
///
/// # Safety
///
/// As for [`create_srq`].
unsafe fn create(pd: *mut c::ibv_pd, attr: *mut c::ibv_srq_init_attr) -> Result<Box<Srq>, Errno> {
    let mut cmd = c::ibv_create_srq::default();
    let mut resp = CreateSrqResp::default();
    let mut srq = allocate(Srq {
        verbs: Verbs::new(),
        queue: None,
    })?;
    let ibsrq = srq.verbs.as_ptr().cast::<c::ibv_srq>();

    // SAFETY: Domain and attributes are the caller's, and everything else lives through the call;
    // the response is as long as it says.
    Errno::check(unsafe {
        c::ibv_cmd_create_srq(
            pd,
            ibsrq,
            attr,
            &mut cmd,
            size_of_val(&cmd),
            &mut resp.core,
            size_of::<CreateSrqResp>(),
        )
    })?;

    // SAFETY: The caller's domain.
    let fd = unsafe { (*(*pd).context).cmd_fd };
    let drv = &resp.drv;
    match map_ring(fd, drv.mmap_offset, drv.mmap_size, drv.entries, drv.stride) {
        Ok((ring, geometry)) => {
            // SAFETY: The caller's domain.
            let single = unsafe { pd::is_single_threaded(pd) }.unwrap_or(false);
            let queue = RecvQueue::new(ring, geometry, drv.max_sge);
            srq.queue = Some(Lock::new(queue, single));
            Ok(srq)
        }
        Err(error) => {
            // SAFETY: Created above, and nobody else knows it.
            unsafe { c::ibv_cmd_destroy_srq(ibsrq) };
            Err(error)
        }
    }
}

/// `ibv_modify_srq()`.
///
/// # Safety
///
/// `srq` came from [`create_srq`], `attr` is readable.
pub(crate) unsafe extern "C" fn modify_srq(
    srq: *mut c::ibv_srq,
    attr: *mut c::ibv_srq_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: By this function's contract.
    errno::code(unsafe { modify(srq, attr, mask) })
}

/// Modifies the queue, and moves to its new ring if there is one. A queue whose new ring cannot be
/// mapped is lost.
///
/// # Safety
///
/// As for [`modify_srq`].
unsafe fn modify(
    ibsrq: *mut c::ibv_srq,
    attr: *mut c::ibv_srq_attr,
    mask: c_int,
) -> Result<(), Errno> {
    let mut resp = c::metaroce_modify_srq_resp::default();
    let mut cmd = ModifySrq::default();
    // SAFETY: By this function's contract.
    let (srq, fd) = unsafe { (Srq::from_verbs(ibsrq), (*(*ibsrq).context).cmd_fd) };
    // CAST: a mask.
    let resizes = mask as u32 & c::IBV_SRQ_MAX_WR != 0;
    let cmd_size = if resizes {
        cmd.drv.response = ptr::from_mut(&mut resp) as u64;
        size_of::<ModifySrq>()
    } else {
        size_of_val(&cmd.core)
    };
    let queue = srq.queue.as_ref().ok_or(Errno::EINVAL)?;
    // Held, so that nothing is posted while the kernel moves what is there.
    let mut queue = queue.lock();
    // SAFETY: By this function's contract; command and response live through the call.
    Errno::check(unsafe { c::ibv_cmd_modify_srq(ibsrq, attr, mask, &mut cmd.core, cmd_size) })?;
    if !resizes {
        return Ok(());
    }
    let mapped = map_ring(
        fd,
        resp.mmap_offset,
        resp.mmap_size,
        resp.entries,
        resp.stride,
    );
    let moved = match mapped {
        Ok((ring, geometry)) => queue.move_to(ring, geometry),
        Err(error) => Err(error),
    };
    if moved.is_err() {
        queue.lose();
    }
    moved
}

/// `ibv_query_srq()`.
///
/// # Safety
///
/// `srq` came from [`create_srq`], `attr` is writable.
pub(crate) unsafe extern "C" fn query_srq(
    srq: *mut c::ibv_srq,
    attr: *mut c::ibv_srq_attr,
) -> c_int {
    let mut cmd = c::ibv_query_srq::default();
    // SAFETY: By this function's contract; the command lives through the call.
    unsafe { c::ibv_cmd_query_srq(srq, attr, &mut cmd, size_of_val(&cmd)) }
}

/// `ibv_destroy_srq()`.
///
/// # Safety
///
/// `srq` came from [`create_srq`] and is not used afterwards if this succeeds.
pub(crate) unsafe extern "C" fn destroy_srq(srq: *mut c::ibv_srq) -> c_int {
    // SAFETY: By this function's contract.
    let ret = unsafe { c::ibv_cmd_destroy_srq(srq) };
    if ret == 0 {
        // SAFETY: The kernel's object is gone, and so is the application's interest.
        drop(unsafe { Srq::reclaim(srq) });
    }
    ret
}

/// `ibv_post_srq_recv()`.
///
/// # Safety
///
/// `srq` came from [`create_srq`], `wr` is a list of work requests with what they point to,
/// `bad_wr` is writable.
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut c::ibv_srq,
    wr: *mut c::ibv_recv_wr,
    bad_wr: *mut *mut c::ibv_recv_wr,
) -> c_int {
    // SAFETY: By this function's contract.
    let srq = unsafe { Srq::from_verbs(srq) };
    // No doorbell: the kernel looks when a message comes.
    // SAFETY: By this function's contract.
    unsafe { post_list(srq.queue.as_ref(), wr, bad_wr, |_| Ok(())) }
}
