// SPDX-License-Identifier: GPL-2.0

//! Memory windows: keys for part of a memory region, given out and taken back by work requests.
//!
//! A window of type 1 is bound to a region at most, and again without being invalidated. One of type
//! 2 is bound to the queue pair that bound it, too (the specification's type 2B), and must be
//! invalidated before it is bound again. IBTA 1.4, 10.6.7.

use super::mr::{
    access,
    AccessError,
    Mr, //
};
use crate::sync::{
    id_table::IdTable,
    lock_bh::{
        new_spinlock_bh,
        SpinLockBh, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

/// Rights that a window can give, or be asked for: local ones mean nothing for it.
const ACCESS: u32 = access::LOCAL_WRITE
    | access::REMOTE_WRITE
    | access::REMOTE_READ
    | access::REMOTE_ATOMIC
    | access::ZERO_BASED;

/// Bits of a key that its owner chooses.
const TAG_BITS: u32 = 8;

/// Index parts of keys: regions have those below, so no key is that of both.
const INDICES: core::ops::Range<u32> = 2 * super::mr::MAX_MR..1 << (32 - TAG_BITS);

/// A type of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    One,
    Two,
}

/// Where a window looks.
struct Binding {
    mr: Arc<Mr>,
    addr: u64,
    len: u64,
    access: u32,
    /// The queue pair of a type 2 window, by [`super::qp::Qp::serial`].
    qp: u64,
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.mr.unbound();
    }
}

/// What a bind work request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bind {
    /// Key that the window has so far.
    pub(crate) old_rkey: u32,
    /// Key that it gets; only the part that its owner chooses is looked at.
    pub(crate) rkey: u32,
    pub(crate) lkey: u32,
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) access: u32,
}

/// The work request asks for something that the window cannot do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindError;

struct Inner {
    key: u32,
    binding: Option<Binding>,
}

/// A memory window.
#[pin_data]
pub(crate) struct Mw {
    pd: u32,
    kind: Kind,
    #[pin]
    inner: SpinLockBh<Inner>,
}

impl Mw {
    /// Returns the key that the window has now.
    pub(crate) fn key(&self) -> u32 {
        self.inner.lock().key
    }
}

/// Memory that a peer may use.
pub(crate) struct Remote {
    pub(crate) mr: Arc<Mr>,
    /// Address of the first byte in the region.
    pub(crate) va: u64,
}

/// All memory windows of a device, by the index part of their keys.
pub(crate) struct MwTable {
    table: Pin<KBox<IdTable<Mw>>>,
    /// The changing part of the next key.
    tag: Atomic<u32>,
}

impl MwTable {
    /// Makes an empty table.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            table: KBox::pin_init(IdTable::new(), GFP_KERNEL)?,
            tag: Atomic::new(0),
        })
    }

    /// Makes a window that is not bound, and gives it a key. Process context.
    ///
    /// Errors: `ENOMEM`, or what the table says when all keys are in use.
    pub(crate) fn alloc(&self, pd: u32, kind: Kind) -> Result<Arc<Mw>> {
        let mw = Arc::pin_init(
            pin_init!(Mw {
                pd,
                kind,
                inner <- new_spinlock_bh!(Inner {
                    key: 0,
                    binding: None,
                }),
            }),
            GFP_KERNEL,
        )?;
        let index = self.table.alloc(INDICES, mw.clone())?;
        let tag = self.tag.fetch_add(1, Relaxed) & ((1 << TAG_BITS) - 1);
        mw.inner.lock().key = index << TAG_BITS | tag;
        Ok(mw)
    }

    /// Takes a window out, bound or not; when this returns nobody uses it any more. Process
    /// context, may sleep.
    pub(crate) fn dealloc(&self, mw: &Mw) {
        drop(self.table.remove(mw.key() >> TAG_BITS));
        drop(mw.inner.lock().binding.take());
    }

    /// Whether a protection domain has any window. Process context.
    pub(crate) fn has_any(&self, pd: u32) -> bool {
        let mut any = false;
        self.table.for_each(|_, mw| any |= mw.pd == pd);
        any
    }

    /// Whether a key is one that a window can have.
    pub(crate) fn owns(key: u32) -> bool {
        INDICES.contains(&(key >> TAG_BITS))
    }

    /// Context as for [`super::mr::MrTable::get`].
    fn with<R>(&self, key: u32, f: impl FnOnce(&Mw, &mut Inner) -> R) -> Option<R> {
        let mw = self.table.lookup(key >> TAG_BITS)?;
        let mut inner = mw.inner.lock();
        (inner.key == key).then(|| f(&mw, &mut inner))
    }

    /// Carries out a bind work request of a queue pair. `mr` is the region with the key
    /// [`Bind::lkey`], if there is one. Context as for [`super::mr::MrTable::get`].
    pub(crate) fn bind(
        &self,
        (pd, qp): (u32, u64),
        bind: &Bind,
        mr: Option<&Arc<Mr>>,
    ) -> Result<(), BindError> {
        self.with(bind.old_rkey, |mw, inner| {
            let free = mw.kind == Kind::One || inner.binding.is_none();
            // A window of type 1 is unbound by binding it to nothing.
            let nothing = bind.len == 0;
            let based = mw.kind == Kind::Two || bind.access & access::ZERO_BASED == 0;
            let fine = mw.pd == pd && free && based && bind.access & !ACCESS == 0;
            if !fine || nothing && mw.kind == Kind::Two {
                return Err(BindError);
            }
            let binding = if nothing {
                None
            } else {
                Some(new_binding(pd, qp, bind, mr)?)
            };
            inner.binding = binding;
            let mask = (1 << TAG_BITS) - 1;
            inner.key = inner.key & !mask | bind.rkey & mask;
            Ok(())
        })
        .unwrap_or(Err(BindError))
    }

    /// Whether the queue pair may invalidate a key.
    pub(crate) fn may_invalidate(&self, qp: u64, key: u32) -> bool {
        self.with(key, |mw, inner| mw.is_bound_to(inner, qp)) == Some(true)
    }

    /// Invalidates a key of a window that is bound to the queue pair. Returns whether it was.
    pub(crate) fn invalidate(&self, qp: u64, key: u32) -> bool {
        let unbound = self.with(key, |mw, inner| {
            if mw.is_bound_to(inner, qp) {
                inner.binding.take()
            } else {
                None
            }
        });
        matches!(unbound, Some(Some(_)))
    }

    /// Returns the memory behind `len` bytes at `va` of the window with key `key`, if a peer may
    /// use it with the rights `rights` through a queue pair of domain `pd`.
    pub(crate) fn get(
        &self,
        (pd, qp): (u32, u64),
        key: u32,
        va: u64,
        len: u64,
        rights: u32,
    ) -> Result<Remote, AccessError> {
        self.with(key, |mw, inner| {
            if mw.pd != pd {
                return Err(AccessError::Domain);
            }
            let binding = inner.binding.as_ref().ok_or(AccessError::Key)?;
            if mw.kind == Kind::Two && binding.qp != qp {
                return Err(AccessError::Domain);
            }
            if binding.access & rights != rights {
                return Err(AccessError::Rights);
            }
            let base = if binding.access & access::ZERO_BASED != 0 {
                0
            } else {
                binding.addr
            };
            let offset = va.checked_sub(base).ok_or(AccessError::Bounds)?;
            match offset.checked_add(len) {
                Some(end) if end <= binding.len => Ok(Remote {
                    mr: binding.mr.clone(),
                    va: binding.addr.wrapping_add(offset),
                }),
                _ => Err(AccessError::Bounds),
            }
        })
        .unwrap_or(Err(AccessError::Key))
    }
}

impl Mw {
    fn is_bound_to(&self, inner: &Inner, qp: u64) -> bool {
        self.kind == Kind::Two && inner.binding.as_ref().is_some_and(|b| b.qp == qp)
    }
}

/// Checks what a window is to be bound to.
fn new_binding(pd: u32, qp: u64, bind: &Bind, mr: Option<&Arc<Mr>>) -> Result<Binding, BindError> {
    let mr = mr.ok_or(BindError)?;
    let mut needed = access::MW_BIND;
    if bind.access & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0 {
        needed |= access::LOCAL_WRITE;
    }
    mr.check(pd, bind.addr, bind.len, needed)
        .map_err(|_| BindError)?;
    if !mr.bound() {
        return Err(BindError);
    }
    Ok(Binding {
        mr: mr.clone(),
        addr: bind.addr,
        len: bind.len,
        access: bind.access,
        qp,
    })
}
