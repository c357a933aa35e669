// SPDX-License-Identifier: GPL-2.0

//! Endpoints: the data path's side of an RDMA device.

mod connections;

use self::connections::Connections;
use super::{
    ah::{
        Ah,
        AhTable, //
    },
    conn::{
        ConnKey,
        Transport, //
    },
    counters::Counters,
    defaults::Defaults,
    fast::FastTable,
    host::Host,
    limits,
    mr::MrTable,
    mw::MwTable,
    plane::{
        PlaneMasks,
        Planes, //
    },
    shares::Shares,
    ud::Waiting,
};
use crate::{
    net::netdev::{
        Name,
        NetDevice, //
    },
    rdma::{
        event::QpEvents,
        gid::GidEntry,
        umem::Umem,
        work, //
    },
    sync::{
        index::Index,
        work::OwnedQueue, //
    },
};
use kernel::{
    new_mutex, new_spinlock,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLock, //
    },
};
use proto::congestion::Controller;

/// One RDMA device in one network namespace.
#[pin_data]
pub(crate) struct Endpoint {
    host: Arc<Host>,
    mrs: MrTable,
    mws: MwTable,
    fast_mrs: FastTable,
    pub(super) planes: Arc<Planes>,
    /// The address handles of processes.
    #[pin]
    pub(super) ahs: AhTable,
    /// Datagrams that wait for memory.
    pub(super) waiting: Waiting,
    pub(super) counters: Counters,
    #[pin]
    conns: Mutex<Connections>,
    /// The ids of the connections that can be found, for datagrams.
    #[pin]
    pub(super) ways: Index<ConnKey, u32>,
    #[pin]
    pub(super) defaults: SpinLock<Defaults>,
    #[pin]
    pub(super) shares: Shares,
    /// Where connections that are idle are taken down. It may be waited for with the RTNL held, so
    /// nothing here takes that, or a lock under which somebody does.
    pub(super) queue: OwnedQueue,
}

impl Endpoint {
    /// Makes an endpoint whose packets go to UDP port `port`, over `ndev` as the first plane.
    /// Process context, the RTNL is not held. Pair with [`Self::shutdown`].
    ///
    /// Errors: `ENODEV` if the network device is going away, `EADDRINUSE` if the port is taken,
    /// `ENOMEM`.
    pub(crate) fn new(
        ndev: &NetDevice,
        port: u16,
        transport: Transport,
        law: Controller,
    ) -> Result<Arc<Self>> {
        // Held for as long as it takes to open sockets there.
        let net = ndev.net().ok_or(ENODEV)?;
        let planes = Planes::new()?;
        planes.add(ndev)?;
        let host = Host::get(&net, port, &planes)?;
        Self::at(&host, &planes, transport, law).inspect_err(|_| Host::put(&host, &planes))
    }

    /// Makes an endpoint of a host that there is. Process context. Pair with [`Self::shutdown`].
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn at(
        host: &Arc<Host>,
        planes: &Arc<Planes>,
        transport: Transport,
        law: Controller,
    ) -> Result<Arc<Self>> {
        let mrs = MrTable::new()?;
        let mws = MwTable::new()?;
        let fast_mrs = FastTable::new()?;
        let counters = Counters::new()?;
        let queue = OwnedQueue::new_unbound(c"metaroce")?;
        let (own_host, own_planes) = (host.clone(), planes.clone());
        Arc::pin_init(
            pin_init!(Self {
                host: own_host,
                mrs,
                mws,
                fast_mrs,
                planes: own_planes,
                ahs <- AhTable::new(),
                waiting: Waiting::new(),
                counters,
                conns <- new_mutex!(Connections::new()),
                ways <- Index::new(),
                defaults <- new_spinlock!(Defaults::new(transport, law)),
                shares <- Shares::new(),
                queue,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns what the endpoint shares with others in its namespace.
    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Returns the memory regions.
    pub(crate) fn mrs(&self) -> &MrTable {
        &self.mrs
    }

    /// Calls `f` with the events of the queue pair of a number, if there is one. Any context.
    pub(crate) fn with_qp_events<R>(&self, qpn: u32, f: impl FnOnce(&QpEvents) -> R) -> Option<R> {
        if limits::UD_QPN_RANGE.contains(&qpn) {
            self.host.uds.with(qpn, |qp| f(&qp.events))
        } else {
            self.host.qps.with(qpn, |qp| f(&qp.events))
        }
    }

    /// Gives an address handle of a process a number. Process context.
    ///
    /// Errors: `ENOMEM`, as verbs want it, if there are as many as there may be.
    pub(crate) fn add_ah(&self, ah: Arc<Ah>) -> Result<u32> {
        self.ahs.alloc(0..limits::MAX_AH, ah).map_err(|_| ENOMEM)
    }

    /// Takes the number from an address handle; nobody uses it any more on return. Process
    /// context, may sleep.
    pub(crate) fn remove_ah(&self, number: u32) {
        drop(self.ahs.remove(number));
    }

    /// The port has a GID. Process context.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn add_gid(&self, entry: GidEntry) -> Result {
        self.planes.gids.add(entry)
    }

    /// The port has the GID of an index no more. Process context.
    pub(crate) fn remove_gid(&self, index: u16) {
        self.planes.gids.remove(index);
    }

    /// Registers memory, see [`MrTable::register`].
    pub(crate) fn reg_mr(
        &self,
        pd: u32,
        umem: Arc<Umem>,
        va: u64,
        len: u64,
        access: u32,
    ) -> Result<Arc<super::mr::Mr>> {
        self.mrs.register(pd, umem, va, len, access)
    }

    /// Changes a registration, see [`MrTable::reregister`].
    pub(crate) fn rereg_mr(
        &self,
        old: &super::mr::Mr,
        pd: u32,
        umem: Arc<Umem>,
        range: (u64, u64),
        access: u32,
    ) -> Result<Arc<super::mr::Mr>> {
        self.mrs.reregister(old, pd, umem, range, access)
    }

    /// Returns the unpinned memory of a region, and where in it the `len` bytes at `va` begin. Process
    /// context.
    ///
    /// Errors: `EINVAL` if they are not in such a region of domain `pd`, `EPERM` if they are to be
    /// written to and may not.
    pub(crate) fn memory_of(
        &self,
        pd: u32,
        key: u32,
        va: u64,
        len: u32,
        write: bool,
    ) -> Result<(Arc<Umem>, usize)> {
        let mr = self
            .mrs
            .get(pd, key, va, len.into(), 0)
            .map_err(|_| EINVAL)?;
        let (_, _, access, umem) = mr.parts();
        if !umem.is_on_demand() {
            return Err(EINVAL);
        }
        if write && access & super::mr::access::LOCAL_WRITE == 0 {
            return Err(EPERM);
        }
        let at = mr.offset_of(va, len.into()).map_err(|_| EINVAL)?;
        Ok((umem.clone(), at))
    }

    /// Ends a registration, see [`MrTable::deregister`].
    pub(crate) fn dereg_mr(&self, mr: &super::mr::Mr) -> Result {
        self.mrs.deregister(mr)
    }

    /// Returns the regions for fast registration.
    pub(crate) fn fast_mrs(&self) -> &FastTable {
        &self.fast_mrs
    }

    /// Returns the memory windows.
    pub(crate) fn mws(&self) -> &MwTable {
        &self.mws
    }

    /// Returns the inbound capacity of each plane that was set, in Mbit/s; 0 is the link's speed.
    pub(crate) fn inbound(&self) -> u32 {
        self.shares.capacity()
    }

    /// Sets the inbound capacity of each plane, in Mbit/s; 0 is the link's speed.
    pub(crate) fn set_inbound(&self, mbps: u32) {
        self.shares.set_capacity(mbps);
    }

    /// Adds a plane, which connections use from now on. Process context.
    ///
    /// Errors: `EEXIST` if the network device is a plane already, `ENOSPC` beyond
    /// [`proto::wire::MAX_PLANES`].
    pub(crate) fn add_plane(&self, ndev: &NetDevice) -> Result {
        self.planes.add(ndev)?;
        self.refresh_planes();
        Ok(())
    }

    /// Tells the connections of planes that are new, and of addresses that have changed. Process
    /// context.
    ///
    /// A connection for which there is no memory goes on with what it knows.
    pub(crate) fn refresh_planes(&self) {
        // What sets planes up and down does that first and tells the connections then, so what is
        // found here under the lock cannot undo it.
        self.for_each_conn(|conn| {
            let _ = conn.refresh_planes();
        });
    }

    /// Returns which planes there are.
    pub(crate) fn plane_masks(&self) -> PlaneMasks {
        self.planes.masks()
    }

    /// Returns the name of the network device of the plane with a number.
    pub(crate) fn plane_name(&self, id: u8) -> Option<Name> {
        self.planes.name_of(id)
    }

    /// Removes the plane of a network device. Returns how many planes are left. Process context.
    pub(crate) fn remove_plane(&self, ifindex: u32) -> usize {
        self.set_plane_up(ifindex, false);
        let left = self.planes.remove(ifindex);
        if !self.planes.groups.is_empty() {
            // This may be called with the RTNL held, which the work takes: not on a queue that
            // `shutdown`, which may be called so too, waits for.
            let _ = work::queue().enqueue(self.planes.clone());
        }
        left
    }

    /// Takes note that a plane's link went up or down. Process context.
    pub(crate) fn set_plane_up(&self, ifindex: u32, up: bool) {
        self.planes.set_up(ifindex, up);
        self.for_each_conn(|conn| conn.set_plane_up(ifindex, up));
    }

    /// Ends all connections and moves the queue pairs to the error state: the device goes away.
    /// Process context. May be called again: connections of queue pairs that were destroyed since
    /// may still be waiting for a worker, which does not on return.
    pub(crate) fn shutdown(&self) {
        if !self.conns.lock().close() {
            self.queue.flush();
            return;
        }
        self.host.qps.for_each(|_, qp| {
            if core::ptr::eq(&*qp.endpoint, self) {
                qp.end_lost(&mut qp.inner.lock());
            }
        });
        self.host.uds.for_each(|_, qp| {
            if core::ptr::eq(&*qp.endpoint, self) {
                qp.device_lost();
            }
        });
        loop {
            let conn = self.conns.lock().pop();
            match conn {
                Some(conn) => conn.shut_down(),
                None => break,
            }
        }
        self.queue.flush();
        Host::put(&self.host, &self.planes);
    }
}
