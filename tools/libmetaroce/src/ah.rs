// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Address handles.

use crate::abi::CreateAhResp;
use crate::bindings as c;
use crate::errno::Errno;
use crate::object::{allocate, Object, Verbs};
use core::ffi::c_int;

/// An address handle.
#[repr(C)]
pub(crate) struct Ah {
    verbs: Verbs<c::ibv_ah>,
    /// By which work requests name it; the kernel looks it up.
    number: u32,
}

// SAFETY: `verbs` is the first member.
unsafe impl Object for Ah {
    type Verbs = c::ibv_ah;
}

impl Ah {
    /// Returns the number by which work requests name the handle.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

/// `ibv_create_ah()`.
///
/// # Safety
///
/// `pd` is a protection domain of this provider, `attr` is readable.
pub(crate) unsafe extern "C" fn create_ah(
    pd: *mut c::ibv_pd,
    attr: *mut c::ibv_ah_attr,
) -> *mut c::ibv_ah {
    let mut resp = CreateAhResp::default();
    let mut ah = match allocate(Ah {
        verbs: Verbs::new(),
        number: 0,
    }) {
        Ok(ah) => ah,
        Err(error) => return error.null(),
    };
    // SAFETY: Domain and attributes are the caller's, everything else lives through the call; the
    // response is as long as it says.
    let ret = unsafe {
        c::ibv_cmd_create_ah(
            pd,
            ah.verbs.as_ptr(),
            attr,
            &mut resp.core,
            size_of::<CreateAhResp>(),
        )
    };
    match Errno::check(ret) {
        Ok(()) => {
            ah.number = resp.drv.ah;
            ah.into_verbs()
        }
        Err(error) => error.null(),
    }
}

/// `ibv_destroy_ah()`.
///
/// # Safety
///
/// `ah` came from [`create_ah`] and is not used afterwards if this succeeds.
pub(crate) unsafe extern "C" fn destroy_ah(ah: *mut c::ibv_ah) -> c_int {
    // SAFETY: By this function's contract.
    let ret = unsafe { c::ibv_cmd_destroy_ah(ah) };
    if ret == 0 {
        // SAFETY: The kernel's object is gone, and so is the application's interest.
        drop(unsafe { Ah::reclaim(ah) });
    }
    ret
}
