// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Completion queues.

use crate::abi::{CreateCqResp, ResizeCqResp};
use crate::bindings as c;
use crate::completion::{work_completion, CompletionQueue};
use crate::errno::{self, Errno};
use crate::lock::Lock;
use crate::mapping::map_ring;
use crate::object::{allocate, Object, Verbs};
use core::ffi::c_int;
use core::ptr;

/// A completion queue.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) verbs: Verbs<c::verbs_cq>,
    /// [`None`] only until the kernel has made the queue.
    pub(crate) queue: Option<Lock<CompletionQueue>>,
}

// SAFETY: `verbs` is the first member, and `ibv_cq` is at the start of it: `verbs_cq` is a union.
unsafe impl Object for Cq {
    type Verbs = c::ibv_cq;
}

impl Cq {
    /// Removes the completions of a queue pair that is gone or reset.
    pub(crate) fn purge(&self, qp_num: u32) -> Result<(), Errno> {
        match &self.queue {
            Some(queue) => queue.lock().purge(qp_num),
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
    let wanted = Wanted {
        cqe,
        channel,
        comp_vector,
        single: false,
    };
    // SAFETY: By this function's contract.
    match unsafe { create(context, wanted) } {
        Ok(cq) => cq.into_verbs(),
        Err(error) => error.null(),
    }
}

/// What a queue is created with.
pub(crate) struct Wanted {
    pub(crate) cqe: c_int,
    pub(crate) channel: *mut c::ibv_comp_channel,
    pub(crate) comp_vector: c_int,
    /// The application uses the queue in one thread at a time.
    pub(crate) single: bool,
}

/// Creates the queue and maps its ring.
///
/// # Safety
///
/// As for [`create_cq`].
pub(crate) unsafe fn create(
    context: *mut c::ibv_context,
    wanted: Wanted,
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
            wanted.cqe,
            wanted.channel,
            wanted.comp_vector,
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
            cq.queue = Some(Lock::new(
                CompletionQueue::new(ring, geometry),
                wanted.single,
            ));
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
    let mut queue = queue.lock();
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

/// `ibv_resize_cq()`.
///
/// # Safety
///
/// `cq` came from [`create_cq`].
pub(crate) unsafe extern "C" fn resize_cq(ibcq: *mut c::ibv_cq, cqe: c_int) -> c_int {
    // SAFETY: By this function's contract.
    errno::code(unsafe { resize(ibcq, cqe) })
}

/// Resizes the queue, and moves to its new ring. A queue whose new ring cannot be mapped is lost.
///
/// # Safety
///
/// As for [`resize_cq`].
unsafe fn resize(ibcq: *mut c::ibv_cq, cqe: c_int) -> Result<(), Errno> {
    let mut cmd = c::ibv_resize_cq::default();
    let mut resp = ResizeCqResp::default();
    // SAFETY: By this function's contract.
    let (cq, fd) = unsafe { (Cq::from_verbs(ibcq), (*(*ibcq).context).cmd_fd) };
    // Held, so that nothing is polled while the kernel moves what is there.
    let mut queue = cq.queue.as_ref().ok_or(Errno::EINVAL)?.lock();
    // SAFETY: By this function's contract; command and response are as long as they say.
    Errno::check(unsafe {
        c::ibv_cmd_resize_cq(
            ibcq,
            cqe,
            &mut cmd,
            size_of_val(&cmd),
            &mut resp.core,
            size_of::<ResizeCqResp>(),
        )
    })?;
    let drv = &resp.drv;
    let stride = c::METAROCE_CQE_SIZE;
    match map_ring(fd, drv.mmap_offset, drv.mmap_size, drv.entries, stride) {
        Ok((ring, geometry)) => {
            queue.move_to(ring, geometry);
            Ok(())
        }
        Err(error) => {
            queue.lose();
            Err(error)
        }
    }
}

/// `ibv_modify_cq()`.
///
/// # Safety
///
/// `cq` came from [`create_cq`], `attr` is readable.
pub(crate) unsafe extern "C" fn modify_cq(
    cq: *mut c::ibv_cq,
    attr: *mut c::ibv_modify_cq_attr,
) -> c_int {
    let mut cmd = c::ibv_modify_cq::default();
    // SAFETY: By this function's contract; the command lives through the call.
    unsafe { c::ibv_cmd_modify_cq(cq, attr, &mut cmd, size_of_val(&cmd)) }
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
