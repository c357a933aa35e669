// SPDX-License-Identifier: GPL-2.0

//! The workqueue of ib_core.

use kernel::workqueue::Queue;

/// Returns ib_core's workqueue, for work that belongs to no device.
///
/// What a driver puts there is done when the drop of its
/// [`link::Registration`](super::link::Registration) has returned.
pub fn queue() -> &'static Queue {
    // SAFETY: The queue exists as long as ib_core, which this module depends on.
    unsafe { Queue::from_raw(bindings::ib_wq.cast()) }
}

/// Waits for all work that is in the queue.
pub(super) fn flush() {
    // SAFETY: The queue exists as above; callers may sleep.
    unsafe { bindings::metaroce_flush_ib_wq() };
}
