// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: state, attributes, and the way into the error state.
//!
//! The requester half is in [`super::requester`], the responder half in [`super::responder`].

use super::{
    conn::Conn,
    cq::Cq,
    endpoint::Endpoint,
    foreign::Foreign,
    now,
    qp_counters::QpCounters,
    recv_queue::RecvQueue,
    srq::{
        Bound,
        Srq, //
    },
    uc,
    wishes::Wishes,
    work_queue::WorkQueue,
    wqe::{
        RecvWr,
        SendWr, //
    },
};
use crate::{
    rdma::{
        event::{
            QpEvent,
            QpEvents, //
        },
        mmap::SharedMem,
        qp::{
            AttrMask,
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
            Full,
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
    packet::Qpn,
    stream::{
        MsgSlot,
        Nak,
        RecvConfig,
        RecvStream,
        RemoteAccess,
        Response,
        SendConfig,
        SendMsg,
        SendStream,
        WcStatus,
        MSG_WINDOW, //
    },
    wire::{
        InitHeader,
        Token, //
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
    /// Number of the protection domain.
    pub(crate) pd: u32,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) sq: (SharedMem, ring::Geometry),
    /// [`None`] if nothing can be received, or from the shared receive queue.
    pub(crate) rq: Option<(SharedMem, ring::Geometry)>,
    pub(crate) srq: Option<Arc<Srq>>,
    /// Every send work request has a completion.
    pub(crate) signal_all: bool,
    pub(crate) events: QpEvents,
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
        let (sq, sq_geometry) = init.sq;
        let sq = WorkQueue::new(sq, sq_geometry)?;
        // The first work request finds the kernel asleep.
        let _ = sq.sleep();
        let rq = match (init.srq, init.rq) {
            (Some(srq), _) => Some(RecvQueue::Shared(Bound::new(srq, MSG_WINDOW)?)),
            (None, Some((ring, geometry))) => Some(RecvQueue::Own(WorkQueue::new(ring, geometry)?)),
            (None, None) => None,
        };
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
                pd: init.pd,
                signal_all: init.signal_all,
                endpoint: endpoint.clone(),
                send_cq: init.send_cq,
                recv_cq: init.recv_cq,
                events: init.events,
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

    /// Introduces a connection to the peer by this queue pair.
    pub(super) fn introduce(&self, inner: &Locked<'_>, conn: &Conn) {
        let peer = Qpn(inner.attr.dest_qp_num);
        conn.introduce(Qpn(self.qpn()), peer, inner.token());
    }

    /// Returns the connection that INIT asks for, if it is from the queue pair that this one is
    /// connected to.
    pub(super) fn conn_for(&self, init: &InitHeader) -> Option<Arc<Conn>> {
        let inner = self.inner.lock();
        let receives = !matches!(inner.state, QpState::Reset | QpState::Init | QpState::Error);
        (receives && inner.is_introduced_by(init)).then(|| inner.conn.clone())?
    }

    /// Returns the connection at a device that an INIT is for, as [`Self::conn_for`] does.
    pub(super) fn foreign_for(&self, init: &InitHeader) -> Option<Arc<Foreign>> {
        let inner = self.inner.lock();
        inner
            .is_introduced_by(init)
            .then(|| inner.foreign.clone())?
    }

    /// Sets the attributes in `mask` and moves to the state among them. Process context.
    ///
    /// The caller has checked the values; the state is checked here, under the lock, as the queue
    /// pair may go to the error state by itself at any time.
    ///
    /// Errors: `EINVAL` if the state does not allow the change; what connecting returns.
    pub(crate) fn modify(self: &Arc<Self>, attr: &QpAttr, mask: AttrMask) -> Result {
        // The connection is made before the lock is taken, for that may sleep.
        let conn = if mask.contains(AttrMask::ADDRESS) && mask.contains(AttrMask::DEST_QPN) {
            let wishes = self.inner.lock().wishes;
            let owner = if wishes.is_empty() { 0 } else { self.qpn() };
            Some(self.endpoint.connect(&attr.address, owner, &wishes)?)
        } else {
            None
        };
        let done = {
            let mut inner = self.inner.lock();
            let to = self.service.next_state(inner.state, attr, mask);
            to.map(|to| {
                inner.attr.apply(attr, mask);
                let old = self.enter(&mut inner, to, conn.clone());
                self.arm(&inner);
                (old, inner.conn.clone())
            })
        };
        let (old, run) = done.inspect_err(|_| {
            // It was counted as a user of the connection already.
            if let Some(conn) = conn {
                conn.detach(self.qpn());
            }
        })?;
        if let Some(conn) = old {
            conn.detach(self.qpn());
            // If it waited to send, then it does so no more.
            self.left_queue();
        }
        if let Some(conn) = run {
            self.want_again(&conn, false);
            conn.run();
        }
        Ok(())
    }

    /// Carries out the move to state `to`. Returns the connection that is left.
    pub(super) fn enter(
        &self,
        inner: &mut Locked<'_>,
        to: QpState,
        conn: Option<Arc<Conn>>,
    ) -> Option<Arc<Conn>> {
        let qpn = Qpn(self.qpn());
        let from = core::mem::replace(&mut inner.state, to);
        match to {
            QpState::Reset => {
                inner.send.reset(SendConfig::default());
                inner.recv.stop();
                inner.sq.discard();
                let _ = inner.sq.sleep();
                if let Some(rq) = &mut inner.rq {
                    rq.discard();
                }
                inner.nak = None;
                inner.told_last = false;
                inner.peer_gone = false;
                inner.frozen = false;
                inner.wishes = Wishes::default();
                inner.attr = QpAttr::default();
                return inner.conn.take();
            }
            QpState::Init | QpState::SendQueueError => {}
            QpState::ReadyToReceive => {
                if let Some(conn) = &conn {
                    self.introduce(inner, conn);
                }
                let old = core::mem::replace(&mut inner.conn, conn);
                inner.peer_gone = false;
                inner.rq_base = inner.rq.as_ref().map_or(0, |rq| rq.oldest_index());
                let cfg = inner.recv_config(qpn, self.is_unreliable());
                inner.recv.reset(cfg);
                return old;
            }
            QpState::ReadyToSend => {
                let cfg = inner.send_config(qpn, self.is_unreliable());
                match from {
                    QpState::ReadyToReceive => {
                        inner.send.reset(cfg);
                        // The peer may know only this of what is known now.
                        if let Some(conn) = &inner.conn {
                            self.introduce(inner, conn);
                        }
                    }
                    _ => inner.send.set_limits(&cfg),
                }
                if from == QpState::SendQueueError {
                    inner.send.resume();
                }
                inner.send.set_draining(false);
                let cfg = inner.recv_config(qpn, self.is_unreliable());
                inner.recv.set_limits(&cfg);
            }
            QpState::SendQueueDrain => {
                let cfg = inner.send_config(qpn, self.is_unreliable());
                inner.send.set_limits(&cfg);
                let cfg = inner.recv_config(qpn, self.is_unreliable());
                inner.recv.set_limits(&cfg);
                inner.told_drained = false;
                inner.send.set_draining(true);
                self.tell_drained(inner);
            }
            QpState::Error => {
                inner.state = from;
                self.fail(inner);
            }
        }
        None
    }

    /// Reports a drained send queue, once.
    pub(super) fn tell_drained(&self, inner: &mut Locked<'_>) {
        if inner.state == QpState::SendQueueDrain && inner.send.is_drained() && !inner.told_drained
        {
            inner.told_drained = true;
            if inner.attr.sqd_async_notify {
                self.events.report(QpEvent::SqDrained);
            }
        }
    }

    /// Moves to the error state: what is posted completes, the oldest with the reason that the
    /// stream knows, all else flushed.
    pub(super) fn fail(&self, inner: &mut Locked<'_>) {
        if inner.state != QpState::Error {
            inner.state = QpState::Error;
            inner.send.fail(WcStatus::Flushed);
            inner.recv.stop();
        }
        self.flush(inner);
    }

    /// Moves to the error state for a reason that no completion tells.
    pub(super) fn fail_with(&self, inner: &mut Locked<'_>, event: QpEvent) {
        if inner.state != QpState::Error {
            self.fail(inner);
            self.events.report(event);
        }
    }

    /// Completes all that is posted to a queue pair in the error state.
    ///
    /// That is at most what the rings hold. A process that goes on posting meanwhile keeps nobody
    /// here: the lock is held and bottom halves are disabled, so what comes later is left to the
    /// timer.
    fn flush(&self, inner: &mut Locked<'_>) {
        // What a device carries, it flushes.
        if inner.foreign.is_some() {
            return;
        }
        self.complete_sent(inner);
        let more = [self.flush_sends(inner), self.flush_receives(inner)];
        if more.contains(&true) {
            self.timer.arm_by(now().0 + FLUSH_NS);
        }
    }

    /// Completes what is in the send queue. Returns whether there may be more.
    pub(super) fn flush_sends(&self, inner: &mut Locked<'_>) -> bool {
        inner.sq.drain(|entry| {
            self.send_cq
                .push_flushed(entry.map_or(0, SendWr::wr_id_of), self.qpn());
        })
    }

    /// Completes what is in the receive queue. Returns whether there may be more.
    fn flush_receives(&self, inner: &mut Locked<'_>) -> bool {
        let Some(rq) = &mut inner.rq else {
            return false;
        };
        let more = rq.flush(|entry| {
            let wr_id = entry.and_then(RecvWr::parse).map_or(0, |wr| wr.wr_id);
            self.recv_cq.push_flushed(wr_id, self.qpn());
        });
        // IBTA 1.4, 11.6.3.1: of those that it had taken, the last is completed.
        if !more && rq.is_shared() && !core::mem::replace(&mut inner.told_last, true) {
            self.events.report(QpEvent::LastWqeReached);
        }
        more
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

    /// Enters the queue pair in its connection's queue and returns the connection, which is to be
    /// run when the lock is dropped.
    ///
    /// With the lock held, for otherwise it could have got another connection meanwhile; it would
    /// count as waiting, and wait where nobody looks for it.
    fn want_to_send_on(&self, inner: &Locked<'_>) -> Option<Arc<Conn>> {
        let conn = inner.conn.clone()?;
        self.want_to_send(&conn);
        Some(conn)
    }

    /// Enters the queue pair in a connection's queue, at its front or its end, if the connection is
    /// still its own.
    pub(super) fn want_again(&self, conn: &Conn, first: bool) {
        let inner = self.inner.lock();
        if !inner.belongs_to(conn) {
            return;
        }
        if first {
            self.wait_first(conn);
        } else {
            self.want_to_send(conn);
        }
    }

    /// Enters the queue pair in the connection's queue, unless it is there. Its lock is held.
    pub(super) fn want_to_send(&self, conn: &Conn) {
        if !self.queued.xchg(true, Full) {
            conn.enqueue(self.qpn());
        }
    }

    /// Enters the queue pair at the front of the connection's queue. Its lock is held.
    fn wait_first(&self, conn: &Conn) {
        if !self.queued.xchg(true, Full) {
            conn.enqueue_first(self.qpn());
        }
    }

    /// The queue pair was taken off the connection's queue.
    pub(super) fn left_queue(&self) {
        self.queued.xchg(false, Full);
    }

    /// Enters the queue pair in the connection's queue if it has anything to send.
    pub(super) fn want_if_ready(&self, inner: &mut Locked<'_>, conn: &Conn) {
        if self.fetch(inner) || inner.next_packet().is_some() {
            self.want_to_send(conn);
        }
    }

    /// Sets the timer to when either stream next needs it.
    pub(super) fn arm(&self, inner: &Locked<'_>) {
        if let Some(at) = inner.send.poll_timeout() {
            self.timer.arm_by(at.0);
        }
    }

    /// There is no way to the peer any more: the device goes, or a reliable queue pair's peer has.
    pub(super) fn end_lost(&self, inner: &mut Locked<'_>) {
        if !inner.send.is_empty() {
            inner.send.fail(WcStatus::RetryExceeded);
            self.complete_sent(inner);
        }
        self.fail_with(inner, QpEvent::Fatal);
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
    pub(super) fn send_config(&self, qpn: Qpn, unreliable: bool) -> SendConfig {
        let mut cfg = SendConfig {
            qpn,
            peer_qpn: Qpn(self.attr.dest_qp_num),
            mtu: self.attr.path_mtu.bytes(),
            sq_psn: self.attr.sq_psn,
            max_rd_atomic: self.attr.max_rd_atomic.into(),
            retry_cnt: self.attr.retry_cnt,
            rnr_retry: self.attr.rnr_retry,
            ack_timeout: self.attr.timeout,
            unreliable,
        };
        if unreliable {
            uc::set_patience(&mut cfg);
        }
        cfg
    }

    pub(super) fn recv_config(&self, qpn: Qpn, unreliable: bool) -> RecvConfig {
        let access = self.attr.access_flags;
        RecvConfig {
            qpn,
            peer_qpn: Qpn(self.attr.dest_qp_num),
            mtu: self.attr.path_mtu.bytes(),
            rq_psn: self.attr.rq_psn,
            max_dest_rd_atomic: self.attr.max_dest_rd_atomic.into(),
            min_rnr_timer: self.attr.min_rnr_timer,
            access: RemoteAccess {
                write: access & super::mr::access::REMOTE_WRITE != 0,
                read: access & super::mr::access::REMOTE_READ != 0,
                atomic: access & super::mr::access::REMOTE_ATOMIC != 0,
                flush: access
                    & (super::mr::access::FLUSH_GLOBAL | super::mr::access::FLUSH_PERSISTENT)
                    != 0,
            },
            unreliable,
        }
    }

    /// By what the peer knows this queue pair.
    fn token(&self) -> Token {
        let expected = self.state == QpState::ReadyToReceive;
        let psn = match expected {
            true => self.attr.rq_psn,
            false => self.attr.sq_psn,
        };
        Token { psn, expected }
    }

    /// Whether an INIT is from the queue pair that this one is connected to, and its sender knows
    /// what the application has told the two.
    fn is_introduced_by(&self, init: &InitHeader) -> bool {
        let Token { psn, expected } = init.token;
        let numbered = match self.state {
            // What it is going to number its requests from is not known yet.
            QpState::ReadyToReceive if expected => false,
            _ if expected => self.attr.sq_psn == psn,
            _ => self.attr.rq_psn == psn,
        };
        numbered
            && self.attr.dest_qp_num == init.src_qpn.0
            && self.attr.address.dgid.0 == init.src_gid.0
    }

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
