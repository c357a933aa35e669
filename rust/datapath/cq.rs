// SPDX-License-Identifier: GPL-2.0

//! Completion queues: a ring that the data path fills, and that user space polls, or a user in the
//! kernel by [`Cq::pop`].

use super::{
    notice::{
        Notice,
        Notices, //
    }, //
};
use crate::{
    rdma::{
        event::CqEvents,
        mmap::SharedMem, //
    },
    sync::hrtimer::{
        Timer,
        TimerCallback, //
    }, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        SpinLockIrq, //
    }, //
};
use ring::{
    Consumer,
    Geometry,
    Migration,
    Producer, //
};

pub(crate) use super::completion::{
    Completion,
    Overrun,
    CQE_SIZE,
    WC_GRH,
    WC_WITH_IMM,
    WC_WITH_INVALIDATE,
    WC_WITH_NETWORK_HDR_TYPE,
    WC_WITH_VLAN, //
};

/// Completions moved under one hold of the lock when the queue is resized: some microseconds with
/// interrupts disabled.
const MOVED_AT_A_TIME: u32 = 64;

struct CqInner {
    ring: SharedMem,
    producer: Producer,
    /// For a user in the kernel.
    consumer: Option<Consumer>,
    notices: Notices,
    /// Once completions were lost, the queue is of no more use (IBTA 10.10.2.3).
    overrun: bool,
}

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    events: CqEvents,
    /// Ends the wait of an event that is held back.
    #[pin]
    timer: Timer<Self>,
    #[pin]
    inner: SpinLockIrq<CqInner>,
}

impl Cq {
    /// Makes the queue in `ring`, which must have room for `entries` completions, a power of two.
    /// That of a user in the kernel is emptied by [`Self::pop`], any other by user space.
    ///
    /// Errors: `EINVAL`, `ENOMEM`. Process context.
    pub(crate) fn new(
        entries: u32,
        ring: SharedMem,
        events: CqEvents,
        is_kernel: bool,
    ) -> Result<Arc<Self>> {
        // CAST: a small constant.
        let geometry = Geometry::new(entries, CQE_SIZE as u32).ok_or(EINVAL)?;
        if ring::Shared::len(&ring) < geometry.size() {
            return Err(EINVAL);
        }
        let cq = Arc::pin_init(
            pin_init!(Self {
                events,
                timer <- Timer::new(),
                inner <- new_spinlock_irq!(CqInner {
                    ring,
                    producer: Producer::new(geometry),
                    consumer: is_kernel.then(|| Consumer::new(geometry)),
                    notices: Notices::default(),
                    overrun: false,
                }),
            }),
            GFP_KERNEL,
        )?;
        cq.timer.attach(cq.clone());
        Ok(cq)
    }

    /// Returns how many completions the queue has room for.
    pub(crate) fn entries(&self) -> u32 {
        self.inner.lock().producer.geometry().entries()
    }

    /// Adds a completion, and raises the event if the queue is armed for it. Any context.
    ///
    /// The handler runs without the queue's lock, so it may arm and poll the queue. It must not
    /// wait for the queue pair, whose lock the caller may hold; those of ib_core hand over to
    /// others.
    pub(crate) fn push(&self, completion: &Completion, solicited: bool) -> Result<(), Overrun> {
        let now = super::now().0;
        let stored = {
            let mut inner = self.inner.lock();
            if inner.overrun {
                return Err(Overrun);
            }
            inner.push(completion, solicited, now)
        };
        match stored {
            Ok(notice) => {
                self.tell(notice, now);
                Ok(())
            }
            Err(_) => {
                self.events.failed();
                Err(Overrun)
            }
        }
    }

    /// Raises an event, or lets the timer do it.
    fn tell(&self, notice: Notice, now: u64) {
        match notice {
            Notice::Quiet => (),
            Notice::Event => self.events.completed(),
            Notice::Later(wait) => self.timer.arm_by(now.saturating_add(wait)),
        }
    }

    /// Takes the oldest completion out, for a user in the kernel. Any context.
    ///
    /// Errors: `EOPNOTSUPP` if the queue is user space's, `EIO` if the ring is damaged.
    pub(crate) fn pop(&self) -> Result<Option<Completion>> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let consumer = inner.consumer.as_mut().ok_or(EOPNOTSUPP)?;
        let Some(slot) = consumer.fetch(&inner.ring).map_err(|_| EIO)? else {
            return Ok(None);
        };
        let mut bytes = [0; CQE_SIZE];
        slot.read(&inner.ring, 0, &mut bytes).ok_or(EIO)?;
        consumer.retire(1).map_err(|_| EIO)?;
        consumer.publish(&inner.ring).map_err(|_| EIO)?;
        Ok(Some(Completion::decode(&bytes).ok_or(EIO)?))
    }

    /// Moves the completions that were not polled to another ring, to its first slots. Process
    /// context; user space polls nothing meanwhile, and nobody else resizes the queue.
    ///
    /// The lock is held for a few completions at a time, and others come in between.
    ///
    /// Errors: `EINVAL` if there are more than the ring has room for, or the queue is of no more
    /// use, or not user space's; nothing is changed.
    pub(crate) fn resize(&self, entries: u32, ring: SharedMem) -> Result {
        // CAST: a small constant.
        let geometry = Geometry::new(entries, CQE_SIZE as u32).ok_or(EINVAL)?;
        if ring::Shared::len(&ring) < geometry.size() {
            return Err(EINVAL);
        }
        let mut migration = {
            let mut inner = self.inner.lock();
            let inner = &mut *inner;
            inner.producer.refresh(&inner.ring).map_err(|_| EINVAL)?;
            let old = inner.producer.geometry();
            Migration::new(old, geometry, inner.producer.oldest()).ok_or(EINVAL)?
        };
        let old = loop {
            let mut inner = self.inner.lock();
            let inner = &mut *inner;
            if inner.overrun || inner.consumer.is_some() {
                return Err(EINVAL);
            }
            let end = inner.producer.index();
            if !migration
                .step(&inner.ring, &ring, end, MOVED_AT_A_TIME)
                .map_err(|_| EINVAL)?
            {
                continue;
            }
            let mut producer =
                Producer::resume_filled(geometry, migration.moved()).ok_or(EINVAL)?;
            producer.publish(&ring).map_err(|_| EINVAL)?;
            inner.producer = producer;
            break core::mem::replace(&mut inner.ring, ring);
        };
        // Memory is given back outside of the lock.
        drop(old);
        Ok(())
    }

    /// Holds events back until there are `count` completions, but no longer than `period`
    /// nanoseconds; with at most one, or no time, none is.
    pub(crate) fn moderate(&self, count: u32, period: u64) {
        let wake = self.inner.lock().notices.moderate(count, period);
        // What was held back by the old rule is not held back by the new one.
        if wake {
            self.events.completed();
        }
    }

    /// Asks for an event at the next completion, or the next solicited one. Returns whether
    /// completions are there already that no event will tell of: a user in the kernel is told so,
    /// and a process by an event.
    pub(crate) fn arm(&self, solicited_only: bool) -> bool {
        let (unpolled, notice) = {
            let mut inner = self.inner.lock();
            let inner = &mut *inner;
            // A process that has damaged the index is told as soon as there is another completion.
            let unpolled = match inner.producer.refresh(&inner.ring) {
                Ok(_) => inner.producer.in_use(),
                Err(_) => 0,
            };
            let told = if inner.consumer.is_some() {
                0
            } else {
                unpolled
            };
            (unpolled, inner.notices.arm(solicited_only, told))
        };
        self.tell(notice, super::now().0);
        unpolled > 0
    }

    /// Adds the completion of a work request that was flushed. Context as for [`Self::push`].
    ///
    /// A queue that overruns tells so itself, and the queue pair is in an error state already.
    pub(super) fn push_flushed(&self, wr_id: u64, qp_num: u32) {
        let _ = self.push(&Completion::flushed(wr_id, qp_num), false);
    }

    /// Takes no more completions: the queue is going to be destroyed. Process context, may sleep.
    pub(crate) fn silence(&self) {
        {
            let mut inner = self.inner.lock();
            inner.overrun = true;
            inner.notices.disarm();
        }
        self.timer.stop();
    }
}

impl CqInner {
    fn push(
        &mut self,
        completion: &Completion,
        solicited: bool,
        now: u64,
    ) -> Result<Notice, ring::Error> {
        if let Err(e) = self.store(completion, now) {
            // Full, or an index that user space cannot have reached: either way it has lost track
            // of its completions.
            self.overrun = true;
            return Err(e);
        }
        // IBTA 11.4.2.2: an unsuccessful completion counts as solicited.
        Ok(self.notices.pushed(solicited || completion.status != 0))
    }

    fn store(&mut self, completion: &Completion, now: u64) -> Result<(), ring::Error> {
        let slot = self.producer.vacant(&self.ring)?;
        slot.write(&self.ring, 0, &completion.encode(now))
            .ok_or(ring::Error::OutOfBounds)?;
        self.producer.commit();
        self.producer.publish(&self.ring)
    }
}

impl TimerCallback for Cq {
    /// Runs in softirq context.
    fn expired(this: ArcBorrow<'_, Self>) {
        let wake = this.inner.lock().notices.overdue();
        if wake {
            this.events.completed();
        }
    }
}
