// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Memory windows.

use crate::bindings as c;
use crate::errno::{self, Errno};
use crate::object::{allocate, Object, Verbs};
use crate::qp;
use core::ffi::c_int;
use core::ptr;

/// A memory window.
#[repr(C)]
struct Mw {
    verbs: Verbs<c::ibv_mw>,
}

// SAFETY: `verbs` is the first member.
unsafe impl Object for Mw {
    type Verbs = c::ibv_mw;
}

/// `ibv_alloc_mw()`.
///
/// # Safety
///
/// `pd` is a protection domain of this provider.
pub(crate) unsafe extern "C" fn alloc_mw(
    pd: *mut c::ibv_pd,
    mw_type: c::ibv_mw_type,
) -> *mut c::ibv_mw {
    let mut cmd = c::ibv_alloc_mw::default();
    let mut resp = c::ib_uverbs_alloc_mw_resp::default();

    let mw = match allocate(Mw {
        verbs: Verbs::new(),
    }) {
        Ok(mw) => mw,
        Err(error) => return error.null(),
    };
    // SAFETY: The domain is the caller's, everything else lives through the call.
    let ret = unsafe {
        c::ibv_cmd_alloc_mw(
            pd,
            mw_type,
            mw.verbs.as_ptr(),
            &mut cmd,
            size_of_val(&cmd),
            &mut resp,
            size_of_val(&resp),
        )
    };
    match Errno::check(ret) {
        Ok(()) => mw.into_verbs(),
        Err(error) => error.null(),
    }
}

/// `ibv_dealloc_mw()`.
///
/// # Safety
///
/// `mw` came from [`alloc_mw`] and is not used afterwards if this succeeds.
pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut c::ibv_mw) -> c_int {
    // SAFETY: By this function's contract.
    let ret = unsafe { c::ibv_cmd_dealloc_mw(mw) };
    if ret == 0 {
        // SAFETY: The kernel's object is gone, and so is the application's interest.
        drop(unsafe { Mw::reclaim(mw) });
    }
    ret
}

/// `ibv_bind_mw()`: a work request for a window of type 1, whose next key the provider chooses.
///
/// # Safety
///
/// `qp` and `mw` are objects of this provider, `bind` is readable with what it points to.
pub(crate) unsafe extern "C" fn bind_mw(
    qp: *mut c::ibv_qp,
    mw: *mut c::ibv_mw,
    bind: *mut c::ibv_mw_bind,
) -> c_int {
    // SAFETY: By this function's contract.
    let (bind, rkey) = unsafe { (&*bind, (*mw).rkey) };
    let info = bind.bind_info;
    let nothing = info.addr == 0 && info.length == 0;
    if info.mw_access_flags & c::IBV_ACCESS_ZERO_BASED != 0 || info.mr.is_null() && !nothing {
        return Errno::EINVAL.code();
    }
    let rkey = next_key(rkey);
    let mut wr = c::ibv_send_wr {
        wr_id: bind.wr_id,
        opcode: c::IBV_WR_BIND_MW,
        send_flags: bind.send_flags,
        ..Default::default()
    };
    wr.__bindgen_anon_2.bind_mw = c::ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
        mw,
        rkey,
        bind_info: info,
    };
    let mut bad = ptr::null_mut();
    // SAFETY: A list of one work request, with the caller's objects.
    let ret = unsafe { qp::post_send(qp, &mut wr, &mut bad) };
    if ret == 0 {
        // SAFETY: By this function's contract.
        unsafe { (*mw).rkey = rkey };
    }
    errno::code(Errno::check(ret))
}

/// Returns the key after `rkey`, as `ibv_inc_rkey()` does: the last eight bits are the owner's.
fn next_key(rkey: u32) -> u32 {
    const OWN: u32 = 0xff;
    rkey & !OWN | rkey.wrapping_add(1) & OWN
}
