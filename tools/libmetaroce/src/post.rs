// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Posting lists of work requests.

use crate::errno::{self, Errno};
use crate::lock::Lock;
use core::ffi::c_int;

/// User space's side of a queue that work requests are posted to.
pub(crate) trait Queue {
    /// A work request, an element of a list.
    type Wr;

    /// Returns the work request behind `wr`, null if there is none.
    fn next(wr: &Self::Wr) -> *mut Self::Wr;

    /// Puts a work request into the ring, where the kernel sees it after
    /// [`publish`](Self::publish).
    ///
    /// # Safety
    ///
    /// What `wr` points to is readable, also the data if they are sent inline; the objects that
    /// it names are live.
    unsafe fn post(&mut self, wr: &Self::Wr) -> Result<(), Errno>;

    /// Shows what was posted to the kernel, and returns whether the doorbell must be rung.
    fn publish(&mut self) -> Result<bool, Errno>;
}

/// Posts a list of work requests to `queue` and shows them to the kernel; `ring` is called with
/// whether the doorbell must be rung. The queue's lock is not held then: the system call may do work
/// on the caller's time, and other threads may post meanwhile.
///
/// # Safety
///
/// `wr` is a list of work requests with what they point to, `bad_wr` null or writable.
pub(crate) unsafe fn post_list<Q: Queue>(
    queue: Option<&Lock<Q>>,
    wr: *mut Q::Wr,
    bad_wr: *mut *mut Q::Wr,
    ring: impl FnOnce(bool) -> Result<(), Errno>,
) -> c_int {
    let mut next = wr;
    let mut result = Ok(());

    let doorbell = match queue {
        Some(queue) => {
            let mut queue = queue.lock();
            // SAFETY: By this function's contract: a list that ends with null.
            while let Some(current) = unsafe { next.as_ref() } {
                // SAFETY: By this function's contract.
                result = unsafe { queue.post(current) };
                if result.is_err() {
                    break;
                }
                next = Q::next(current);
            }
            // What came before a bad work request is posted.
            queue.publish()
        }
        None => Err(Errno::EINVAL),
    };
    let rung = doorbell.and_then(ring);
    if result.is_ok() && rung.is_err() {
        // Nothing of the list can be relied on.
        next = wr;
        result = rung;
    }
    if result.is_err() && !bad_wr.is_null() {
        // SAFETY: By this function's contract.
        unsafe { bad_wr.write(next) };
    }
    errno::code(result)
}
