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
    Geometry,
    Migration, //
};

/// Receives moved under one hold of the lock when the queue is resized.
const MOVED_AT_A_TIME: u32 = 64;

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
    /// index that it finds there. Process context; user space posts nothing meanwhile, and nobody
    /// else resizes the queue.
    ///
    /// The lock is held for a few receives at a time, and others are taken in between.
    ///
    /// Errors: `EINVAL` if there are more than the ring has room for, or than the limit that is
    /// armed allows, and nothing is changed.
    pub(crate) fn resize(&self, ring: SharedMem, geometry: Geometry) -> Result {
        check(&ring, geometry)?;
        let mut migration = {
            let inner = self.inner.lock();
            let (old, first) = (inner.consumer.geometry(), inner.consumer.fetched());
            Migration::new(old, geometry, first).ok_or(EINVAL)?
        };
        let old = loop {
            let mut inner = self.inner.lock();
            if inner.broken || inner.limit > geometry.entries() {
                return Err(EINVAL);
            }
            let posted = inner.consumer.available(&inner.ring).map_err(|_| EINVAL)?;
            // No slot is in work: a receive is retired as soon as it is taken.
            let end = inner.consumer.fetched().wrapping_add(posted);
            if !migration
                .step(&inner.ring, &ring, end, MOVED_AT_A_TIME)
                .map_err(|_| EINVAL)?
            {
                continue;
            }
            let taken = migration.place(inner.consumer.fetched());
            let consumer = Consumer::resume_at(geometry, taken);
            consumer.publish(&ring).map_err(|_| EINVAL)?;
            // What user space finds there when it maps the ring.
            ring::Shared::store_release(&ring, ring::layout::PRODUCER, migration.moved())
                .ok_or(EINVAL)?;
            inner.consumer = consumer;
            break core::mem::replace(&mut inner.ring, ring);
        };
        // Memory is given back outside of the lock.
        drop(old);
        Ok(())
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
