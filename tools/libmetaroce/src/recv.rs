// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The receive queue's ring, and how a work request becomes a slot of it.

use crate::abi::{slice_bytes, Plain, RecvWqe};
use crate::bindings as c;
use crate::errno::{self, Errno};
use crate::lock::Lock;
use crate::mapping::Mapping;
use crate::send::scatter_list;
use core::ffi::c_int;
use ring::{Geometry, Producer, Shared};

/// User space's side of a receive queue.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    ring: Mapping,
    producer: Producer,
    max_sge: u32,
}

impl RecvQueue {
    /// Makes the producer of a new ring.
    pub(crate) fn new(ring: Mapping, geometry: Geometry, max_sge: u32) -> Self {
        Self {
            ring,
            producer: Producer::new(geometry),
            max_sge,
        }
    }

    /// Goes on in another ring, behind what the kernel has put there.
    pub(crate) fn move_to(&mut self, ring: Mapping, geometry: Geometry) -> Result<(), Errno> {
        let filled = ring
            .load_acquire(ring::layout::PRODUCER)
            .ok_or(Errno::EPROTO)?;
        self.producer = Producer::resume_filled(geometry, filled).ok_or(Errno::EPROTO)?;
        self.ring = ring;
        Ok(())
    }

    /// Puts a work request into the ring, where the kernel sees it after
    /// [`publish`](Self::publish).
    ///
    /// # Safety
    ///
    /// The scatter list of `wr` is readable.
    pub(crate) unsafe fn post(&mut self, wr: &c::ibv_recv_wr) -> Result<(), Errno> {
        // SAFETY: By this function's contract.
        let sges = unsafe { scatter_list(wr.sg_list, wr.num_sge, self.max_sge) }?;
        let wqe = RecvWqe {
            wr_id: wr.wr_id,
            num_sge: u32::try_from(sges.len()).map_err(|_| Errno::EINVAL)?,
            reserved: 0,
        };

        let slot = self.producer.vacant(&self.ring)?;
        slot.write(&self.ring, size_of::<RecvWqe>(), slice_bytes(sges))
            .ok_or(Errno::EINVAL)?;
        slot.write(&self.ring, 0, wqe.bytes())
            .ok_or(Errno::EINVAL)?;
        self.producer.commit();
        Ok(())
    }

    /// Shows what was posted to the kernel, and returns whether the doorbell must be rung: the
    /// kernel asks for it where receives are flushed as they are posted.
    pub(crate) fn publish(&mut self) -> Result<bool, Errno> {
        if !self.producer.has_unpublished() {
            return Ok(false);
        }
        Ok(self.producer.publish_with_doorbell(&self.ring)?)
    }
}

/// Posts a list of receives to `queue` and shows them to the kernel; `ring` is called with whether
/// the doorbell must be rung. The queue's lock is not held then: the system call may do work on the
/// caller's time, and other threads may post meanwhile.
///
/// # Safety
///
/// `wr` is a list of work requests with what they point to, `bad_wr` null or writable.
pub(crate) unsafe fn post_list(
    queue: Option<&Lock<RecvQueue>>,
    wr: *mut c::ibv_recv_wr,
    bad_wr: *mut *mut c::ibv_recv_wr,
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
                next = current.next;
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
