// SPDX-License-Identifier: GPL-2.0

//! Events that a driver reports about its objects.
//!
//! Work in flight may hold on to its side of an object for longer than ib_core keeps the object
//! itself. So a driver's data path does not get the object, but [`Events`], which ib_core's
//! destruction of the object turns into a no-op.

use core::ptr::NonNull;

use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};

pub use super::event_kind::{
    QpEvent,
    SrqEvent, //
};

/// The object that events are for, until it is severed.
///
/// # Invariants
///
/// A pointer in `object` is to a live object of ib_core. The lock is held while it is used.
#[pin_data]
struct Target<R> {
    #[pin]
    object: SpinLockIrq<Option<Object<R>>>,
}

/// A pointer to an object of ib_core, used only under the lock of its [`Target`].
struct Object<R>(NonNull<R>);

// SAFETY: Objects of ib_core do not depend on the thread they are used from.
unsafe impl<R> Send for Object<R> {}

/// Reports events about one object of ib_core.
///
/// May be used in any context but NMI.
pub struct Events<R>(Arc<Target<R>>);

impl<R> Clone for Events<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Reports events about a completion queue.
pub type CqEvents = Events<bindings::ib_cq>;

/// Reports events about a queue pair.
pub type QpEvents = Events<bindings::ib_qp>;

/// Reports events about a shared receive queue.
pub type SrqEvents = Events<bindings::ib_srq>;

impl<R> Events<R> {
    /// Makes events about `object`.
    ///
    /// # Safety
    ///
    /// `object` must stay valid until [`Self::sever`] has returned.
    pub(super) unsafe fn new(object: NonNull<R>) -> Result<Self> {
        // INVARIANT: The caller promises that the object lives until it is severed.
        let target = Arc::pin_init(
            pin_init!(Target {
                object <- new_spinlock_irq!(Some(Object(object)), "rdma_events"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(target))
    }

    /// Returns the object, unless it is severed. It lives for as long as ib_core keeps it.
    pub(super) fn object(&self) -> Option<NonNull<R>> {
        self.0.object.lock().as_ref().map(|object| object.0)
    }

    /// Turns this and all clones into no-ops; no report is under way any more on return.
    pub(super) fn sever(&self) {
        *self.0.object.lock() = None;
    }
}

impl CqEvents {
    /// Wakes whoever asked to be notified of a completion.
    pub fn completed(&self) {
        let guard = self.0.object.lock();
        let Some(cq) = guard.as_ref().map(|object| object.0.as_ptr()) else {
            return;
        };
        // SAFETY: By the type invariant of `Target` the CQ is live, and these members do not
        // change after its creation.
        let (handler, context) = unsafe { ((*cq).comp_handler, (*cq).cq_context) };
        if let Some(handler) = handler {
            // SAFETY: The handler was set for this CQ and context by whoever created the CQ. It
            // may be called from any context.
            unsafe { handler(cq, context) };
        }
    }

    /// Reports that the completion queue is unusable, for instance because it overflowed.
    pub fn failed(&self) {
        let guard = self.0.object.lock();
        let Some(cq) = guard.as_ref().map(|object| object.0.as_ptr()) else {
            return;
        };
        // SAFETY: By the type invariant of `Target` the CQ is live, and these members do not
        // change after its creation.
        let (handler, context) = unsafe { ((*cq).event_handler, (*cq).cq_context) };
        if let Some(handler) = handler {
            let mut event = bindings::ib_event {
                // SAFETY: As above.
                device: unsafe { (*cq).device },
                element: bindings::ib_event__bindgen_ty_1 { cq },
                event: bindings::ib_event_type_IB_EVENT_CQ_ERR,
            };
            // SAFETY: The handler was set for this CQ and context by whoever created the CQ. It
            // may be called from any context.
            unsafe { handler(&raw mut event, context) };
        }
    }
}

impl QpEvents {
    /// Reports `event`.
    pub fn report(&self, event: QpEvent) {
        let guard = self.0.object.lock();
        let Some(qp) = guard.as_ref().map(|object| object.0.as_ptr()) else {
            return;
        };
        // SAFETY: By the type invariant of `Target` the QP is live, and these members do not
        // change after its creation.
        let (handler, context) = unsafe { ((*qp).event_handler, (*qp).qp_context) };
        if let Some(handler) = handler {
            let mut event = bindings::ib_event {
                // SAFETY: As above.
                device: unsafe { (*qp).device },
                element: bindings::ib_event__bindgen_ty_1 { qp },
                // CAST: The enumeration has the values of the C one.
                event: event as u32,
            };
            // SAFETY: The handler was set for this QP and context by ib_core.
            unsafe { handler(&raw mut event, context) };
        }
    }
}

impl SrqEvents {
    /// Reports `event`.
    pub fn report(&self, event: SrqEvent) {
        let guard = self.0.object.lock();
        let Some(srq) = guard.as_ref().map(|object| object.0.as_ptr()) else {
            return;
        };
        // SAFETY: By the type invariant of `Target` the SRQ is live, and these members do not
        // change after its creation.
        let (handler, context) = unsafe { ((*srq).event_handler, (*srq).srq_context) };
        if let Some(handler) = handler {
            let mut event = bindings::ib_event {
                // SAFETY: As above.
                device: unsafe { (*srq).device },
                element: bindings::ib_event__bindgen_ty_1 { srq },
                // CAST: The enumeration has the values of the C one.
                event: event as u32,
            };
            // SAFETY: The handler was set for this SRQ and context by whoever created it. It may
            // be called from any context.
            unsafe { handler(&raw mut event, context) };
        }
    }
}
