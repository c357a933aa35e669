// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that move to a connection of their own, because the peer has one for them alone.

use super::{
    conn::Conn,
    now,
    qp::{
        Locked,
        Qp,
        DEPART, //
    }, //
};
use crate::rdma::qp::{
    QpState,
    QpType, //
};
use kernel::sync::Arc;

impl Qp {
    /// The peer has a connection for this queue pair alone: has it leave the one that it shares.
    /// Softirq context.
    pub(super) fn depart(self: &Arc<Self>) {
        // If it is queued already, then it has yet to run.
        let _ = self.endpoint.queue.enqueue::<_, DEPART>(self.clone());
    }

    /// The shared connection, if the queue pair can leave it: nothing was exchanged there, for the
    /// peer at its other end is not the queue pair's.
    fn shared(&self, inner: &Locked<'_>) -> Option<Arc<Conn>> {
        let connected = matches!(
            inner.state,
            QpState::ReadyToReceive | QpState::ReadyToSend | QpState::SendQueueDrain
        );
        let conn = inner.conn.as_ref().filter(|_| connected)?;
        let fresh = inner.send.is_untouched() && inner.recv.is_untouched();
        (self.service == QpType::Rc && conn.key().owner == 0 && fresh).then(|| conn.clone())
    }

    /// Moves to a connection of its own. Process context.
    ///
    /// If that cannot be made, then the next INIT of the peer makes another try.
    pub(super) fn leave_shared(self: &Arc<Self>) {
        let (address, wishes) = {
            let inner = self.inner.lock();
            match self.shared(&inner) {
                Some(_) => (inner.attr.address, inner.wishes),
                None => return,
            }
        };
        let Ok(new) = self.endpoint.connect(&address, self.qpn(), &wishes) else {
            return;
        };
        let old = {
            let mut inner = self.inner.lock();
            let old = self
                .shared(&inner)
                .filter(|old| old.key().remote == new.key().remote)
                .filter(|old| old.key().local == new.key().local);
            if old.is_some() {
                self.introduce(&inner, &new);
                inner.conn = Some(new.clone());
                inner.watch_planes();
                // What was sent before `modify` to RTS there is none of.
                if inner.state != QpState::ReadyToReceive {
                    inner.send.restart(now());
                }
            }
            old
        };
        match old {
            Some(old) => {
                old.detach(self.qpn());
                // If it waited to send, then it does so no more.
                self.left_queue();
                self.want_again(&new, false);
                new.run();
            }
            None => new.detach(self.qpn()),
        }
    }
}
