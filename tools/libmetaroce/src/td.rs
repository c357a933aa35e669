// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Thread domains: promises that objects are used in one thread at a time. The kernel does not know
//! them.

use crate::bindings as c;
use crate::errno::Errno;
use crate::object::{allocate, Object, Verbs};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

/// A thread domain.
#[repr(C)]
struct Td {
    verbs: Verbs<c::ibv_td>,
    /// Parent domains that have it.
    users: AtomicU32,
}

// SAFETY: `verbs` is the first member.
unsafe impl Object for Td {
    type Verbs = c::ibv_td;
}

/// `ibv_alloc_td()`.
///
/// # Safety
///
/// `context` is an open context of this provider, `attr` is readable.
pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut c::ibv_context,
    attr: *mut c::ibv_td_init_attr,
) -> *mut c::ibv_td {
    // SAFETY: By this function's contract.
    if unsafe { (*attr).comp_mask } != 0 {
        return Errno::EOPNOTSUPP.null();
    }
    match allocate(Td {
        verbs: Verbs::new(),
        users: AtomicU32::new(0),
    }) {
        Ok(td) => {
            // SAFETY: Nobody else knows the object yet.
            unsafe { (*td.verbs.as_ptr()).context = context };
            td.into_verbs()
        }
        Err(error) => error.null(),
    }
}

/// `ibv_dealloc_td()`.
///
/// # Safety
///
/// `td` came from [`alloc_td`] and is not used afterwards if this succeeds.
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut c::ibv_td) -> c_int {
    // SAFETY: By this function's contract.
    if unsafe { Td::from_verbs(td) }.users.load(Ordering::Relaxed) != 0 {
        return Errno::EBUSY.code();
    }
    // SAFETY: Nothing refers to it any more.
    drop(unsafe { Td::reclaim(td) });
    0
}

/// Counts one more user of a thread domain, if there is one.
///
/// # Safety
///
/// `td` is null or came from [`alloc_td`].
pub(crate) unsafe fn hold(td: *mut c::ibv_td) {
    // SAFETY: By this function's contract.
    if let Some(td) = unsafe { td.cast::<Td>().as_ref() } {
        td.users.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes back what [`hold`] did.
///
/// # Safety
///
/// As for [`hold`], after it.
pub(crate) unsafe fn release(td: *mut c::ibv_td) {
    // SAFETY: By this function's contract.
    if let Some(td) = unsafe { td.cast::<Td>().as_ref() } {
        td.users.fetch_sub(1, Ordering::Relaxed);
    }
}
