// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that change hands in the middle of everything, with their connection: their state as
//! bytes, see [`proto::state`].

use super::{
    conn::{
        Conn,
        ConnKey, //
    },
    now,
    qp::Qp,
    work_queue::WorkQueue, //
};
use crate::{
    rdma::qp::{
        QpState,
        QpType, //
    },
    sync::id_table::synchronize_rcu_expedited,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::{
    state::{
        Reader,
        StateError,
        Writer, //
    },
    stream::Nak,
    wire::Gid,
};

fn malformed(_: StateError) -> Error {
    EINVAL
}

/// Writes where a queue is: what is fetched and not retired is in the streams' hands.
fn save_queue(queue: Option<&WorkQueue>, w: &mut Writer<'_>) -> Option<()> {
    let (oldest, in_work) = queue.map_or((0, 0), |q| (q.oldest_index(), q.in_work()));
    w.number(oldest)?;
    w.number(in_work)
}

fn load_queue(queue: Option<&mut WorkQueue>, r: &mut Reader<'_>) -> Result {
    let oldest = r.number().map_err(malformed)?;
    let in_work = r.number().map_err(malformed)?;
    match queue {
        Some(queue) => queue.restore(oldest, in_work),
        None => Ok(()),
    }
}

/// Returns the number of the connection whose state this is.
///
/// Errors: `EINVAL` if it is none.
pub(crate) fn number(state: &[u8]) -> Result<u32> {
    let number = Reader::new(state).and_then(|mut r| r.number());
    number.map_err(malformed)
}

impl Qp {
    /// Writes the state of the queue pair and of the connection that it has for itself to `buf`, and
    /// returns how long it is, and the connection. They do nothing any more after that, and what comes for them is
    /// dropped.
    ///
    /// Errors, and everything goes on: `EOPNOTSUPP` if the connection is shared or the queue pair
    /// not a reliable one with a queue of its own, `ENOTCONN` if the peer is not known or the queue
    /// pair is in another state than those in which it is carried, `ENOSPC` if `buf` is too short.
    ///
    /// Process context, may sleep.
    pub(crate) fn save(&self, buf: &mut [u8]) -> Result<(usize, Arc<Conn>)> {
        let conn = self.inner.lock().conn.clone().ok_or(ENOTCONN)?;
        if conn.key().owner == 0 {
            return Err(EOPNOTSUPP);
        }
        // What is half way between the connection and the streams must have arrived: it is carried
        // with bottom halves disabled.
        conn.inner.lock().paused = true;
        synchronize_rcu_expedited();
        let saved = self.save_paused(&conn, buf);
        if saved.is_err() {
            conn.inner.lock().paused = false;
            conn.run();
        }
        Ok((saved?, conn))
    }

    fn save_paused(&self, conn: &Conn, buf: &mut [u8]) -> Result<usize> {
        let mut inner = self.inner.lock();
        let carried = matches!(
            inner.state,
            QpState::ReadyToReceive | QpState::ReadyToSend | QpState::SendQueueDrain
        );
        if !carried || !inner.belongs_to(conn) {
            return Err(ENOTCONN);
        }
        let is_shared = inner.rq.as_ref().is_some_and(|rq| rq.is_shared());
        if self.service != QpType::Rc || is_shared {
            return Err(EOPNOTSUPP);
        }
        let mut locked = conn.inner.lock();
        if !locked.proto.established() {
            return Err(ENOTCONN);
        }
        let mut w = Writer::new(buf).ok_or(ENOSPC)?;
        let mut write = || {
            locked.proto.save(&mut w)?;
            save_queue(Some(&inner.sq), &mut w)?;
            save_queue(inner.rq.as_ref().and_then(|rq| rq.own()), &mut w)?;
            w.number(inner.rq_base)?;
            inner.send.save(&mut w)?;
            inner.recv.save(&mut w)?;
            w.packet(inner.nak.map(|nak| nak.to_desc()).as_ref())
        };
        write().ok_or(ENOSPC)?;
        let len = w.len();
        locked.proto.abandon();
        drop(locked);
        inner.frozen = true;
        inner.conn = None;
        Ok(len)
    }

    /// Somebody else goes on with the queue pair that was saved: the connection goes. Process
    /// context.
    pub(crate) fn let_go(&self, conn: &Arc<Conn>) {
        conn.detach(self.qpn());
        self.left_queue();
        self.endpoint.retire(conn);
    }

    /// Goes on from a state, on a connection that is new or was saved, and has the number of the saved one. The
    /// caller runs it. Process context.
    ///
    /// Errors: `EINVAL` if it is not the state of a queue pair with these rings; it stands still
    /// then, of no use until it is taken back or given up, and so is the connection.
    pub(super) fn load(&self, conn: &Arc<Conn>, state: &[u8]) -> Result {
        let mut inner = self.inner.lock();
        let mut r = Reader::new(state).map_err(malformed)?;
        {
            let mut locked = conn.inner.lock();
            locked.proto.load(now(), &mut r).map_err(malformed)?;
            locked.paused = false;
        }
        let queues = &mut *inner;
        load_queue(Some(&mut queues.sq), &mut r)?;
        load_queue(queues.rq.as_mut().and_then(|rq| rq.own_mut()), &mut r)?;
        let rq_base = r.number().map_err(malformed)?;
        let qpn = proto::packet::Qpn(self.qpn());
        let cfg = inner.send_config(qpn, false);
        inner.send.load(now(), cfg, &mut r).map_err(malformed)?;
        let cfg = inner.recv_config(qpn, false);
        inner.recv.load(cfg, &mut r).map_err(malformed)?;
        let nak = r.packet().map_err(malformed)?;
        r.done().map_err(malformed)?;
        inner.rq_base = rq_base;
        inner.nak = nak.as_ref().and_then(Nak::from_desc);
        inner.conn = Some(conn.clone());
        inner.watch_planes();
        inner.foreign = None;
        inner.frozen = false;
        // Whatever could not be done, an atomic whose memory was not there, is looked at anew: the
        // timer may have gone off while nothing was done.
        self.deliver(&mut inner);
        self.arm(&inner);
        Ok(())
    }

    /// Takes the queue pair back from a device that has saved its state. Process context.
    ///
    /// Errors: `EINVAL` if it is no such state, `ENETDOWN` if there is no plane any more, `ENOMEM`;
    /// the queue pair is still given away then.
    pub(crate) fn resume(&self, state: &[u8]) -> Result {
        let id = number(state)?;
        let (address, wishes) = {
            let inner = self.inner.lock();
            (inner.attr.address, inner.wishes)
        };
        let key = ConnKey {
            local: Gid(address.sgid.gid.0),
            remote: Gid(address.dgid.0),
            owner: self.qpn(),
        };
        let conn = self.endpoint.obtain(key, Some(id), &wishes)?;
        match self.load(&conn, state) {
            Ok(()) => {
                conn.announce();
                self.want_again(&conn, false);
                conn.run();
                Ok(())
            }
            Err(e) => {
                conn.detach(self.qpn());
                Err(e)
            }
        }
    }
}
