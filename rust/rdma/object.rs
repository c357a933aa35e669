// SPDX-License-Identifier: GPL-2.0

//! Objects of ib_core with a driver's part.

use core::{
    alloc::Layout,
    cell::UnsafeCell,
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

use super::{
    event::Events,
    mmap,
    ops::Operations, //
};

/// A C object of ib_core and the driver's part of it.
///
/// ib_core allocates `size_…` zeroed bytes, passes the C object, which is at offset 0, to the
/// driver's `create` operation, and frees the memory after the `destroy` operation.
///
/// # Invariants
///
/// Whoever has a reference to an `Object` came to it between the success of `create` and the call
/// of `destroy`: both parts are initialised.
#[repr(C)]
pub struct Object<R, D> {
    raw: Opaque<R>,
    data: D,
}

/// A user context with the driver's part `D`.
pub(super) type Context<D> = Object<bindings::ib_ucontext, Mappable<D>>;

/// A user context: what a process that opened the device has.
pub type UserContext<T> = Context<<T as Operations>::UserContext>;

/// A protection domain.
pub type Pd<T> = Object<bindings::ib_pd, <T as Operations>::Pd>;

/// A completion queue.
pub type Cq<T> = Object<bindings::ib_cq, Reporting<bindings::ib_cq, <T as Operations>::Cq>>;

/// A queue pair.
pub type Qp<T> = Object<bindings::ib_qp, Reporting<bindings::ib_qp, <T as Operations>::Qp>>;

/// A shared receive queue.
pub type Srq<T> = Object<bindings::ib_srq, Reporting<bindings::ib_srq, <T as Operations>::Srq>>;

/// A memory region.
pub type Mr<T> = Object<bindings::ib_mr, <T as Operations>::Mr>;

/// A memory window.
pub type Mw<T> = Object<bindings::ib_mw, <T as Operations>::Mw>;

/// A counter for queue pairs; the driver's part is made when the first is bound to it.
///
/// # Invariants
///
/// The driver's part is accessed under the counter's lock only, or by whoever has it alone.
pub(super) type Counter<T> =
    Object<bindings::rdma_counter, UnsafeCell<Option<<T as Operations>::Counter>>>;

/// An address handle.
pub type Ah<T> = Object<bindings::ib_ah, <T as Operations>::Ah>;

impl<R, D> Object<R, D> {
    /// Size to allocate for ib_core's `size_…`.
    pub(super) const SIZE: usize = {
        assert!(core::mem::offset_of!(Self, raw) == 0);
        Layout::new::<Self>().pad_to_align().size()
    };

    /// Makes an object of its own memory.
    pub(super) fn new(raw: R, data: D) -> Self {
        Self {
            raw: Opaque::new(raw),
            data,
        }
    }

    /// Borrows the object from its C part.
    ///
    /// # Safety
    ///
    /// `raw` must point to the C part of an [`Object`] of these types that is initialised and not
    /// destroyed during `'a`.
    pub(super) unsafe fn from_raw<'a>(raw: *mut R) -> &'a Self {
        // SAFETY: The C part is at offset 0; the caller promises the rest.
        unsafe { &*raw.cast::<Self>() }
    }

    /// Initialises the driver's part.
    ///
    /// # Safety
    ///
    /// `raw` must point to [`Self::SIZE`] bytes, of which the driver's part is not initialised,
    /// and nobody else may use them.
    pub(super) unsafe fn init(raw: *mut R, data: D) {
        // SAFETY: By the requirements of this function the place is valid for writes.
        unsafe { (&raw mut (*raw.cast::<Self>()).data).write(data) };
    }

    /// Drops the driver's part.
    ///
    /// # Safety
    ///
    /// `raw` must point to an initialised object that nobody uses any more.
    pub(super) unsafe fn deinit(raw: *mut R) {
        // SAFETY: By the requirements of this function the part is initialised, and this is its
        // last use.
        unsafe { core::ptr::drop_in_place(&raw mut (*raw.cast::<Self>()).data) };
    }

    /// Returns the C part.
    pub(super) fn as_raw(&self) -> *mut R {
        self.raw.get()
    }
}

impl<R, D> Deref for Object<R, D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.data
    }
}

// SAFETY: ib_core's objects do not depend on the thread they are used from, and the driver's part
// is `Send`.
unsafe impl<R, D: Send> Send for Object<R, D> {}

// SAFETY: A shared reference gives access to the driver's part, which is `Sync`, and to members of
// the C part that do not change.
unsafe impl<R, D: Sync> Sync for Object<R, D> {}

/// The driver's part of a user context, and what the process can map.
pub struct Mappable<D> {
    data: D,
    entries: Arc<mmap::Entries>,
}

impl<D> Mappable<D> {
    pub(super) fn new(data: D) -> Result<Self> {
        Ok(Self {
            data,
            entries: mmap::Entries::new()?,
        })
    }
}

impl<D> Drop for Mappable<D> {
    fn drop(&mut self) {
        self.entries.close();
    }
}

impl<D> Deref for Mappable<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.data
    }
}

impl<D> Context<D> {
    /// Returns what the process can map.
    pub(super) fn entries(&self) -> &Arc<mmap::Entries> {
        &self.data.entries
    }
}

/// The driver's part of an object that reports events.
pub struct Reporting<R, D> {
    data: D,
    events: Events<R>,
}

impl<R, D> Deref for Reporting<R, D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.data
    }
}

impl<R, D> Object<R, Reporting<R, D>> {
    /// Initialises the driver's part, which `make` makes for the object's events; returns what else
    /// `make` does. The events come to nothing if that fails.
    ///
    /// # Safety
    ///
    /// As for [`Self::init`]; and the object must be taken back by [`Self::deinit_reporting`] before
    /// its memory is freed.
    pub(super) unsafe fn init_reporting<X>(
        raw: *mut R,
        make: impl FnOnce(Events<R>) -> Result<(D, X)>,
    ) -> Result<X> {
        // SAFETY: They are severed below if `make` fails, otherwise in `deinit_reporting`: the
        // object lives until then, as the caller promises.
        let events = unsafe { Events::new(NonNull::new(raw).ok_or(EINVAL)?) }?;
        let (data, rest) = make(events.clone()).inspect_err(|_| events.sever())?;
        // SAFETY: By the requirements of this function.
        unsafe { Self::init(raw, Reporting { data, events }) };
        Ok(rest)
    }

    /// Ends the reports, and drops the driver's part.
    ///
    /// # Safety
    ///
    /// As for [`Self::deinit`].
    pub(super) unsafe fn deinit_reporting(raw: *mut R) {
        // SAFETY: By the requirements of this function.
        unsafe { Self::from_raw(raw) }.data.events.sever();
        // SAFETY: By the requirements of this function.
        unsafe { Self::deinit(raw) };
    }
}

impl<D> Object<bindings::ib_qp, D> {
    /// Returns the number of the queue pair.
    pub fn qp_num(&self) -> u32 {
        // SAFETY: The member does not change after the creation of the queue pair.
        unsafe { (*self.as_raw()).qp_num }
    }
}
