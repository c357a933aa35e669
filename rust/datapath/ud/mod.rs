// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagram queue pairs: state, and the way into the error states.
//!
//! There is no connection, no window and no acknowledgement: a send goes out when it is posted and
//! is complete with that. Only the host's own queues hold sending up. Sending is in [`send`], receiving in [`recv`].

mod grh;
mod groups;
mod held;
mod recv;
mod route;
mod send;

use super::{
    cq::Cq,
    endpoint::Endpoint,
    host::Host,
    limits,
    parts::QpParts,
    qp_counters::QpCounters,
    recv_queue::RecvQueue,
    work_queue::WorkQueue,
    wqe::{
        RecvWr,
        SendWr, //
    },
};
use crate::{
    net::account::{
        Account,
        Room, //
    },
    rdma::{
        event::{
            QpEvent,
            QpEvents, //
        },
        qp::{
            AttrMask,
            QpAttr,
            QpState,
            QpType, //
        },
    },
    sync::{
        hrtimer::{
            now,
            Timer,
            TimerCallback, //
        },
        lock_bh::{
            new_spinlock_bh,
            SpinLockBh,
            SpinLockBhBackend, //
        },
        work,
    },
};
pub(super) use groups::Groups;
use held::HeldQueue;
pub(super) use held::Waiting;
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        lock::Guard,
        Arc,
        ArcBorrow, //
    },
    workqueue::{
        self,
        Work,
        WorkItem, //
    },
};
use route::CachedRoute;

use proto::{
    patience::Patience,
    time::Instant,
    wire::Gid, //
};

/// Number of the queue pair for general services, the same on every port.
pub(super) const GSI_QPN: u32 = 1;

/// The work items of a queue pair: looking at what was posted, at once and later.
const KICK: u64 = 0;
const RESUME: u64 = 1;

/// What a queue pair is made of.
pub(crate) struct UdInit {
    /// Whether it is the one for general services, whose number all ports know.
    pub(crate) is_gsi: bool,
    /// Whether a user in the kernel posts, whose work requests end with where they go.
    pub(crate) is_kernel: bool,
    pub(crate) parts: QpParts,
}

/// What the queue pair's lock guards.
pub(crate) struct UdInner {
    state: QpState,
    attr: QpAttr,
    sq: WorkQueue,
    rq: Option<RecvQueue>,
    /// The counter that it is bound to.
    counters: Option<Arc<QpCounters>>,
    /// Whether it was reported that no more receives are taken from the shared queue.
    told_last: bool,
    /// How the last datagram went.
    route: Option<CachedRoute>,
    /// What has come, and waits for memory.
    held: HeldQueue,
    /// With the memory of the oldest send.
    patience: Patience,
}

/// An unreliable datagram queue pair.
#[pin_data]
pub(crate) struct Ud {
    /// Its key in the host's table, which is its number but for general services.
    key: Atomic<u32>,
    is_gsi: bool,
    is_kernel: bool,
    pd: u32,
    signal_all: bool,
    pub(super) endpoint: Arc<Endpoint>,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    pub(super) events: QpEvents,
    #[pin]
    inner: SpinLockBh<UdInner>,
    /// Of packets that have not left the host.
    account: Account<Outlet>,
    #[pin]
    kick: Work<Self, KICK>,
    #[pin]
    resume: Work<Self, RESUME>,
    /// Goes on with a send, or with datagrams that have come, whose memory was not there.
    #[pin]
    retry: Timer<Self>,
}

impl_has_work! {
    impl HasWork<Self, KICK> for Ud { self.kick }
    impl HasWork<Self, RESUME> for Ud { self.resume }
}

impl WorkItem<KICK> for Ud {
    type Pointer = Arc<Self>;

    /// Runs in softirq context.
    fn run(this: Arc<Self>) {
        this.doorbell();
    }
}

impl WorkItem<RESUME> for Ud {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.doorbell();
    }
}

impl TimerCallback for Ud {
    /// Runs in softirq context.
    fn expired(this: ArcBorrow<'_, Self>) {
        Arc::from(this).doorbell();
    }
}

/// Has a queue pair go on sending.
struct Outlet {
    host: Arc<Host>,
    /// Its key in the host's table.
    key: Atomic<u32>,
}

impl Room for Outlet {
    fn room(&self) {
        if let Some(qp) = self.host.uds.lookup(self.key.load(Relaxed)) {
            qp.kick();
        }
    }
}

/// The queue pair's lock, held.
type Locked<'a> = Guard<'a, UdInner, SpinLockBhBackend>;

impl Ud {
    /// Makes a queue pair in the RESET state and gives it a number. Process context.
    ///
    /// Errors: `ENOMEM`; `EINVAL` if a ring has no room for its geometry; `EBUSY` if there is a
    /// queue pair for general services.
    pub(crate) fn new(endpoint: &Arc<Endpoint>, init: UdInit) -> Result<Arc<Self>> {
        let QpParts {
            pd,
            send_cq,
            recv_cq,
            rings,
            signal_all,
            events,
        } = init.parts;
        // One that turns out too short waits for the next datagram.
        let (sq, rq) = rings.open(1)?;
        let inner = UdInner {
            state: QpState::Reset,
            attr: QpAttr::default(),
            sq,
            rq,
            counters: None,
            told_last: false,
            route: None,
            held: HeldQueue::default(),
            patience: Patience::default(),
        };
        let account = Account::open(Outlet {
            host: endpoint.host().clone(),
            key: Atomic::new(0),
        })?;
        let qp = Arc::pin_init(
            pin_init!(Self {
                key: Atomic::new(0),
                is_gsi: init.is_gsi,
                is_kernel: init.is_kernel,
                pd,
                signal_all,
                endpoint: endpoint.clone(),
                send_cq,
                recv_cq,
                events,
                inner <- new_spinlock_bh!(inner),
                account,
                kick <- new_work!("Ud::kick"),
                resume <- new_work!("Ud::resume"),
                retry <- Timer::new(),
            }),
            GFP_KERNEL,
        )?;
        let uds = &endpoint.host().uds;
        let key = uds.alloc(limits::UD_QPN_RANGE, qp.clone())?;
        qp.key.store(key, Relaxed);
        qp.account.waiter().key.store(key, Relaxed);
        if qp.is_gsi && !endpoint.planes.gids.set_gsi(key) {
            drop(uds.remove(key));
            return Err(EBUSY);
        }
        qp.retry.attach(qp.clone());
        Ok(qp)
    }

    /// Returns the queue pair's number, by which peers know it.
    pub(crate) fn qpn(&self) -> u32 {
        if self.is_gsi {
            GSI_QPN
        } else {
            self.key()
        }
    }

    /// Returns the number by which this host knows it, which completions have.
    fn key(&self) -> u32 {
        self.key.load(Relaxed)
    }

    /// Counts by `counters` from now on, or by none. Process context.
    pub(crate) fn set_counters(&self, counters: Option<Arc<QpCounters>>) {
        let old = core::mem::replace(&mut self.inner.lock().counters, counters);
        // Not under the lock: it may be the last.
        drop(old);
    }

    /// Returns the state and the attributes, those that were never set being zero.
    pub(crate) fn query(&self) -> QpAttr {
        let inner = self.inner.lock();
        let mut attr = inner.attr;
        attr.state = inner.state;
        attr.current_state = inner.state;
        attr
    }

    /// Sets the attributes in `mask` and moves to the state among them. Process context.
    ///
    /// The caller has checked the values; the state is checked here, under the lock, as the queue
    /// pair may go to an error state by itself at any time.
    ///
    /// Errors: `EINVAL` if the state does not allow the change.
    pub(crate) fn modify(self: &Arc<Self>, attr: &QpAttr, mask: AttrMask) -> Result {
        let service = if self.is_gsi { QpType::Gsi } else { QpType::Ud };
        {
            let mut inner = self.inner.lock();
            let to = service.next_state(inner.state, attr, mask)?;
            inner.apply(attr, mask);
            self.enter(&mut inner, to);
        }
        // Work may have been posted before there was a state to carry it out.
        self.doorbell();
        Ok(())
    }

    /// Carries out the move to state `to`.
    fn enter(self: &Arc<Self>, inner: &mut Locked<'_>, to: QpState) {
        inner.state = to;
        match to {
            QpState::Reset => {
                inner.sq.discard();
                let _ = inner.sq.sleep();
                if let Some(rq) = &mut inner.rq {
                    rq.discard();
                }
                inner.told_last = false;
                inner.attr = QpAttr::default();
                inner.route = None;
                inner.patience.end();
                self.drop_held(inner);
            }
            QpState::SendQueueDrain => {
                // Nothing is ever under way.
                if inner.attr.sqd_async_notify {
                    self.events.report(QpEvent::SqDrained);
                }
            }
            QpState::Error => self.flush(inner),
            QpState::SendQueueError => self.flush_sends(inner),
            QpState::Init | QpState::ReadyToReceive | QpState::ReadyToSend => {}
        }
    }

    /// Moves to the error state for a reason that no completion tells.
    fn fail_with(self: &Arc<Self>, inner: &mut Locked<'_>, event: QpEvent) {
        if inner.state != QpState::Error {
            inner.state = QpState::Error;
            self.flush(inner);
            self.events.report(event);
        }
    }

    /// The device goes away.
    pub(super) fn device_lost(self: &Arc<Self>) {
        self.fail_with(&mut self.inner.lock(), QpEvent::Fatal);
    }

    /// Completes all that is posted to a queue pair in the error state.
    fn flush(self: &Arc<Self>, inner: &mut Locked<'_>) {
        self.drop_held(inner);
        self.flush_sends(inner);
        let Some(rq) = &mut inner.rq else {
            return;
        };
        let more = rq.flush(|entry| {
            let wr_id = entry.and_then(RecvWr::parse).map_or(0, |wr| wr.wr_id);
            self.recv_cq.push_flushed(wr_id, self.key());
        });
        if more {
            self.resume();
        } else if rq.is_shared() && !core::mem::replace(&mut inner.told_last, true) {
            // As for connected queue pairs.
            self.events.report(QpEvent::LastWqeReached);
        }
    }

    /// Completes all sends that are posted to a queue pair in an error state.
    fn flush_sends(self: &Arc<Self>, inner: &mut Locked<'_>) {
        let more = inner.sq.drain(|entry| {
            self.send_cq
                .push_flushed(entry.map_or(0, SendWr::wr_id_of), self.key());
        });
        if more {
            self.resume();
        }
    }

    /// Has a worker go on, so that nobody is kept for as long as a process posts.
    fn resume(self: &Arc<Self>) {
        // If it is queued already, then it has yet to look.
        let _ = self.endpoint.queue.enqueue::<_, RESUME>(self.clone());
    }

    /// Goes on later with what needs memory that is being fetched.
    fn wait_for_memory(&self, patience: &mut Patience) {
        self.retry.arm_by(patience.next(Instant(now())).0);
    }

    /// Has what a user in the kernel has posted looked at soon. Any context.
    pub(crate) fn kick(self: &Arc<Self>) {
        // If it is queued already, then it has yet to look.
        let _ = workqueue::system_bh().enqueue::<_, KICK>(self.clone());
    }

    /// Something was posted. Process or softirq context.
    pub(crate) fn doorbell(self: &Arc<Self>) {
        let more = {
            let mut inner = self.inner.lock();
            self.go_on_receiving(&mut inner);
            match inner.state {
                QpState::Error => {
                    self.flush(&mut inner);
                    false
                }
                QpState::SendQueueError => {
                    self.flush_sends(&mut inner);
                    false
                }
                QpState::ReadyToSend => self.send_posted(&mut inner),
                // Work requests wait for the states in which they are carried out.
                _ => false,
            }
        };
        if more {
            self.resume();
        }
    }

    /// Adds the queue pair to a multicast group. Process context.
    ///
    /// Errors: `EINVAL` for general services, `ENOMEM`, `ENODEV` without a plane that has addresses
    /// of the group's family.
    pub(crate) fn attach(&self, group: Gid) -> Result {
        if self.is_gsi {
            return Err(EINVAL);
        }
        let planes = &self.endpoint.planes;
        planes.groups.attach(planes, group, self.key())
    }

    /// Takes the queue pair out of a multicast group. Process context.
    ///
    /// Errors: `EINVAL` if it is not in it.
    pub(crate) fn detach(&self, group: Gid) -> Result {
        let planes = &self.endpoint.planes;
        planes.groups.detach(planes, group, self.key())
    }

    /// Takes the queue pair out of everything: no packet finds it any more on return. Process
    /// context, may sleep.
    pub(crate) fn destroy(self: &Arc<Self>) {
        self.endpoint.planes.gids.clear_gsi(self.key());
        drop(self.endpoint.host().uds.remove(self.key()));
        // Nothing sends any more, so nothing queues the work again.
        {
            let mut inner = self.inner.lock();
            inner.state = QpState::Reset;
            self.drop_held(&mut inner);
        }
        self.account.close();
        self.retry.stop();
        work::cancel_sync::<_, KICK>(self);
        work::cancel_sync::<_, RESUME>(self);
    }
}

impl UdInner {
    /// Keeps the attributes in `mask`.
    fn apply(&mut self, new: &QpAttr, mask: AttrMask) {
        let attr = &mut self.attr;
        if mask.contains(AttrMask::SQD_ASYNC_NOTIFY) {
            attr.sqd_async_notify = new.sqd_async_notify;
        }
        if mask.contains(AttrMask::PKEY_INDEX) {
            attr.pkey_index = new.pkey_index;
        }
        if mask.contains(AttrMask::PORT) {
            attr.port_num = new.port_num;
        }
        if mask.contains(AttrMask::QKEY) {
            attr.qkey = new.qkey;
        }
        if mask.contains(AttrMask::SQ_PSN) {
            attr.sq_psn = new.sq_psn;
        }
    }
}
