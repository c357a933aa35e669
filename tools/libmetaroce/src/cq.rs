// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Completion queues.

use crate::abi::CreateCqResp;
use crate::bindings as c;
use crate::completion::{work_completion, CompletionQueue};
use crate::errno::Errno;
use crate::mapping::map_ring;
use crate::object::{allocate, lock, Object, Verbs};
use core::ffi::c_int;
use core::ptr;
use std::sync::Mutex;

/// A completion queue.
#[repr(C)]
pub(crate) struct Cq {
    verbs: Verbs<c::verbs_cq>,
    /// [`None`] only until the kernel has made the queue.
    queue: Option<Mutex<CompletionQueue>>,
}

// SAFETY: `verbs` is the first member, and `ibv_cq` is at the start of it: `verbs_cq` is a union.
unsafe impl Object for Cq {
    type Verbs = c::ibv_cq;
}

impl Cq {
    /// Removes the completions of a queue pair that is gone or reset.
    pub(crate) fn purge(&self, qp_num: u32) -> Result<(), Errno> {
        match &self.queue {
            Some(queue) => lock(queue).purge(qp_num),
            None => Ok(()),
        }
    }
}

/// `ibv_create_cq()`.
///
/// # Safety
///
/// `context` is an open context of this provider, `channel` null or a channel of it.
pub(crate) unsafe extern "C" fn create_cq(
    context: *mut c::ibv_context,
    cqe: c_int,
    channel: *mut c::ibv_comp_channel,
    comp_vector: c_int,
) -> *mut c::ibv_cq {
    // SAFETY: By this function's contract.
    match unsafe { create(context, cqe, channel, comp_vector) } {
        Ok(cq) => cq.into_verbs(),
        Err(error) => error.null(),
    }
}

/// Creates the queue and maps its ring.
///
/// # Safety
///
/// As for [`create_cq`].
unsafe fn create(
    context: *mut c::ibv_context,
    cqe: c_int,
    channel: *mut c::ibv_comp_channel,
    comp_vector: c_int,
) -> Result<Box<Cq>, Errno> {
    let mut resp = CreateCqResp::default();
    let mut cq = allocate(Cq {
        verbs: Verbs::new(),
        queue: None,
    })?;
    let ibcq = cq.verbs.as_ptr().cast::<c::ibv_cq>();

    // SAFETY: The context and the channel are the caller's, and everything else lives through the
    // call; the response is as long as it says.
    Errno::check(unsafe {
        c::ibv_cmd_create_cq(
            context,
            cqe,
            channel,
            comp_vector,
            ibcq,
            ptr::null_mut(),
            0,
            &mut resp.core,
            size_of::<CreateCqResp>(),
        )
    })?;

    // SAFETY: The caller's context.
    let fd = unsafe { (*context).cmd_fd };
    let drv = &resp.drv;
    let stride = c::METAROCE_CQE_SIZE;
    match map_ring(fd, drv.mmap_offset, drv.mmap_size, drv.entries, stride) {
        Ok((ring, geometry)) => {
            cq.queue = Some(Mutex::new(CompletionQueue::new(ring, geometry)));
            Ok(cq)
        }
        Err(error) => {
            // SAFETY: Created above, and nobody else knows it.
            unsafe { c::ibv_cmd_destroy_cq(ibcq) };
            Err(error)
        }
    }
}

/// `ibv_poll_cq()`.
///
/// # Safety
///
/// `cq` came from [`create_cq`]; `wc` is writable for `num_entries` completions.
pub(crate) unsafe extern "C" fn poll_cq(
    cq: *mut c::ibv_cq,
    num_entries: c_int,
    wc: *mut c::ibv_wc,
) -> c_int {
    // SAFETY: By this function's contract.
    let cq = unsafe { Cq::from_verbs(cq) };
    let Some(queue) = &cq.queue else {
        return -1;
    };
    let mut queue = lock(queue);
    let mut polled = 0;

    while polled < num_entries {
        let cqe = match queue.take() {
            Ok(Some(cqe)) => cqe,
            Ok(None) => break,
            Err(_) => return -1,
        };
        // SAFETY: `polled` is less than the number of completions that fit there. The place need
        // not be initialized.
        unsafe { wc.offset(polled as isize).write(work_completion(&cqe)) };
        polled += 1;
    }
    if polled > 0 && queue.publish().is_err() {
        return -1;
    }
    polled
}

/// `ibv_destroy_cq()`.
///
/// # Safety
///
/// `cq` came from [`create_cq`] and is not used afterwards if this succeeds.
pub(crate) unsafe extern "C" fn destroy_cq(cq: *mut c::ibv_cq) -> c_int {
    // SAFETY: By this function's contract.
    let ret = unsafe { c::ibv_cmd_destroy_cq(cq) };
    if ret == 0 {
        // SAFETY: The kernel's object is gone, and so is the application's interest.
        drop(unsafe { Cq::reclaim(cq) });
    }
    ret
}
