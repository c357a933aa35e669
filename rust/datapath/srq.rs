// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: a ring of receives that several queue pairs take from.
//!
//! A receive belongs to a queue pair from the moment that the first packet of a message needs it.
//! A queue pair takes receives in the order of its messages, whichever packet comes first, so that
//! an early message never has to wait for a receive that a later one holds.

use crate::{
    rdma::{
        event::{
            SrqEvent,
            SrqEvents, //
        },
        mmap::SharedMem, //
    },
    sync::lock_bh::{
        new_spinlock_bh,
        SpinLockBh, //
    },
};
use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::Arc, //
};
use ring::{
    Consumer,
    Geometry, //
};

/// User space stored an index that it cannot have reached. The queue gives nothing any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken;

struct Inner {
    ring: SharedMem,
    consumer: Consumer,
    /// Fewer receives than this raise an event, once; 0 when there is none to be raised.
    limit: u32,
    broken: bool,
}

/// A shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    /// Number of the protection domain that the receives' memory is in.
    pd: u32,
    events: SrqEvents,
    #[pin]
    inner: SpinLockBh<Inner>,
}

/// Checks that a ring has room for what it is to hold.
fn check(ring: &SharedMem, geometry: Geometry) -> Result {
    if ring::Shared::len(ring) < geometry.size() {
        return Err(EINVAL);
    }
    Ok(())
}

impl Srq {
    /// Makes the queue of `ring`, which must have room for `geometry`.
    ///
    /// Errors: `EINVAL` if it has not, `ENOMEM`. Process context.
    pub(crate) fn new(
        pd: u32,
        ring: SharedMem,
        geometry: Geometry,
        events: SrqEvents,
    ) -> Result<Arc<Self>> {
        check(&ring, geometry)?;
        Arc::pin_init(
            pin_init!(Self {
                pd,
                events,
                inner <- new_spinlock_bh!(Inner {
                    ring,
                    consumer: Consumer::new(geometry),
                    limit: 0,
                    broken: false,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the number of slots.
    pub(crate) fn entries(&self) -> u32 {
        self.inner.lock().consumer.geometry().entries()
    }

    /// Returns the limit that is armed, 0 if there is none.
    pub(crate) fn limit(&self) -> u32 {
        self.inner.lock().limit
    }

    /// Arms the event for fewer than `limit` receives, or disarms it with 0.
    ///
    /// Errors: `EINVAL` for more receives than there are slots.
    pub(crate) fn set_limit(&self, limit: u32) -> Result {
        let mut inner = self.inner.lock();
        if limit > inner.consumer.geometry().entries() {
            return Err(EINVAL);
        }
        inner.limit = limit;
        Ok(())
    }

    /// Moves the receives that are posted to another ring, where their producer goes on with the
    /// index that is returned. Process context.
    ///
    /// Errors: `EINVAL` if there are more than the ring has room for, or than the limit that is
    /// armed allows, and nothing is changed.
    pub(crate) fn resize(&self, ring: SharedMem, geometry: Geometry) -> Result<u32> {
        check(&ring, geometry)?;
        let mut inner = self.inner.lock();
        let old = inner.consumer.geometry();
        let n = inner.consumer.available(&inner.ring).map_err(|_| EINVAL)?;
        let fits = n <= geometry.entries() && inner.limit <= geometry.entries();
        if inner.broken || !fits || old.stride() != geometry.stride() {
            return Err(EINVAL);
        }
        // No slot is in work: a receive is retired as soon as it is taken.
        let mut buf = [0u8; 64];
        for i in 0..n {
            let from = inner.consumer.slot_ahead(i).ok_or(EINVAL)?;
            let to = geometry.slot(i);
            let mut at = 0;
            while at < from.stride() {
                let len = buf.len().min(from.stride() - at);
                let part = buf.get_mut(..len).ok_or(EINVAL)?;
                from.read(&inner.ring, at, part).ok_or(EINVAL)?;
                to.write(&ring, at, part).ok_or(EINVAL)?;
                at += len;
            }
        }
        // What user space finds there when it maps the ring.
        ring::Shared::store_release(&ring, ring::layout::PRODUCER, n).ok_or(EINVAL)?;
        inner.ring = ring;
        inner.consumer = Consumer::new(geometry);
        Ok(n)
    }

    /// Takes the oldest receive and copies it to `to`; returns whether there was one.
    fn take(&self, to: &mut [u8]) -> Result<bool, Broken> {
        let mut inner = self.inner.lock();
        if inner.broken {
            return Err(Broken);
        }
        let taken = inner.take(to);
        match taken {
            Ok(None) => Ok(false),
            Ok(Some(left)) => {
                if left < inner.limit {
                    inner.limit = 0;
                    self.events.report(SrqEvent::LimitReached);
                }
                Ok(true)
            }
            Err(_) => {
                inner.broken = true;
                self.events.report(SrqEvent::Failed);
                Err(Broken)
            }
        }
    }
}

impl Inner {
    /// Takes the oldest receive; returns how many are left.
    fn take(&mut self, to: &mut [u8]) -> Result<Option<u32>, ring::Error> {
        let Some(slot) = self.consumer.fetch(&self.ring)? else {
            return Ok(None);
        };
        slot.read(&self.ring, 0, to)
            .ok_or(ring::Error::OutOfBounds)?;
        self.consumer.retire(1)?;
        self.consumer.publish(&self.ring)?;
        Ok(Some(self.consumer.available(&self.ring)?))
    }
}

/// The receives that one queue pair has taken from a shared queue, by free-running index.
pub(crate) struct Bound {
    srq: Arc<Srq>,
    /// Most receives that are held, a power of two.
    window: u32,
    /// One slot for each.
    copies: KVVec<u8>,
    stride: usize,
    /// Index of the oldest receive that is held, and of the next to be taken.
    retired: u32,
    taken: u32,
}

impl Bound {
    /// Makes an empty list with room for `window` receives, a power of two. Process context.
    pub(crate) fn new(srq: Arc<Srq>, window: u32) -> Result<Self> {
        // CAST: `usize` is 64 bits wide here.
        let stride = srq.inner.lock().consumer.geometry().stride() as usize;
        Ok(Self {
            srq,
            window,
            copies: KVVec::from_elem(0u8, window as usize * stride, GFP_KERNEL_ACCOUNT)?,
            stride,
            retired: 0,
            taken: 0,
        })
    }

    /// Returns the number of the domain that the receives' memory is in.
    pub(crate) fn pd(&self) -> u32 {
        self.srq.pd
    }

    /// Returns how many receives are held at most.
    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    /// Returns the index of the next receive to be taken.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Returns the index of the oldest receive that is held, or will be.
    pub(crate) fn retired(&self) -> u32 {
        self.retired
    }

    fn range(&self, index: u32) -> core::ops::Range<usize> {
        // CAST: `usize` is 64 bits wide here.
        let at = (index & (self.window - 1)) as usize * self.stride;
        at..at + self.stride
    }

    /// Takes receives up to that with index `wanted`, as far as there are any and they can be
    /// held.
    pub(crate) fn take_up_to(&mut self, wanted: u32) -> Result<(), Broken> {
        while wanted.wrapping_sub(self.taken) < 1 << 31
            && self.taken.wrapping_sub(self.retired) < self.window
        {
            let range = self.range(self.taken);
            let Some(to) = self.copies.get_mut(range) else {
                break;
            };
            if !self.srq.take(to)? {
                break;
            }
            self.taken = self.taken.wrapping_add(1);
        }
        Ok(())
    }

    /// Returns the copy of the receive `index`, if it is held.
    pub(crate) fn entry(&self, index: u32) -> Option<&[u8]> {
        if index.wrapping_sub(self.retired) >= self.taken.wrapping_sub(self.retired) {
            return None;
        }
        self.copies.get(self.range(index))
    }

    /// Forgets the oldest receive.
    pub(crate) fn retire(&mut self) {
        if self.taken != self.retired {
            self.retired = self.retired.wrapping_add(1);
        }
    }

    /// Forgets all receives.
    pub(crate) fn discard(&mut self) {
        self.retired = self.taken;
    }
}
