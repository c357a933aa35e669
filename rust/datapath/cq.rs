// SPDX-License-Identifier: GPL-2.0

//! Completion queues: the kernel is the producer of a ring that user space polls.

use crate::{
    rdma::{
        event::CqEvents,
        mmap::SharedMem, //
    },
    sync::lock_bh::{
        new_spinlock_bh,
        SpinLockBh, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use ring::{
    Geometry,
    Producer, //
};

/// Bytes of a completion, `struct metaroce_cqe`.
pub(crate) const CQE_SIZE: usize = 64;

/// `IB_WC_WITH_IMM`.
pub(crate) const WC_WITH_IMM: u32 = 1 << 1;

/// `IB_WC_WITH_INVALIDATE`.
pub(crate) const WC_WITH_INVALIDATE: u32 = 1 << 2;

/// One completion; members as in `struct ib_wc`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Completion {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm: u32,
    pub(crate) qp_num: u32,
    pub(crate) wc_flags: u32,
    pub(crate) src_qp: u32,
    pub(crate) vendor_err: u32,
}

impl Completion {
    fn encode(&self, now: u64) -> [u8; CQE_SIZE] {
        let mut b = [0u8; CQE_SIZE];
        let mut put = |off: usize, v: &[u8]| {
            if let Some(d) = b.get_mut(off..off + v.len()) {
                d.copy_from_slice(v);
            }
        };
        put(0, &self.wr_id.to_ne_bytes());
        put(8, &self.status.to_ne_bytes());
        put(12, &self.opcode.to_ne_bytes());
        put(16, &self.byte_len.to_ne_bytes());
        put(20, &self.imm.to_ne_bytes());
        put(24, &self.qp_num.to_ne_bytes());
        put(28, &self.wc_flags.to_ne_bytes());
        put(32, &self.src_qp.to_ne_bytes());
        put(36, &self.vendor_err.to_ne_bytes());
        put(40, &now.to_ne_bytes());
        b
    }
}

/// Which completion raises an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Next,
}

/// The completion could not be stored, now or ever after: the queue has overrun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overrun;

struct CqInner {
    producer: Producer,
    armed: Armed,
    /// Once completions were lost, the queue is of no more use (IBTA 10.10.2.3).
    overrun: bool,
}

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    ring: SharedMem,
    events: CqEvents,
    #[pin]
    inner: SpinLockBh<CqInner>,
}

impl Cq {
    /// Makes the queue in `ring`, which must have room for `entries` completions, a power of two.
    ///
    /// Errors: `EINVAL`, `ENOMEM`. Process context.
    pub(crate) fn new(entries: u32, ring: SharedMem, events: CqEvents) -> Result<Arc<Self>> {
        // CAST: a small constant.
        let geometry = Geometry::new(entries, CQE_SIZE as u32).ok_or(EINVAL)?;
        if ring::Shared::len(&ring) < geometry.size() {
            return Err(EINVAL);
        }
        Arc::pin_init(
            pin_init!(Self {
                ring,
                events,
                inner <- new_spinlock_bh!(CqInner {
                    producer: Producer::new(geometry),
                    armed: Armed::No,
                    overrun: false,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a completion, and raises the event if the queue is armed for it. Any context.
    ///
    /// The handler runs under the queue's lock, so once [`Self::silence`] returns it never runs
    /// again.
    pub(crate) fn push(&self, completion: &Completion, solicited: bool) -> Result<(), Overrun> {
        let mut inner = self.inner.lock();
        if inner.overrun {
            return Err(Overrun);
        }
        if self.store(&mut inner.producer, completion).is_err() {
            // Full, or an index that user space cannot have reached: either way it has lost
            // track of its completions.
            inner.overrun = true;
            self.events.failed();
            return Err(Overrun);
        }
        // IBTA 11.4.2.2: an unsuccessful completion counts as solicited.
        let wake = match inner.armed {
            Armed::No => false,
            Armed::Solicited => solicited || completion.status != 0,
            Armed::Next => true,
        };
        if wake {
            inner.armed = Armed::No;
            self.events.completed();
        }
        Ok(())
    }

    fn store(&self, producer: &mut Producer, completion: &Completion) -> Result<(), ring::Error> {
        let slot = producer.vacant(&self.ring)?;
        slot.write(&self.ring, 0, &completion.encode(super::now().0))
            .ok_or(ring::Error::OutOfBounds)?;
        producer.commit();
        producer.publish(&self.ring)
    }

    /// Asks for an event at the next completion, or the next solicited one. Returns whether
    /// completions are there already that no event will tell of.
    pub(crate) fn arm(&self, solicited_only: bool) -> bool {
        let mut inner = self.inner.lock();
        // The wider request stays in force.
        if inner.armed != Armed::Next {
            inner.armed = if solicited_only {
                Armed::Solicited
            } else {
                Armed::Next
            };
        }
        let entries = inner.producer.geometry().entries();
        !matches!(inner.producer.refresh(&self.ring), Ok(free) if free == entries)
    }

    /// Ends all events: the queue is going to be destroyed.
    pub(crate) fn silence(&self) {
        let mut inner = self.inner.lock();
        inner.overrun = true;
        inner.armed = Armed::No;
    }
}
