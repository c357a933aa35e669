// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Protection domains. They are the kernel's; nothing is kept here.

use crate::bindings as c;
use crate::errno::Errno;
use crate::object::{allocate, Object, Verbs};
use core::ffi::c_int;

/// A protection domain.
#[repr(C)]
struct Pd {
    verbs: Verbs<c::ibv_pd>,
}

// SAFETY: `verbs` is the first member.
unsafe impl Object for Pd {
    type Verbs = c::ibv_pd;
}

/// `ibv_alloc_pd()`.
///
/// # Safety
///
/// `context` is an open context of this provider.
pub(crate) unsafe extern "C" fn alloc_pd(context: *mut c::ibv_context) -> *mut c::ibv_pd {
    let mut cmd = c::ibv_alloc_pd::default();
    let mut resp = c::ib_uverbs_alloc_pd_resp::default();

    let pd = match allocate(Pd {
        verbs: Verbs::new(),
    }) {
        Ok(pd) => pd,
        Err(error) => return error.null(),
    };
    // SAFETY: The context is the caller's, everything else lives through the call.
    let ret = unsafe {
        c::ibv_cmd_alloc_pd(
            context,
            pd.verbs.as_ptr(),
            &mut cmd,
            size_of_val(&cmd),
            &mut resp,
            size_of_val(&resp),
        )
    };
    match Errno::check(ret) {
        Ok(()) => pd.into_verbs(),
        Err(error) => error.null(),
    }
}

/// `ibv_dealloc_pd()`.
///
/// # Safety
///
/// `pd` came from [`alloc_pd`] and is not used afterwards if this succeeds.
pub(crate) unsafe extern "C" fn dealloc_pd(pd: *mut c::ibv_pd) -> c_int {
    // SAFETY: By this function's contract.
    let ret = unsafe { c::ibv_cmd_dealloc_pd(pd) };
    if ret == 0 {
        // SAFETY: The kernel's object is gone, and so is the application's interest.
        drop(unsafe { Pd::reclaim(pd) });
    }
    ret
}
