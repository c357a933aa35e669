// SPDX-License-Identifier: GPL-2.0

//! What the data path needs beside where it is the firmware of a device: numbers, keys and planes
//! are chosen by whoever has the device, and queues were in use before.
//!
//! Not a part of the module that has the verbs.

use super::{
    conn::Conn,
    counters::DROPS,
    endpoint::Endpoint,
    host::Host,
    mr::{
        Mr,
        MrTable,
        MAX_MR,
        TAG_BITS, //
    },
    plane::{
        Plane,
        Planes, //
    },
    qp::{
        Qp,
        QpInit, //
    },
    recv_queue::RecvQueue,
    rx::{
        Receiver,
        Touched, //
    },
    work_queue::WorkQueue,
};
use crate::{
    net::{
        netdev::NetDeviceRef,
        udp::Receive, //
    },
    rdma::{
        qp::{
            QpAttr,
            QpState, //
        },
        umem::Umem, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};
use proto::wire::MAX_PLANES;
use ring::Consumer;

impl Endpoint {
    /// Waits for what its connections have queued. Process context.
    pub(crate) fn flush(&self) {
        self.queue.flush();
    }
}

impl Receiver {
    /// Runs what the packets of a batch have touched. Context as for [`Receiver::take`].
    pub(crate) fn end(&self, touched: Touched) {
        self.batch_end(touched);
    }
}

impl Host {
    /// Returns how many packets were dropped. Process context.
    pub(crate) fn dropped(&self) -> u64 {
        (0..DROPS).map(|i| self.drops.0.sum(i)).sum()
    }
}

impl MrTable {
    /// Adds a region over `umem` under a key that somebody else has chosen. Process context.
    ///
    /// Errors: `EBUSY` if there is a region with that index, `EINVAL` if the key is none of a
    /// region's, `ENOMEM`.
    pub(crate) fn insert(
        &self,
        key: u32,
        pd: u32,
        umem: Arc<Umem>,
        range: (u64, u64),
        access: u32,
    ) -> Result {
        if !(1..MAX_MR).contains(&(key >> TAG_BITS)) {
            return Err(EINVAL);
        }
        let mr = Mr::new(key, pd, umem, range, access)?;
        self.table.insert(key >> TAG_BITS, mr)
    }

    /// Takes the region of a key out that [`Self::insert`] has added, as [`Self::deregister`] does.
    pub(crate) fn remove(&self, key: u32) {
        drop(self.table.remove(key >> TAG_BITS));
    }
}

impl Planes {
    /// Takes these network devices, each with its number, in the place of those that there are.
    ///
    /// Errors: `ENOSPC` if they are too many, `ENOMEM`.
    pub(crate) fn assign(&self, devices: KVec<(u8, NetDeviceRef)>) -> Result {
        let mut list = KVec::with_capacity(MAX_PLANES, GFP_KERNEL)?;
        for (id, ndev) in devices {
            let plane = Plane {
                id,
                ifindex: ndev.ifindex(),
                speed: 0,
                up: ndev.is_up(),
                ndev,
            };
            list.push_within_capacity(plane).map_err(|_| ENOSPC)?;
        }
        // The references to the old ones are dropped outside of the lock.
        core::mem::swap(&mut *self.list.lock(), &mut list);
        self.changed();
        Ok(())
    }
}

impl WorkQueue {
    /// Begins with the entry `first`: somebody else has emptied the ring so far.
    pub(super) fn begin_at(&mut self, first: u32) {
        self.consumer = Consumer::resume_at(self.consumer.geometry(), first);
        let _ = self.sleep();
    }
}

impl Qp {
    /// Makes a queue pair with a number that somebody else has chosen, ready to receive over
    /// `conn`. One caller at a time for a connection. Work begins where `first` says, in the send
    /// and in the receive queue; or it goes on from a state, as [`Self::save`] writes it. Process
    /// context.
    ///
    /// Errors: as for [`Self::new`]; `EBUSY` if there is one of that number, `EINVAL` if the state is
    /// none of such a queue pair.
    pub(crate) fn new_on(
        conn: &Arc<Conn>,
        init: QpInit,
        qpn: u32,
        attr: &QpAttr,
        (first, state): ((u32, u32), Option<&[u8]>),
    ) -> Result<Arc<Self>> {
        let qp = Self::build(&conn.endpoint, init)?;
        qp.qpn.store(qpn, Relaxed);
        conn.reserve_user()?;
        {
            let mut inner = qp.inner.lock();
            inner.attr = *attr;
            inner.sq.begin_at(first.0);
            if let Some(RecvQueue::Own(queue)) = &mut inner.rq {
                queue.begin_at(first.1);
            }
            match state {
                // What was done before is in the state.
                Some(_) => inner.state = attr.state,
                None => drop(qp.enter(&mut inner, QpState::ReadyToReceive, Some(conn.clone()))),
            }
        }
        let qps = &conn.endpoint.host().qps;
        qps.insert(qpn, qp.clone()).inspect_err(|_| {
            conn.detach(qpn);
        })?;
        qp.timer.attach(qp.clone());
        // Packets come as soon as the connection goes on, so they must find the queue pair.
        if let Some(state) = state {
            qp.load(conn, state).inspect_err(|_| {
                drop(qps.remove(qpn));
                qp.timer.stop();
                conn.detach(qpn);
            })?;
            conn.announce();
            qp.want_again(conn, false);
        }
        conn.run();
        Ok(qp)
    }
}

impl Conn {
    /// Asks no more for a peer that has not answered: for a connection whose only queue pair is gone.
    /// It would be taken for one of that queue pair's next life.
    pub(crate) fn end_unanswered(&self) {
        let mut inner = self.inner.lock();
        if !inner.proto.established() {
            inner.proto.close();
        }
    }
}
