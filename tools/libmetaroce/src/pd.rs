// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Protection domains, which are the kernel's, and parent domains, which it does not know.

use crate::bindings as c;
use crate::errno::Errno;
use crate::object::{allocate, Object, Verbs};
use crate::td;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

/// A protection domain.
#[repr(C)]
struct Pd {
    verbs: Verbs<c::ibv_pd>,
    /// Parent domains over it.
    parents: AtomicU32,
    /// [`Some`] for a parent domain.
    parent: Option<Parent>,
}

/// What a parent domain consists of.
struct Parent {
    pd: *mut c::ibv_pd,
    /// Null if there is none.
    td: *mut c::ibv_td,
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
        parents: AtomicU32::new(0),
        parent: None,
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

/// `ibv_dealloc_pd()`, of a parent domain too.
///
/// # Safety
///
/// `pd` came from [`alloc_pd`] or [`alloc_parent_domain`] and is not used afterwards if this
/// succeeds.
pub(crate) unsafe extern "C" fn dealloc_pd(pd: *mut c::ibv_pd) -> c_int {
    // SAFETY: By this function's contract.
    let this = unsafe { Pd::from_verbs(pd) };
    if this.parents.load(Ordering::Relaxed) != 0 {
        return Errno::EBUSY.code();
    }
    if let Some(parent) = &this.parent {
        // SAFETY: Neither the domain nor the thread domain can have gone before.
        unsafe {
            Pd::from_verbs(parent.pd)
                .parents
                .fetch_sub(1, Ordering::Relaxed);
            td::release(parent.td);
            drop(Pd::reclaim(pd));
        }
        return 0;
    }
    // SAFETY: By this function's contract.
    let ret = unsafe { c::ibv_cmd_dealloc_pd(pd) };
    if ret == 0 {
        // SAFETY: The kernel's object is gone, and so is the application's interest.
        drop(unsafe { Pd::reclaim(pd) });
    }
    ret
}

/// `ibv_alloc_parent_domain()`: another name for a domain, for objects of a thread domain.
///
/// Allocators are taken note of by the application only: what objects share with the kernel is the
/// kernel's memory.
///
/// # Safety
///
/// `context` is an open context of this provider, `attr` readable with what it names.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut c::ibv_context,
    attr: *mut c::ibv_parent_domain_init_attr,
) -> *mut c::ibv_pd {
    const KNOWN: u32 =
        c::IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | c::IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

    // SAFETY: By this function's contract.
    let attr = unsafe { &*attr };
    // SAFETY: A domain that is not null is one of this provider.
    let Some(inner) = (unsafe { attr.pd.cast::<Pd>().as_ref() }) else {
        return Errno::EINVAL.null();
    };
    if attr.comp_mask & !KNOWN != 0 {
        return Errno::EOPNOTSUPP.null();
    }
    // SAFETY: `inner` is live.
    if inner.parent.is_some() || unsafe { (*attr.pd).context } != context {
        return Errno::EINVAL.null();
    }
    let pd = match allocate(Pd {
        verbs: Verbs::new(),
        parents: AtomicU32::new(0),
        parent: Some(Parent {
            pd: attr.pd,
            td: attr.td,
        }),
    }) {
        Ok(pd) => pd,
        Err(error) => return error.null(),
    };
    inner.parents.fetch_add(1, Ordering::Relaxed);
    // SAFETY: The objects are live.
    unsafe {
        td::hold(attr.td);
        // The kernel knows one domain only.
        let verbs = pd.verbs.as_ptr();
        (*verbs).context = (*attr.pd).context;
        (*verbs).handle = (*attr.pd).handle;
    }
    pd.into_verbs()
}

/// Returns whether objects of a domain are used in one thread at a time; [`None`] if it is null.
///
/// # Safety
///
/// `pd` is null or a domain of this provider.
pub(crate) unsafe fn is_single_threaded(pd: *mut c::ibv_pd) -> Option<bool> {
    // SAFETY: By this function's contract.
    let pd = unsafe { pd.cast::<Pd>().as_ref() }?;
    Some(
        pd.parent
            .as_ref()
            .is_some_and(|parent| !parent.td.is_null()),
    )
}
