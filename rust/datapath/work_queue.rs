// SPDX-License-Identifier: GPL-2.0

//! A send or receive queue: a ring that user space fills, and the kernel's copy of what it took.

use crate::rdma::mmap::SharedMem;
use kernel::{
    alloc::KVVec,
    prelude::*, //
};
use ring::{
    Consumer,
    Geometry,
    Idle, //
};

/// A work queue and the private copies of its fetched entries.
///
/// Entries are numbered by the ring's free-running index. Each is copied out once, when it is
/// fetched, and stays readable until it is retired; the shared slot is not looked at again.
pub(crate) struct WorkQueue {
    ring: SharedMem,
    pub(super) consumer: Consumer,
    /// One slot for each of the ring's, at the same place.
    copies: KVVec<u8>,
}

impl WorkQueue {
    /// Makes the queue of `ring`, which must have room for `geometry`.
    ///
    /// Errors: `EINVAL` if it has not, `ENOMEM`. Process context.
    pub(crate) fn new(ring: SharedMem, geometry: Geometry) -> Result<Self> {
        if ring::Shared::len(&ring) < geometry.size() {
            return Err(EINVAL);
        }
        // CAST: `usize` is 64 bits wide here.
        let bytes = geometry.entries() as usize * geometry.stride() as usize;
        Ok(Self {
            ring,
            consumer: Consumer::new(geometry),
            copies: KVVec::from_elem(0u8, bytes, GFP_KERNEL_ACCOUNT)?,
        })
    }

    /// Goes on where somebody else, who has emptied the ring meanwhile, has left off. A ring with a
    /// wild index is emptied: nothing in it can be believed.
    pub(super) fn take_over(&mut self) {
        match Consumer::take_over(self.consumer.geometry(), &self.ring) {
            Ok(consumer) => self.consumer = consumer,
            Err(_) => self.discard(),
        }
    }

    /// Goes on where somebody else was: with that oldest entry, and so many fetched ones. Entries are
    /// copied anew, as the other's copies are gone: who has changed them has broken its own queue.
    ///
    /// Errors: `EINVAL` if there are not as many.
    pub(super) fn restore(&mut self, oldest: u32, in_work: u32) -> Result {
        self.consumer = Consumer::resume_at(self.consumer.geometry(), oldest);
        let _ = self.consumer.publish(&self.ring);
        for _ in 0..in_work {
            self.fetch().ok().flatten().ok_or(EINVAL)?;
        }
        Ok(())
    }

    /// Returns how many entries are fetched and not retired.
    pub(super) fn in_work(&self) -> u32 {
        self.consumer.in_work()
    }

    /// Returns the ring and its shape, for somebody else to empty it.
    pub(super) fn ring(&self) -> (&SharedMem, Geometry) {
        (&self.ring, self.consumer.geometry())
    }

    fn range(&self, index: u32) -> core::ops::Range<usize> {
        let geometry = self.consumer.geometry();
        // CAST: `usize` is 64 bits wide here.
        let stride = geometry.stride() as usize;
        let at = (index & (geometry.entries() - 1)) as usize * stride;
        at..at + stride
    }

    /// Fetches the next entry and returns its index, or [`None`] if nothing is posted.
    ///
    /// An error means that user space stored an index that it cannot have reached.
    pub(crate) fn fetch(&mut self) -> Result<Option<u32>, ring::Error> {
        let index = self.consumer.fetched();
        let Some(slot) = self.consumer.fetch(&self.ring)? else {
            return Ok(None);
        };
        let range = self.range(index);
        let copy = self.copies.get_mut(range).ok_or(ring::Error::OutOfBounds)?;
        slot.read(&self.ring, 0, copy)
            .ok_or(ring::Error::OutOfBounds)?;
        Ok(Some(index))
    }

    /// Returns the copy of the entry `index`, if it is fetched and not retired.
    pub(crate) fn entry(&self, index: u32) -> Option<&[u8]> {
        self.consumer.slot_in_work(index)?;
        self.copies.get(self.range(index))
    }

    /// Returns the number of slots.
    pub(crate) fn entries(&self) -> u32 {
        self.consumer.geometry().entries()
    }

    /// Returns the index of the next entry to be fetched.
    pub(crate) fn fetched(&self) -> u32 {
        self.consumer.fetched()
    }

    /// Returns the index of the oldest entry in work, if there is one.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.consumer.in_work() > 0).then(|| self.consumer.retired())
    }

    /// Returns the index of the oldest entry that is not retired, or will be the oldest.
    pub(crate) fn oldest_index(&self) -> u32 {
        self.consumer.retired()
    }

    /// Gives the oldest entry's slot back to user space. Does nothing if none is in work.
    pub(crate) fn retire(&mut self) {
        if self.consumer.retire(1).is_ok() {
            // The ring was checked to have a header.
            let _ = self.consumer.publish(&self.ring);
        }
    }

    /// Retires what is posted, the oldest first, calling `f` with the copy of each, and then asks
    /// for a doorbell. A ring with a wild index is left alone: nothing in it can be believed.
    ///
    /// That is at most what the ring holds. A process can post meanwhile, and keep whoever takes it
    /// off, with bottom halves disabled: so this returns whether there may be more, to be drained
    /// later.
    pub(crate) fn drain(&mut self, mut f: impl FnMut(Option<&[u8]>)) -> bool {
        // Each entry takes two turns, to be fetched and to be retired.
        for _ in 0..=2 * self.entries() {
            if let Some(index) = self.oldest() {
                f(self.entry(index));
                self.retire();
                continue;
            }
            match self.fetch() {
                Ok(Some(_)) => {}
                Ok(None) if matches!(self.sleep(), Ok(false)) => {}
                _ => return false,
            }
        }
        true
    }

    /// Drops all that is posted: the queue pair is reset.
    pub(crate) fn discard(&mut self) {
        let _ = self.consumer.discard(&self.ring);
    }

    /// Asks for a doorbell, and returns whether the queue is empty and may be left alone.
    pub(crate) fn sleep(&self) -> Result<bool, ring::Error> {
        Ok(self.consumer.prepare_idle(&self.ring)? == Idle::Sleep)
    }

    /// Tells user space that no doorbell is needed.
    pub(crate) fn stay_awake(&self) {
        let _ = self.consumer.resume(&self.ring);
    }
}
