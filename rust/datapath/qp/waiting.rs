// SPDX-License-Identifier: GPL-2.0

//! The place of a queue pair in its connection's queue of those that want to send.

use super::{
    super::conn::Conn,
    Locked,
    Qp, //
};
use kernel::sync::{
    atomic::Full,
    Arc, //
};

impl Qp {
    /// Enters the queue pair in its connection's queue and returns the connection, which is to be
    /// run when the lock is dropped.
    ///
    /// With the lock held, for otherwise it could have got another connection meanwhile; it would
    /// count as waiting, and wait where nobody looks for it.
    pub(super) fn want_to_send_on(&self, inner: &Locked<'_>) -> Option<Arc<Conn>> {
        let conn = inner.conn.clone()?;
        self.want_to_send(&conn);
        Some(conn)
    }

    /// Enters the queue pair in a connection's queue, at its front or its end, if the connection is
    /// still its own.
    pub(in crate::datapath) fn want_again(&self, conn: &Conn, first: bool) {
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
    pub(in crate::datapath) fn want_to_send(&self, conn: &Conn) {
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
    pub(in crate::datapath) fn left_queue(&self) {
        self.queued.xchg(false, Full);
    }

    /// Enters the queue pair in the connection's queue if it has anything to send.
    pub(in crate::datapath) fn want_if_ready(&self, inner: &mut Locked<'_>, conn: &Conn) {
        if self.fetch(inner) || inner.next_packet().is_some() {
            self.want_to_send(conn);
        }
    }
}
