// SPDX-License-Identifier: GPL-2.0

//! The connections of an endpoint: how they are found, made and taken down.

use super::{
    super::{
        conn::{
            Conn,
            ConnKey,
            Settings, //
        },
        counters::Totals,
        defaults::Defaults,
        wishes::Wishes,
    },
    Endpoint, //
};
use crate::{
    net::random_u32,
    rdma::qp::AddressVector, //
};
use kernel::{
    prelude::*,
    rbtree::RBTree,
    sync::Arc, //
};
use proto::wire;

/// Most bytes of payload of a packet.
const PAYLOAD_MTU: u16 = 4096;

/// Connections of an endpoint, by the two GIDs.
pub(super) struct Connections {
    by_key: RBTree<ConnKey, Arc<Conn>>,
    /// No connection is made any more.
    closed: bool,
    /// What connections that are gone have counted.
    retired: Totals,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self {
            by_key: RBTree::new(),
            closed: false,
            retired: Totals::default(),
        }
    }

    /// Lets no connection be made any more. Returns whether some could be made until now.
    pub(super) fn close(&mut self) -> bool {
        !core::mem::replace(&mut self.closed, true)
    }

    /// Takes a connection out of the list.
    pub(super) fn pop(&mut self) -> Option<Arc<Conn>> {
        let key = *self.by_key.cursor_front()?.current().0;
        self.by_key.remove(&key)
    }
}

impl Endpoint {
    /// Returns addresses and network interface of a way to a peer by other planes than those that
    /// have the GIDs, as a connection knows it.
    pub(in crate::datapath) fn other_way(
        &self,
        key: &ConnKey,
    ) -> Option<(wire::Gid, wire::Gid, u32)> {
        // The shared one comes first, but those of one queue pair do it as well.
        let (found, id) = self.ways.at_least(key)?;
        if (found.local, found.remote) != (key.local, key.remote) {
            return None;
        }
        self.host.conns.lookup(id)?.usable_way()
    }

    /// Returns the connection to the endpoint that `address` names, a new one if there is none,
    /// with one more user; [`Conn::detach`] takes that back. Process context.
    ///
    /// Errors: `EINVAL` without a RoCE v2 address, `ENETDOWN` when the endpoint is being shut
    /// down or has no plane, `ENOMEM`.
    ///
    /// `owner` is the queue pair that is to have it for itself, or 0; `wishes` are that one's.
    pub(in crate::datapath) fn connect(
        self: &Arc<Self>,
        address: &AddressVector,
        owner: u32,
        wishes: &Wishes,
    ) -> Result<Arc<Conn>> {
        if !address.has_grh || !address.sgid.udp_encap {
            return Err(EINVAL);
        }
        let key = ConnKey {
            local: wire::Gid(address.sgid.gid.0),
            remote: wire::Gid(address.dgid.0),
            owner,
        };
        self.obtain(key, None, wishes)
    }

    /// Returns the connection of a key, with one more user: a new one if there is none, or none with
    /// these wishes, or if it is to have the number `id`. Context and errors as for [`Self::connect`].
    pub(in crate::datapath) fn obtain(
        self: &Arc<Self>,
        key: ConnKey,
        id: Option<u32>,
        wishes: &Wishes,
    ) -> Result<Arc<Conn>> {
        let mut conns = self.conns.lock();
        if conns.closed {
            return Err(ENETDOWN);
        }
        if let Some(conn) = conns.by_key.get(&key) {
            if conn.is_open() && id.is_none() && conn.wishes().is_same(wishes) {
                conn.reserve_user()?;
                return Ok(conn.clone());
            }
        }
        let mut settings = self.settings(&key)?;
        settings.id = id.unwrap_or(settings.id);
        wishes.apply(&mut settings, self.used_planes());
        settings.wishes = *wishes;
        let conn = Conn::new(self, key, settings)?;
        let entered = conn.reserve_user().and_then(|()| {
            conns
                .by_key
                .try_create_and_insert(key, conn.clone(), GFP_KERNEL)
        });
        // Packets can find it, and its timer keeps it: it does not go by itself.
        let old = entered.inspect_err(|_| conn.shut_down())?;
        if let Some(old) = old {
            // The peer is gone; queue pairs that still refer to it are in the error state.
            let (_, old) = old.to_key_value();
            conns.retired.add(&old.totals());
            drop(conns);
            old.shut_down();
        }
        Ok(conn)
    }

    /// Returns what a new connection is made with.
    ///
    /// Errors: `ENETDOWN` if there is no plane, `ENOMEM`.
    fn settings(&self, key: &ConnKey) -> Result<Settings> {
        let planes = self.planes.describe(key.local, &[])?;
        if planes.is_empty() {
            return Err(ENETDOWN);
        }
        let Defaults { transport, law, .. } = self.defaults();
        Ok(Settings {
            // Random, so that nobody off the path can guess it; it is free with near certainty, and
            // it is noticed if it is not.
            id: random_u32().max(1),
            planes,
            transport,
            payload_mtu: PAYLOAD_MTU,
            law,
            wishes: Wishes::default(),
        })
    }

    /// Takes down a connection that nobody uses. Process context.
    pub(in crate::datapath) fn retire(&self, conn: &Arc<Conn>) {
        {
            let mut conns = self.conns.lock();
            if conn.users() != 0 {
                return;
            }
            match conns.by_key.get(conn.key()) {
                Some(c) if Arc::ptr_eq(c, conn) => drop(conns.by_key.remove(conn.key())),
                _ => return,
            }
            conns.retired.add(&conn.totals());
        }
        conn.shut_down();
    }

    /// Adds what the connections have counted.
    pub(in crate::datapath) fn totals(&self) -> Totals {
        let conns = self.conns.lock();
        let mut totals = conns.retired;
        for conn in conns.by_key.values() {
            totals.add(&conn.totals());
        }
        // CAST: there are far fewer.
        totals.connections = conns.by_key.values().count() as u64;
        totals
    }

    /// Calls `f` with each connection, their list locked. Process context.
    pub(in crate::datapath) fn for_each_conn(&self, mut f: impl FnMut(&Arc<Conn>)) {
        let conns = self.conns.lock();
        for conn in conns.by_key.values() {
            f(conn);
        }
    }
}
