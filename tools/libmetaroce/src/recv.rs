// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The receive queue's ring, and how a work request becomes a slot of it.

use crate::abi::{slice_bytes, Plain, RecvWqe};
use crate::bindings as c;
use crate::errno::Errno;
use crate::mapping::Mapping;
use crate::post::Queue;
use crate::send::scatter_list;
use ring::{Geometry, Producer, Shared};

/// User space's side of a receive queue.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    ring: Mapping,
    producer: Producer,
    max_sge: u32,
    /// The kernel uses another ring, which this side could not map.
    lost: bool,
}

impl RecvQueue {
    /// Makes the producer of a new ring.
    pub(crate) fn new(ring: Mapping, geometry: Geometry, max_sge: u32) -> Self {
        Self {
            ring,
            producer: Producer::new(geometry),
            max_sge,
            lost: false,
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

    /// The kernel has moved the queue to a ring that could not be mapped: nothing can be posted any
    /// more, and whoever tries is told so.
    pub(crate) fn lose(&mut self) {
        self.lost = true;
    }
}

impl Queue for RecvQueue {
    type Wr = c::ibv_recv_wr;

    fn next(wr: &Self::Wr) -> *mut Self::Wr {
        wr.next
    }

    /// Puts a work request into the ring, where the kernel sees it after
    /// [`publish`](Self::publish). `EIO` of a queue that is lost.
    ///
    /// # Safety
    ///
    /// The scatter list of `wr` is readable.
    unsafe fn post(&mut self, wr: &Self::Wr) -> Result<(), Errno> {
        if self.lost {
            return Err(Errno::EIO);
        }
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
    fn publish(&mut self) -> Result<bool, Errno> {
        Ok(self.producer.publish_with_doorbell(&self.ring)?)
    }
}
