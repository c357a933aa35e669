// SPDX-License-Identifier: GPL-2.0

//! The way of a queue pair into the error state, and what is completed there.

use super::{
    super::{
        now,
        wqe::{
            RecvWr,
            SendWr, //
        },
    },
    Locked,
    Qp,
    FLUSH_NS, //
};
use crate::rdma::{
    event::QpEvent,
    qp::QpState, //
};
use proto::stream::WcStatus;

impl Qp {
    /// Reports a drained send queue, once.
    pub(in crate::datapath) fn tell_drained(&self, inner: &mut Locked<'_>) {
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
    pub(in crate::datapath) fn fail(&self, inner: &mut Locked<'_>) {
        if inner.state != QpState::Error {
            inner.state = QpState::Error;
            inner.send.fail(WcStatus::Flushed);
            inner.recv.stop();
        }
        self.flush(inner);
    }

    /// Moves to the error state for a reason that no completion tells.
    pub(in crate::datapath) fn fail_with(&self, inner: &mut Locked<'_>, event: QpEvent) {
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
    pub(super) fn flush(&self, inner: &mut Locked<'_>) {
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
    pub(in crate::datapath) fn flush_sends(&self, inner: &mut Locked<'_>) -> bool {
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

    /// There is no way to the peer any more: the device goes, or a reliable queue pair's peer has.
    pub(in crate::datapath) fn end_lost(&self, inner: &mut Locked<'_>) {
        if !inner.send.is_empty() {
            inner.send.fail(WcStatus::RetryExceeded);
            self.complete_sent(inner);
        }
        self.fail_with(inner, QpEvent::Fatal);
    }
}
