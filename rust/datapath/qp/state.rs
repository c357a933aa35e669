// SPDX-License-Identifier: GPL-2.0

//! The states of a queue pair, and the attributes that moves between them set.

use super::{
    super::{
        conn::Conn,
        mr::access,
        uc, //
    },
    Locked,
    Qp,
    QpInner, //
};
use crate::{
    datapath::wishes::Wishes,
    rdma::qp::{
        AttrMask,
        QpAttr,
        QpState, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::{
    packet::Qpn,
    stream::{
        RecvConfig,
        RemoteAccess,
        SendConfig, //
    },
};

impl Qp {
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
                inner.watch_planes();
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
    pub(in crate::datapath) fn enter(
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
                inner.patience.end();
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
}

impl QpInner {
    pub(in crate::datapath) fn send_config(&self, qpn: Qpn, unreliable: bool) -> SendConfig {
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

    pub(in crate::datapath) fn recv_config(&self, qpn: Qpn, unreliable: bool) -> RecvConfig {
        let flags = self.attr.access_flags;
        RecvConfig {
            qpn,
            peer_qpn: Qpn(self.attr.dest_qp_num),
            mtu: self.attr.path_mtu.bytes(),
            rq_psn: self.attr.rq_psn,
            max_dest_rd_atomic: self.attr.max_dest_rd_atomic.into(),
            min_rnr_timer: self.attr.min_rnr_timer,
            access: RemoteAccess {
                write: flags & access::REMOTE_WRITE != 0,
                read: flags & access::REMOTE_READ != 0,
                atomic: flags & access::REMOTE_ATOMIC != 0,
                flush: flags & (access::FLUSH_GLOBAL | access::FLUSH_PERSISTENT) != 0,
            },
            unreliable,
            last_byte_ordered: self.wishes.last_byte == Some(true),
        }
    }
}
