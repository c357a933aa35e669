// SPDX-License-Identifier: GPL-2.0

//! What is different in queue pairs of the unreliable connected service (UC).
//!
//! They have a connection and streams like reliable ones; what the network loses is sent again. But
//! what the peer refuses or never takes is dropped without a word, see `proto::stream`.

use super::{
    now,
    qp::{
        Locked,
        Qp,
        FLUSH_NS, //
    },
};
use crate::rdma::qp::{
    QpState,
    QpType, //
};
use proto::stream::{
    SendConfig,
    MSG_WINDOW, //
};

/// How long the peer of an unreliable queue pair may be silent before messages to it are given up:
/// so many tries of this local ACK timeout, 2 s in all. Verbs have no attributes for that.
const TRIES: u8 = 4;
const TIMEOUT: u8 = 17;

/// Has the stream give up after the time above.
pub(super) fn set_patience(cfg: &mut SendConfig) {
    cfg.retry_cnt = TRIES - 1;
    cfg.ack_timeout = TIMEOUT;
    // Nothing is ever answered.
    cfg.max_rd_atomic = 0;
}

impl Qp {
    /// Whether it is of the unreliable service.
    pub(super) fn is_unreliable(&self) -> bool {
        self.service == QpType::Uc
    }

    /// Ends sending for a reason that lies on this side, which the oldest completion tells.
    ///
    /// IBTA 1.4, 10.3.1: a reliable queue pair goes to the error state, another one only to the SQE
    /// state, and goes on receiving.
    pub(super) fn fail_sending(&self, inner: &mut Locked<'_>) {
        if self.is_unreliable() {
            inner.state = QpState::SendQueueError;
            self.flush_later(inner);
        } else {
            self.fail(inner);
        }
    }

    /// Completes what is in the send queue in the SQE state, as in `Qp::flush`.
    pub(super) fn flush_later(&self, inner: &mut Locked<'_>) {
        if self.flush_sends(inner) {
            self.timer.arm_by(now().0 + FLUSH_NS);
        }
    }

    /// The peer endpoint is gone, and with it all that was outstanding there. An unreliable queue
    /// pair does not tell.
    pub(super) fn peer_lost(&self, inner: &mut Locked<'_>) {
        if self.is_unreliable() {
            inner.peer_gone = true;
            self.lose_posted(inner);
        } else {
            self.end_lost(inner);
        }
    }

    /// Completes what is posted to be sent to a peer that is gone. As with
    /// `Qp::flush`, what is posted meanwhile is left to the timer.
    pub(super) fn lose_posted(&self, inner: &mut Locked<'_>) {
        for _ in 0..=inner.sq.entries() / MSG_WINDOW {
            self.fetch(inner);
            inner.send.lose();
            self.complete_sent(inner);
        }
        if !inner.send.is_empty() {
            self.timer.arm_by(now().0 + FLUSH_NS);
        }
    }
}
