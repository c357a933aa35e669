// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Queue pairs.

use crate::abi::{CreateQp, CreateQpEx, CreateQpExResp, CreateQpResp, Doorbell};
use crate::bindings as c;
use crate::cq::Cq;
use crate::errno::Errno;
use crate::lock::Lock;
use crate::mapping::map_ring;
use crate::object::{allocate, Object, Verbs};
use crate::pd;
use crate::post::post_list;
use crate::qp_ex;
use crate::recv::RecvQueue;
use crate::send::{SendLimits, SendQueue};
use core::ffi::c_int;
use core::ptr;

/// A queue pair.
#[repr(C)]
pub(crate) struct Qp {
    verbs: Verbs<c::verbs_qp>,
    /// [`None`] only until the kernel has made the queue pair.
    pub(crate) sq: Option<Lock<SendQueue>>,
    /// [`None`] until then, and for a queue pair without receives of its own.
    rq: Option<Lock<RecvQueue>>,
}

// SAFETY: `verbs` is the first member, and `ibv_qp` is at the start of it: of the union that is
// the first member of `verbs_qp`.
unsafe impl Object for Qp {
    type Verbs = c::ibv_qp;
}

const _: () = assert!(core::mem::offset_of!(c::verbs_qp, __bindgen_anon_1) == 0);

impl Qp {
    fn ibqp(&self) -> *mut c::ibv_qp {
        self.verbs.as_ptr().cast()
    }

    /// Returns the state as libibverbs remembers it; the kernel may have left it since.
    pub(crate) fn state(&self) -> c::ibv_qp_state {
        // SAFETY: The object is live. libibverbs writes the word without a lock: an application
        // that posts while it modifies gets one state or the other.
        unsafe { ptr::read_volatile(&raw const (*self.ibqp()).state) }
    }

    /// Wakes the kernel: it looks at both queues.
    fn ring_doorbell(&self) -> Result<(), Errno> {
        let mut resp = c::ib_uverbs_post_send_resp::default();
        // SAFETY: The object is live, and these do not change while it is.
        let (fd, handle) = unsafe {
            let qp = self.ibqp();
            ((*(*qp).context).cmd_fd, (*qp).handle)
        };
        let cmd = Doorbell::new(handle, &mut resp);
        // SAFETY: The command is as long as said, and the response that it points to lives
        // through the call.
        let written = unsafe { c::write(fd, ptr::from_ref(&cmd).cast(), size_of::<Doorbell>()) };
        if written < 0 {
            return Err(Errno::last());
        }
        Ok(())
    }

    /// Removes the completions of this queue pair that were not polled.
    fn purge(&self) {
        // SAFETY: The object is live; the application destroys a completion queue only after all
        // queue pairs that use it.
        let (num, cqs) = unsafe {
            let qp = self.ibqp();
            ((*qp).qp_num, [(*qp).send_cq, (*qp).recv_cq])
        };
        let [send, recv] = cqs;
        for cq in [Some(send), (recv != send).then_some(recv)] {
            if let Some(cq) = cq.filter(|cq| !cq.is_null()) {
                // SAFETY: As above. A damaged ring shows when it is polled.
                let _ = unsafe { Cq::from_verbs(cq) }.purge(num);
            }
        }
    }
}

/// `ibv_create_qp()`.
///
/// # Safety
///
/// `pd` is a protection domain of this provider and `attr` names objects of it.
pub(crate) unsafe extern "C" fn create_qp(
    pd: *mut c::ibv_pd,
    attr: *mut c::ibv_qp_init_attr,
) -> *mut c::ibv_qp {
    // SAFETY: By this function's contract.
    match unsafe { create(pd, attr) } {
        Ok(qp) => qp.into_verbs(),
        Err(error) => error.null(),
    }
}

/// Creates the queue pair and maps its rings.
///
/// # Safety
///
/// As for [`create_qp`].
unsafe fn create(pd: *mut c::ibv_pd, attr: *mut c::ibv_qp_init_attr) -> Result<Box<Qp>, Errno> {
    let mut cmd = CreateQp::default();
    let mut resp = CreateQpResp::default();
    let mut qp = allocate(Qp {
        verbs: Verbs::new(),
        sq: None,
        rq: None,
    })?;

    // SAFETY: Domain and attributes are the caller's, and everything else lives through the call;
    // command and response are as long as they say.
    Errno::check(unsafe {
        c::ibv_cmd_create_qp(
            pd,
            qp.ibqp(),
            attr,
            &mut cmd.core,
            size_of::<CreateQp>(),
            &mut resp.core,
            size_of::<CreateQpResp>(),
        )
    })?;

    // SAFETY: The caller's; libibverbs has put the limits that the kernel granted into `cap`.
    let (fd, cap, signal_all, is_datagram) = unsafe {
        (
            (*(*pd).context).cmd_fd,
            (*attr).cap,
            (*attr).sq_sig_all != 0,
            (*attr).qp_type == c::IBV_QPT_UD,
        )
    };
    let limits = SendLimits {
        max_sge: cap.max_send_sge,
        max_inline: cap.max_inline_data,
        signal_all,
        is_datagram,
    };
    // SAFETY: The caller's domain.
    let single = unsafe { pd::is_single_threaded(pd) }.unwrap_or(false);
    if let Err(error) = map_queues(&mut qp, fd, limits, cap.max_recv_sge, single, &resp.drv) {
        // SAFETY: Created above, and nobody else knows it.
        unsafe { c::ibv_cmd_destroy_qp(qp.ibqp()) };
        return Err(error);
    }
    Ok(qp)
}

/// `ibv_create_qp_ex()`.
///
/// # Safety
///
/// `context` is an open context of this provider and `attr` names objects of it.
pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut c::ibv_context,
    attr: *mut c::ibv_qp_init_attr_ex,
) -> *mut c::ibv_qp {
    // SAFETY: By this function's contract.
    match unsafe { create_ex(context, &mut *attr) } {
        Ok(qp) => qp.into_verbs(),
        Err(error) => error.null(),
    }
}

/// Creates the queue pair, maps its rings, and sets what it can post by calls.
///
/// # Safety
///
/// As for [`create_qp_ex`].
unsafe fn create_ex(
    context: *mut c::ibv_context,
    attr: &mut c::ibv_qp_init_attr_ex,
) -> Result<Box<Qp>, Errno> {
    const KNOWN: u32 = c::IBV_QP_INIT_ATTR_PD
        | c::IBV_QP_INIT_ATTR_CREATE_FLAGS
        | c::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

    if attr.comp_mask & !KNOWN != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if attr.comp_mask & c::IBV_QP_INIT_ATTR_PD == 0 {
        return Err(Errno::EINVAL);
    }
    let by_calls = attr.comp_mask & c::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
    if by_calls {
        qp_ex::check(attr.qp_type, attr.send_ops_flags)?;
    }
    let mut cmd = CreateQpEx::default();
    let mut resp = CreateQpExResp::default();
    let mut qp = allocate(Qp {
        verbs: Verbs::new(),
        sq: None,
        rq: None,
    })?;
    let verbs = qp.verbs.as_ptr();

    // SAFETY: Context and attributes are the caller's, and everything else lives through the call;
    // command and response are as long as they say.
    Errno::check(unsafe {
        c::ibv_cmd_create_qp_ex2(
            context,
            verbs,
            attr,
            &mut cmd.core,
            size_of::<CreateQpEx>(),
            &mut resp.core,
            size_of::<CreateQpExResp>(),
        )
    })?;

    if by_calls {
        // libibverbs has cleared the mask.
        // SAFETY: Nobody else knows the object yet.
        let verbs = unsafe { &mut *verbs };
        verbs.comp_mask |= c::VERBS_QP_EX;
        // SAFETY: All members of the union are integers, pointers and optional functions; what is
        // not set is zero.
        let ex = unsafe { &mut verbs.__bindgen_anon_1.qp_ex };
        qp_ex::set_ops(ex, attr.send_ops_flags);
    }
    // SAFETY: The caller's context and domain.
    let (fd, single) = unsafe {
        (
            (*context).cmd_fd,
            pd::is_single_threaded(attr.pd).unwrap_or(false),
        )
    };
    let limits = SendLimits {
        max_sge: attr.cap.max_send_sge,
        max_inline: attr.cap.max_inline_data,
        signal_all: attr.sq_sig_all != 0,
        is_datagram: attr.qp_type == c::IBV_QPT_UD,
    };
    let recv_sge = attr.cap.max_recv_sge;
    if let Err(error) = map_queues(&mut qp, fd, limits, recv_sge, single, &resp.drv) {
        // SAFETY: Created above, and nobody else knows it.
        unsafe { c::ibv_cmd_destroy_qp(qp.ibqp()) };
        return Err(error);
    }
    Ok(qp)
}

/// Maps the rings of a new queue pair.
fn map_queues(
    qp: &mut Qp,
    fd: c_int,
    limits: SendLimits,
    max_recv_sge: u32,
    single: bool,
    drv: &c::metaroce_create_qp_resp,
) -> Result<(), Errno> {
    let (ring, geometry) = map_ring(
        fd,
        drv.sq_mmap_offset,
        drv.sq_mmap_size,
        drv.sq_entries,
        drv.sq_stride,
    )?;
    qp.sq = Some(Lock::new(SendQueue::new(ring, geometry, limits), single));

    if drv.rq_entries != 0 {
        let (ring, geometry) = map_ring(
            fd,
            drv.rq_mmap_offset,
            drv.rq_mmap_size,
            drv.rq_entries,
            drv.rq_stride,
        )?;
        let queue = RecvQueue::new(ring, geometry, max_recv_sge);
        qp.rq = Some(Lock::new(queue, single));
    }
    Ok(())
}

/// `ibv_modify_qp()`.
///
/// # Safety
///
/// `qp` came from [`create_qp`], `attr` is readable.
pub(crate) unsafe extern "C" fn modify_qp(
    qp: *mut c::ibv_qp,
    attr: *mut c::ibv_qp_attr,
    attr_mask: c_int,
) -> c_int {
    let mut cmd = c::ibv_modify_qp::default();
    // SAFETY: By this function's contract; the command lives through the call.
    let ret = unsafe { c::ibv_cmd_modify_qp(qp, attr, attr_mask, &mut cmd, size_of_val(&cmd)) };

    // CAST: a mask.
    if ret == 0 && attr_mask as u32 & c::IBV_QP_STATE != 0 {
        // SAFETY: By this function's contract.
        let (state, qp) = unsafe { ((*attr).qp_state, Qp::from_verbs(qp)) };
        if state == c::IBV_QPS_RESET {
            // The kernel has emptied the rings of work; what had completed is void as well.
            qp.purge();
        }
    }
    ret
}

/// `ibv_query_qp()`.
///
/// # Safety
///
/// `qp` came from [`create_qp`], `attr` and `init_attr` are writable.
pub(crate) unsafe extern "C" fn query_qp(
    qp: *mut c::ibv_qp,
    attr: *mut c::ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut c::ibv_qp_init_attr,
) -> c_int {
    let mut cmd = c::ibv_query_qp::default();
    // SAFETY: By this function's contract; the command lives through the call.
    unsafe { c::ibv_cmd_query_qp(qp, attr, attr_mask, init_attr, &mut cmd, size_of_val(&cmd)) }
}

/// `ibv_destroy_qp()`.
///
/// # Safety
///
/// `qp` came from [`create_qp`] and is not used afterwards if this succeeds.
pub(crate) unsafe extern "C" fn destroy_qp(qp: *mut c::ibv_qp) -> c_int {
    // SAFETY: By this function's contract.
    let ret = unsafe { c::ibv_cmd_destroy_qp(qp) };
    if ret == 0 {
        // SAFETY: The kernel's object is gone, and so is the application's interest.
        let qp = unsafe { Qp::reclaim(qp) };
        // The kernel adds no completions any more, and nobody expects those of a queue pair that
        // does not exist.
        qp.purge();
    }
    ret
}

/// `ibv_post_send()`.
///
/// # Safety
///
/// `qp` came from [`create_qp`], `wr` is a list of work requests with what they point to, `bad_wr`
/// is writable.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut c::ibv_qp,
    wr: *mut c::ibv_send_wr,
    bad_wr: *mut *mut c::ibv_send_wr,
) -> c_int {
    // SAFETY: By this function's contract.
    let qp = unsafe { Qp::from_verbs(qp) };
    let sq = qp.sq.as_ref().filter(|_| may_send(qp.state()));
    // SAFETY: By this function's contract.
    unsafe { post_list(sq, wr, bad_wr, |doorbell| ring_if(qp, doorbell)) }
}

/// `ibv_post_recv()`.
///
/// # Safety
///
/// As for [`post_send`].
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut c::ibv_qp,
    wr: *mut c::ibv_recv_wr,
    bad_wr: *mut *mut c::ibv_recv_wr,
) -> c_int {
    // SAFETY: By this function's contract.
    let qp = unsafe { Qp::from_verbs(qp) };
    let rq = qp.rq.as_ref().filter(|_| qp.state() != c::IBV_QPS_RESET);
    // SAFETY: By this function's contract.
    unsafe { post_list(rq, wr, bad_wr, |doorbell| ring_if(qp, doorbell)) }
}

/// Rings the doorbell if publishing said so. The queue's lock is not held: the system call may
/// do work on the caller's time, and other threads may post meanwhile.
pub(crate) fn ring_if(qp: &Qp, doorbell: bool) -> Result<(), Errno> {
    if doorbell {
        qp.ring_doorbell()?;
    }
    Ok(())
}

/// Returns whether work may be posted to the send queue. In the error states it is flushed.
pub(crate) fn may_send(state: c::ibv_qp_state) -> bool {
    matches!(
        state,
        c::IBV_QPS_RTS | c::IBV_QPS_SQD | c::IBV_QPS_SQE | c::IBV_QPS_ERR
    )
}
