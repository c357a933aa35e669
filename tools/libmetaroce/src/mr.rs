// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Memory regions. They are the kernel's; nothing is kept here.

use crate::bindings as c;
use crate::errno::Errno;
use crate::object::{allocate, Object, Verbs};
use core::ffi::{c_int, c_void};
use core::ptr;

/// A memory region.
#[repr(C)]
struct Mr {
    verbs: Verbs<c::verbs_mr>,
}

// SAFETY: `verbs` is the first member.
unsafe impl Object for Mr {
    type Verbs = c::verbs_mr;
}

// libibverbs passes on a pointer to the first member of `verbs_mr`.
const _: () = assert!(core::mem::offset_of!(c::verbs_mr, ibv_mr) == 0);

/// `ibv_reg_mr()`.
///
/// # Safety
///
/// `pd` is a protection domain of this provider.
pub(crate) unsafe extern "C" fn reg_mr(
    pd: *mut c::ibv_pd,
    addr: *mut c_void,
    length: usize,
    hca_va: u64,
    access: c_int,
) -> *mut c::ibv_mr {
    let mut cmd = c::ibv_reg_mr::default();
    let mut resp = c::ib_uverbs_reg_mr_resp::default();

    let mr = match allocate(Mr {
        verbs: Verbs::new(),
    }) {
        Ok(mr) => mr,
        Err(error) => return error.null(),
    };
    // SAFETY: The domain is the caller's, everything else lives through the call. The kernel
    // checks the range.
    let ret = unsafe {
        c::ibv_cmd_reg_mr(
            pd,
            addr,
            length,
            hca_va,
            access,
            mr.verbs.as_ptr(),
            &mut cmd,
            size_of_val(&cmd),
            &mut resp,
            size_of_val(&resp),
        )
    };
    match Errno::check(ret) {
        Ok(()) => mr.into_verbs().cast(),
        Err(error) => error.null(),
    }
}

/// `ibv_reg_dmabuf_mr()`.
///
/// # Safety
///
/// `pd` is a protection domain of this provider.
pub(crate) unsafe extern "C" fn reg_dmabuf_mr(
    pd: *mut c::ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut c::ibv_mr {
    let mr = match allocate(Mr {
        verbs: Verbs::new(),
    }) {
        Ok(mr) => mr,
        Err(error) => return error.null(),
    };
    // SAFETY: The domain is the caller's, the region lives through the call. The kernel checks file
    // and range.
    let ret = unsafe {
        c::ibv_cmd_reg_dmabuf_mr(
            pd,
            offset,
            length,
            iova,
            fd,
            access,
            mr.verbs.as_ptr(),
            ptr::null_mut(),
        )
    };
    match Errno::check(ret) {
        Ok(()) => mr.into_verbs().cast(),
        Err(error) => error.null(),
    }
}

/// `ibv_rereg_mr()`.
///
/// # Safety
///
/// `mr` came from [`reg_mr`] or [`reg_dmabuf_mr`], `pd` is null or a protection domain of this provider.
pub(crate) unsafe extern "C" fn rereg_mr(
    mr: *mut c::verbs_mr,
    flags: c_int,
    pd: *mut c::ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let mut cmd = c::ibv_rereg_mr::default();
    let mut resp = c::ib_uverbs_rereg_mr_resp::default();
    // SAFETY: By this function's contract; command and response live through the call. The kernel
    // checks the range.
    unsafe {
        c::ibv_cmd_rereg_mr(
            mr,
            // CAST: a mask.
            flags as u32,
            addr,
            length,
            addr as u64,
            access,
            pd,
            &mut cmd,
            size_of_val(&cmd),
            &mut resp,
            size_of_val(&resp),
        )
    }
}

/// `ibv_dereg_mr()`.
///
/// # Safety
///
/// `mr` came from [`reg_mr`] or [`reg_dmabuf_mr`], and is not used afterwards if this succeeds.
pub(crate) unsafe extern "C" fn dereg_mr(mr: *mut c::verbs_mr) -> c_int {
    // SAFETY: By this function's contract.
    let ret = unsafe { c::ibv_cmd_dereg_mr(mr) };
    if ret == 0 {
        // SAFETY: The kernel's object is gone, and so is the application's interest.
        drop(unsafe { Mr::reclaim(mr) });
    }
    ret
}
