// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: what they are made of, their timer, their end.
//!
//! [`state`] moves them from state to state, [`failure`] into the error state. [`intro`] has two of
//! them find each other, and [`waiting`] is their place in the queue of their connection.
//! The requester half is in [`super::requester`], the responder half in [`super::responder`].

mod failure;
mod intro;
mod state;
mod waiting;

use super::{
    conn::Conn,
    cq::Cq,
    endpoint::Endpoint,
    foreign::Foreign,
    now,
    parts::QpParts,
    qp_counters::QpCounters,
    recv_queue::RecvQueue,
    wishes::Wishes,
    work_queue::WorkQueue, //
};
use crate::{
    rdma::{
        event::QpEvents,
        qp::{
            QpAttr,
            QpState,
            QpType, //
        },
    },
    sync::{
        hrtimer::{
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
use proto::{
    patience::Patience,
    stream::{
        MsgSlot,
        Nak,
        RecvConfig,
        RecvStream,
        Response,
        SendConfig,
        SendMsg,
        SendStream,
        MSG_WINDOW, //
    },
};

/// Responses kept by a responder: twice the most that a peer may ask for at a time.
const RESPONSES: usize = 2 * super::limits::MAX_RD_ATOMIC as usize;

/// When to go on flushing a queue into which more was posted meanwhile, in nanoseconds.
pub(super) const FLUSH_NS: u64 = 1_000_000;

/// The work item [`Qp::depart`].
pub(super) const DEPART: u64 = 1;

/// The next [`Qp::serial`].
static SERIALS: Atomic<u64> = Atomic::new(1);

/// What a queue pair is made of.
pub(crate) struct QpInit {
    /// Reliable or unreliable connection.
    pub(crate) service: QpType,
    pub(crate) parts: QpParts,
}

/// What the queue pair's lock guards.
pub(crate) struct QpInner {
    pub(super) state: QpState,
    pub(super) attr: QpAttr,
    pub(super) conn: Option<Arc<Conn>>,
    /// The connection at the device that does the work, see [`super::handover`].
    pub(super) foreign: Option<Arc<Foreign>>,
    /// Its state was saved: somebody else goes on with it, or it will be loaded again.
    pub(super) frozen: bool,
    pub(super) sq: WorkQueue,
    pub(super) rq: Option<RecvQueue>,
    /// Index in the receive queue of the receive with RSN 0.
    pub(super) rq_base: u32,
    pub(super) send: SendStream<KVVec<SendMsg>>,
    pub(super) recv: RecvStream<KVVec<MsgSlot>, KVVec<Response>>,
    /// A refusal that holds no packet, to be sent.
    pub(super) nak: Option<Nak>,
    /// With the memory that an atomic needs.
    pub(super) patience: Patience,

    /// What its connection is to be like, until it is reset.
    pub(super) wishes: Wishes,
    /// The counter that it is bound to.
    pub(super) counters: Option<Arc<QpCounters>>,
    /// Whether the drained send queue was reported.
    pub(super) told_drained: bool,
    /// Whether it was reported that no more receives are taken from the shared queue.
    told_last: bool,
    /// Whether the peer of an unreliable queue pair is gone: what is sent is lost.
    pub(super) peer_gone: bool,
}

/// A connected queue pair.
#[pin_data]
pub(crate) struct Qp {
    pub(super) qpn: Atomic<u32>,
    pub(super) service: QpType,
    /// A number that no other queue pair had or will have, as the queue pair number may.
    pub(super) serial: u64,
    pub(super) pd: u32,
    pub(super) signal_all: bool,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) send_cq: Arc<Cq>,
    pub(super) recv_cq: Arc<Cq>,
    pub(super) events: QpEvents,
    /// Whether the connection has this queue pair in its queue of those that want to send.
    pub(super) queued: Atomic<bool>,
    #[pin]
    pub(super) inner: SpinLockBh<QpInner>,
    /// RNR and retry waits, and the end of patience.
    #[pin]
    pub(super) timer: Timer<Self>,
    /// Looks at what a user in the kernel has posted.
    #[pin]
    kick: Work<Self>,
    /// Moves to a connection of its own.
    #[pin]
    depart: Work<Self, DEPART>,
}

impl_has_work! {
    impl HasWork<Self> for Qp { self.kick }
    impl HasWork<Self, DEPART> for Qp { self.depart }
}

impl WorkItem<DEPART> for Qp {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.leave_shared();
    }
}

impl WorkItem for Qp {
    type Pointer = Arc<Self>;

    /// Runs in softirq context.
    fn run(this: Arc<Self>) {
        this.doorbell();
    }
}

/// The queue pair's lock, held.
pub(super) type Locked<'a> = Guard<'a, QpInner, SpinLockBhBackend>;

impl Qp {
    /// Makes a queue pair in the RESET state and gives it a number. Process context.
    ///
    /// Errors: `ENOMEM`; `EINVAL` if a ring has no room for its geometry.
    pub(crate) fn new(endpoint: &Arc<Endpoint>, init: QpInit) -> Result<Arc<Self>> {
        let qp = Self::build(endpoint, init)?;
        let qps = &endpoint.host().qps;
        let qpn = qps.alloc(super::limits::QPN_RANGE, qp.clone())?;
        qp.qpn.store(qpn, Relaxed);
        qp.timer.attach(qp.clone());
        Ok(qp)
    }

    /// Makes a queue pair that has no number yet, and that no timer finds.
    pub(super) fn build(endpoint: &Arc<Endpoint>, init: QpInit) -> Result<Arc<Self>> {
        let QpParts {
            pd,
            send_cq,
            recv_cq,
            rings,
            signal_all,
            events,
        } = init.parts;
        let (sq, rq) = rings.open(MSG_WINDOW)?;
        // CAST: a small constant.
        let window = MSG_WINDOW as usize;
        let send = SendStream::new(
            KVVec::from_elem(SendMsg::default(), window, GFP_KERNEL_ACCOUNT)?,
            SendConfig::default(),
        );
        let mut recv = RecvStream::new(
            KVVec::from_elem(MsgSlot::default(), window, GFP_KERNEL_ACCOUNT)?,
            KVVec::from_elem(Response::default(), RESPONSES, GFP_KERNEL_ACCOUNT)?,
            RecvConfig::default(),
        );
        recv.stop();
        let inner = QpInner {
            state: QpState::Reset,
            attr: QpAttr::default(),
            conn: None,
            foreign: None,
            frozen: false,
            sq,
            rq,
            rq_base: 0,
            send,
            recv,
            nak: None,
            patience: Patience::default(),
            wishes: Wishes::default(),
            counters: None,
            told_drained: false,
            told_last: false,
            peer_gone: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                qpn: Atomic::new(0),
                service: init.service,
                serial: SERIALS.fetch_add(1, Relaxed),
                pd,
                signal_all,
                endpoint: endpoint.clone(),
                send_cq,
                recv_cq,
                events,
                queued: Atomic::new(false),
                inner <- new_spinlock_bh!(inner),
                timer <- Timer::new(),
                kick <- new_work!("Qp::kick"),
                depart <- new_work!("Qp::depart"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the queue pair's number.
    pub(crate) fn qpn(&self) -> u32 {
        self.qpn.load(Relaxed)
    }

    /// Returns the number of its protection domain.
    pub(crate) fn pd(&self) -> u32 {
        self.pd
    }

    /// Returns the state and the attributes, those that were never set being zero.
    pub(crate) fn query(&self) -> QpAttr {
        let inner = self.inner.lock();
        let mut attr = inner.attr;
        attr.state = inner.state;
        attr.current_state = inner.state;
        attr.sq_draining = inner.state == QpState::SendQueueDrain && !inner.send.is_drained();
        attr
    }

    /// Counts by `counters` from now on, or by none. Process context.
    pub(crate) fn set_counters(&self, counters: Option<Arc<QpCounters>>) {
        let old = core::mem::replace(&mut self.inner.lock().counters, counters);
        // Not under the lock: it may be the last.
        drop(old);
    }

    /// Has what a user in the kernel has posted looked at soon. Any context.
    pub(crate) fn kick(self: &Arc<Self>) {
        // If it is queued already, then it has yet to look.
        let _ = workqueue::system_bh().enqueue::<_, 0>(self.clone());
    }

    /// Something was posted. Process or softirq context.
    pub(crate) fn doorbell(self: &Arc<Self>) {
        let conn = {
            let mut inner = self.inner.lock();
            match inner.state {
                QpState::Error => {
                    self.flush(&mut inner);
                    None
                }
                QpState::SendQueueError => {
                    self.flush_later(&mut inner);
                    None
                }
                // Work requests wait for the states in which they are carried out.
                QpState::Reset | QpState::Init | QpState::ReadyToReceive => None,
                _ if inner.peer_gone => {
                    self.lose_posted(&mut inner);
                    None
                }
                _ => self.want_to_send_on(&inner),
            }
        };
        if let Some(conn) = conn {
            conn.run();
        }
    }

    /// Sets the timer to when either stream next needs it.
    pub(super) fn arm(&self, inner: &Locked<'_>) {
        if let Some(at) = inner.send.poll_timeout() {
            self.timer.arm_by(at.0);
        }
    }

    /// Takes the queue pair out of everything: no packet and no timer finds it any more on
    /// return. Process context, may sleep.
    pub(crate) fn destroy(self: &Arc<Self>) {
        drop(self.endpoint.host().qps.remove(self.qpn()));
        self.timer.stop();
        work::cancel_sync::<_, 0>(self);
        work::cancel_sync::<_, DEPART>(self);
        let conn = {
            let mut inner = self.inner.lock();
            inner.state = QpState::Reset;
            inner.recv.stop();
            inner.conn.take()
        };
        if let Some(conn) = conn {
            conn.detach(self.qpn());
        }
    }
}

impl QpInner {
    /// The entry of the receive queue that is receive `rsn`.
    pub(super) fn recv_index(&self, rsn: proto::psn::Rsn) -> u32 {
        self.rq_base.wrapping_add(rsn.0)
    }
}

impl TimerCallback for Qp {
    /// Runs in softirq context.
    fn expired(this: ArcBorrow<'_, Self>) {
        let qp: Arc<Self> = this.into();
        let conn = {
            let mut inner = qp.inner.lock();
            if inner.state == QpState::Reset || inner.frozen {
                return;
            }
            let progress = inner.conn.as_ref().map_or_else(now, |c| c.progress());
            inner.send.on_timeout(now(), progress);
            match inner.state {
                QpState::Error => qp.flush(&mut inner),
                QpState::SendQueueError => qp.flush_later(&mut inner),
                _ if inner.peer_gone => qp.lose_posted(&mut inner),
                _ => {
                    // An atomic may have waited for memory.
                    qp.deliver(&mut inner);
                    qp.complete_sent(&mut inner);
                }
            }
            qp.arm(&inner);
            qp.want_to_send_on(&inner)
        };
        if let Some(conn) = conn {
            conn.run();
        }
    }
}
