// SPDX-License-Identifier: GPL-2.0

//! Queue pairs whose work a device does: they keep number, attributes and state here, and stand
//! still until they are taken back.

use super::{
    conn::Conn,
    foreign::Foreign,
    qp::{
        Locked,
        Qp,
        QpInner, //
    }, //
};
use crate::rdma::{
    event::QpEvent,
    mmap::SharedMem,
    qp::{
        AttrMask,
        QpAttr,
        QpState,
        QpType, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::stream::SendConfig;
use ring::Geometry;

/// A ring that changes hands.
#[derive(Clone)]
pub(crate) struct Ring {
    pub(crate) mem: SharedMem,
    pub(crate) geometry: Geometry,
    /// Index of the first entry that was not taken yet.
    pub(crate) first: u32,
}

/// What a queue pair is made of, for those who are to carry it.
pub(crate) struct Parts {
    pub(crate) sq: Ring,
    /// [`None`] if it receives nothing, or from a shared queue.
    pub(crate) rq: Option<Ring>,
    pub(crate) is_shared: bool,
    pub(crate) pd: u32,
    pub(crate) signal_all: bool,
    pub(crate) is_reliable: bool,
}

/// How a queue pair is taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeBack {
    /// It is going to be reset or destroyed.
    Discard,
    /// The device has brought it to the error state, and told so: the rest is to be flushed.
    Failed,
    /// The device is gone, with all that it knew.
    Lost,
}

impl Qp {
    /// Returns all attributes as they would be after a change, with the state among them.
    ///
    /// Errors: `EINVAL` if the state does not allow the change.
    pub(crate) fn preview(&self, attr: &QpAttr, mask: AttrMask) -> Result<QpAttr> {
        let inner = self.inner.lock();
        let from = inner.state;
        let to = self.service.next_state(from, attr, mask)?;
        let mut merged = inner.attr;
        merged.apply(attr, mask);
        merged.state = to;
        merged.current_state = from;
        Ok(merged)
    }

    /// Returns what it is made of.
    pub(crate) fn parts(&self) -> Parts {
        let inner = self.inner.lock();
        let ring = |queue: &super::work_queue::WorkQueue| {
            let (mem, geometry) = queue.ring();
            Ring {
                mem: mem.clone(),
                geometry,
                first: queue.oldest_index(),
            }
        };
        Parts {
            sq: ring(&inner.sq),
            rq: inner.rq.as_ref().and_then(|rq| rq.own()).map(ring),
            is_shared: inner.rq.as_ref().is_some_and(|rq| rq.is_shared()),
            pd: self.pd,
            signal_all: self.signal_all,
            is_reliable: self.service == QpType::Rc,
        }
    }

    /// Returns the completion queues, that of sends first.
    pub(crate) fn cqs(&self) -> [&Arc<super::cq::Cq>; 2] {
        [&self.send_cq, &self.recv_cq]
    }

    /// Gives the queue pair away: from now on nothing happens here, and who asks for a connection
    /// to it is sent to the device.
    pub(crate) fn park(&self, merged: &QpAttr, foreign: Arc<Foreign>) {
        let mut inner = self.inner.lock();
        inner.foreign = Some(foreign);
        inner.frozen = false;
        // What the streams knew is the device's now: no timer acts on it, and nobody completes it.
        inner.send.reset(SendConfig::default());
        inner.recv.stop();
        inner.state = merged.state;
        inner.attr = *merged;
    }

    /// Keeps attributes, and the state among them, of a queue pair that is given away.
    pub(crate) fn follow(&self, merged: &QpAttr) {
        let mut inner = self.inner.lock();
        if inner.foreign.is_some() {
            inner.state = merged.state;
            inner.attr = *merged;
        }
    }

    /// The device has brought it to the error state.
    pub(crate) fn follow_error(&self) {
        let mut inner = self.inner.lock();
        if inner.foreign.is_some() {
            inner.state = QpState::Error;
        }
    }

    /// Takes the queue pair back from a device that has let go of it. Process context.
    pub(crate) fn take_back(&self, how: TakeBack) {
        let mut inner = self.inner.lock();
        if inner.foreign.take().is_none() {
            return;
        }
        inner.take_over_rings();
        match how {
            TakeBack::Discard => {}
            TakeBack::Failed => self.end(&mut inner, None),
            TakeBack::Lost => self.end(&mut inner, Some(QpEvent::Fatal)),
        }
    }

    /// Goes on after all with the queue pair that was saved. Process context.
    ///
    /// Errors: `EINVAL` if its process has changed indices in the rings meanwhile; the queue pair is
    /// in the error state then.
    pub(crate) fn unsave(&self, conn: &Arc<Conn>, state: &[u8]) -> Result {
        if let Err(e) = self.load(conn, state) {
            self.give_up();
            self.let_go(conn);
            return Err(e);
        }
        self.want_again(conn, false);
        conn.run();
        Ok(())
    }

    /// The state that it was to go on from cannot be used: what is left is flushed. Process context.
    fn give_up(&self) {
        let mut inner = self.inner.lock();
        inner.frozen = false;
        inner.send.reset(SendConfig::default());
        inner.recv.stop();
        inner.take_over_rings();
        self.end(&mut inner, Some(QpEvent::Fatal));
    }

    /// Flushes what is left. The event is for a queue pair that was not in the error state yet.
    fn end(&self, inner: &mut Locked<'_>, event: Option<QpEvent>) {
        let was = inner.state;
        self.fail(inner);
        if let Some(event) = event.filter(|_| was != QpState::Error) {
            self.events.report(event);
        }
    }

    /// Tells the user of something that a device has met. Any context but NMI.
    pub(crate) fn report(&self, event: QpEvent) {
        self.events.report(event);
    }
}

impl QpInner {
    /// Goes on in the rings where whoever has carried the queue pair has left off.
    fn take_over_rings(&mut self) {
        self.sq.take_over();
        if let Some(rq) = self.rq.as_mut().and_then(|rq| rq.own_mut()) {
            rq.take_over();
        }
    }
}
