// SPDX-License-Identifier: GPL-2.0

//! The workqueue of ib_core, and one for what may take as long as a process likes.

use crate::sync::{
    global_mutex::global_mutex,
    work::OwnedQueue, //
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    workqueue::Queue, //
};

global_mutex! {
    /// The queue of [`fetching`]: there while there can be devices.
    pub(super) static FETCHING: Option<OwnedQueue> = None;
}

/// Returns ib_core's workqueue, for work that belongs to no device.
///
/// What a driver puts there is done when the drop of its
/// [`link::Registration`](super::link::Registration) has returned.
pub fn queue() -> &'static Queue {
    // SAFETY: The queue exists as long as ib_core, which this module depends on.
    unsafe { Queue::from_raw(bindings::ib_wq.cast()) }
}

/// Returns the queue for fetching memory of processes.
///
/// Pages can come from the process itself, or from a file system that it runs, and then whoever
/// waits for the queue waits for the process. Nobody does, until the module goes.
///
/// # Errors
///
/// `ENODEV` if that is going.
///
/// # Safety
///
/// To be used only for a device, and by what is in the queue.
pub(super) unsafe fn fetching() -> Result<&'static Queue> {
    let fetching = FETCHING.lock();
    let queue: *const Queue = fetching.as_ref().ok_or(ENODEV)?.deref();
    // SAFETY: The queue is freed when all devices are gone, and what is in it has run.
    Ok(unsafe { &*queue })
}

/// Waits for all work that is in the queue.
pub(super) fn flush() {
    // SAFETY: The queue exists as above; callers may sleep.
    unsafe { bindings::metaroce_flush_ib_wq() };
}
