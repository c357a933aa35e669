// SPDX-License-Identifier: GPL-2.0

//! A registration: a device, and what it has been given.

use super::{
    abi::{
        Ops,
        RawConn,
        RawCq,
        RawMr,
        RawQp,
        RawRing,
        RawStats,
        Shared, //
    },
    caps::{
        Caps,
        Needs, //
    },
    counters::Count,
    front::Front,
    objects::{
        to_raw_attr,
        NicConn,
        NicCq,
        NicQp,
        Planes, //
    },
    site::Site,
};
use crate::{
    datapath::{
        cq::{
            Completion,
            Cq,
            Overrun, //
        },
        endpoint::Endpoint,
        handover::{
            Parts,
            Ring,
            TakeBack, //
        },
        mr::Mr,
        plane::PlaneInfo,
        transfer, //
    },
    net::netdev::{
        Name,
        NetDevice,
        NetDeviceRef, //
    },
    params,
    rdma::{
        self,
        qp::{
            AttrMask,
            QpAttr,
            QpState, //
        }, //
    },
    sync::{
        hrtimer::{
            self,
            Timer,
            TimerCallback, //
        },
        id_table::IdTable,
        work, //
    },
};
use kernel::{
    impl_has_work,
    new_mutex,
    new_work,
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};
use proto::{
    congestion::Controller,
    wire::Gid, //
};

/// How long a connection outlives its queue pair, in nanoseconds: as in the data path.
const LINGER_NS: u64 = crate::datapath::limits::IDLE_NS;

/// Why a change of a queue pair was not made.
pub(super) enum NotModified {
    /// The device has it no more.
    Gone,
    /// The device does not want to.
    Refused(Error),
}

/// A device that was registered.
#[repr(C)]
#[pin_data]
pub(crate) struct Nic {
    /// First, so that a pointer to it is one to the whole.
    pub(super) raw: Shared<bindings::metaroce_ofl>,
    pub(super) ops: Ops,
    caps: Caps,
    name: Name,
    /// Where the network device is, only to be compared.
    address: usize,
    /// Nothing is added any more.
    dead: Atomic<bool>,
    /// The driver has said that the device does not work.
    faulted: Atomic<bool>,
    /// The RDMA device goes away.
    leave: Atomic<bool>,
    /// Planes have changed.
    planes: Atomic<bool>,
    /// By number.
    #[pin]
    qps: IdTable<NicQp>,
    #[pin]
    inner: Mutex<Inner>,
    /// For connections that have outlived their queue pairs.
    #[pin]
    timer: Timer<Self>,
    #[pin]
    work: Work<Self>,
}

/// What the registration's mutex guards, beside the calls of the driver's operations.
struct Inner {
    /// Until it is unregistered.
    ndev: Option<NetDeviceRef>,
    /// The RDMA device that uses the device: it has one at a time.
    site: Option<Arc<Site>>,
    /// Keys of the memory regions that the device knows.
    mrs: RBTree<u32, ()>,
    cqs: KVec<Arc<NicCq>>,
    conns: KVec<Arc<NicConn>>,
    qps: KVec<Arc<NicQp>>,
}

impl_has_work! {
    impl HasWork<Self> for Nic { self.work }
}

/// A queue pair on offer.
pub(super) struct Offer<'a> {
    pub(super) front: &'a Arc<Front>,
    pub(super) site: &'a Arc<Site>,
    pub(super) qpn: u32,
    pub(super) parts: Parts,
    pub(super) cqs: [&'a Arc<Cq>; 2],
    pub(super) attr: &'a QpAttr,
    pub(super) needs: Needs,
    /// If the device goes, software may go on.
    pub(super) may_move: bool,
    /// What the device is to go on from.
    pub(super) state: Option<&'a [u8]>,
}

impl Nic {
    pub(super) fn new(
        ndev: &NetDevice,
        ops: Ops,
        caps: Caps,
        priv_: *mut c_void,
    ) -> Result<Arc<Self>> {
        let raw = bindings::metaroce_ofl {
            ndev: ndev.as_raw(),
            priv_,
        };
        let nic = Arc::pin_init(
            pin_init!(Self {
                raw: Shared::new(raw),
                ops,
                caps,
                name: ndev.name(),
                address: ndev.as_raw().addr(),
                dead: Atomic::new(false),
                faulted: Atomic::new(false),
                leave: Atomic::new(false),
                planes: Atomic::new(false),
                qps <- IdTable::new(),
                inner <- new_mutex!(Inner {
                    ndev: Some(ndev.into()),
                    site: None,
                    mrs: RBTree::new(),
                    cqs: KVec::new(),
                    conns: KVec::new(),
                    qps: KVec::new(),
                }),
                timer <- Timer::new(),
                work <- new_work!("Nic::work"),
            }),
            GFP_KERNEL,
        )?;
        nic.timer.attach(nic.clone());
        Ok(nic)
    }

    /// The name that the network device had.
    pub(super) fn name(&self) -> Name {
        self.name
    }

    /// Whether it is that of a network device, and works.
    pub(super) fn is_of(&self, ndev: &NetDevice) -> bool {
        // It has a reference until it is dead, so the address is that of no other device.
        self.address == ndev.as_raw().addr() && !self.is_dead()
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    /// Offers a queue pair to the device. Process context.
    ///
    /// Errors: what the device says, `ENODEV` if it is dead, `ENOSPC` beyond its limits,
    /// `EOPNOTSUPP` beyond its capabilities.
    pub(super) fn add(self: &Arc<Self>, offer: Offer<'_>) -> Result {
        let mut inner = self.inner.lock();
        if self.is_dead() {
            return Err(ENODEV);
        }
        offer.needs.check(&self.caps)?;
        let import = bindings::metaroce_ofl_flags_METAROCE_OFL_CAP_IMPORT;
        if offer.state.is_some() && self.caps.flags & import == 0 {
            return Err(EOPNOTSUPP);
        }
        if inner.qps.len() >= self.caps.max_qp as usize {
            return Err(ENOSPC);
        }
        self.attach(&mut inner, offer.site)?;
        let [send, recv] = offer.cqs;
        let send = self.use_cq(&mut inner, send)?;
        let recv = self
            .use_cq(&mut inner, recv)
            .inspect_err(|_| self.release_cq(&mut inner, &send))?;
        let cqs = [send, recv];
        let release = |inner: &mut Inner| cqs.iter().for_each(|cq| self.release_cq(inner, cq));
        let conn = self
            .connect(&mut inner, &offer)
            .inspect_err(|_| release(&mut inner))?;
        let added = self.add_on(&mut inner, offer, &conn, cqs.clone());
        added.inspect_err(|_| {
            self.disconnect(&mut inner, &conn);
            release(&mut inner);
        })
    }

    /// Adds a queue pair whose connection and queues are there.
    fn add_on(
        self: &Arc<Self>,
        inner: &mut Inner,
        offer: Offer<'_>,
        conn: &Arc<NicConn>,
        cqs: [Arc<NicCq>; 2],
    ) -> Result {
        inner.qps.reserve(1, GFP_KERNEL)?;
        let foreign = NicConn::entry(conn)?;
        offer.site.endpoint.claim(conn.id, foreign.clone())?;
        let [send, recv] = &cqs;
        let raw = RawQp {
            drv: core::ptr::null_mut(),
            qpn: offer.qpn,
            pd: offer.parts.pd,
            signal_all: offer.parts.signal_all,
            conn: conn.raw.get(),
            send_cq: send.raw.get(),
            recv_cq: recv.raw.get(),
            sq: to_raw_ring(&offer.parts.sq),
            rq: offer
                .parts
                .rq
                .as_ref()
                .map_or_else(RawRing::default, to_raw_ring),
            attr: to_raw_attr(offer.attr),
            state: offer.state.map_or(core::ptr::null(), |s| s.as_ptr().cast()),
            state_len: offer.state.map_or(0, <[u8]>::len),
        };
        let parts = (offer.parts, offer.may_move);
        let qp = NicQp::new(raw, offer.front, (self, conn), cqs, parts)?;
        self.qps.insert(offer.qpn, qp.clone())?;
        self.op_qp_add(&qp).inspect_err(|_| {
            drop(self.qps.remove(offer.qpn));
        })?;
        inner
            .qps
            .push_within_capacity(qp.clone())
            .map_err(|_| ENOMEM)?;
        qp.forget_state();
        offer.front.give(offer.attr, qp, foreign);
        offer.site.counts.inc(Count::Add);
        offer.site.counts.inc(Count::Active);
        Ok(())
    }

    /// Makes the regions of an RDMA device known, unless they are.
    ///
    /// Errors: `EOPNOTSUPP` while another one has the device.
    fn attach(self: &Arc<Self>, inner: &mut Inner, site: &Arc<Site>) -> Result {
        match &inner.site {
            Some(other) if !Arc::ptr_eq(other, site) => return Err(EOPNOTSUPP),
            Some(_) => {}
            None => {
                site.set_nic(Some(self.clone()));
                inner.site = Some(site.clone());
            }
        }
        // Those that it has not got so far come, too.
        site.endpoint
            .mrs()
            .try_for_each(|mr| self.add_mr(inner, mr))
    }

    /// Makes a region known, unless it is.
    fn add_mr(&self, inner: &mut Inner, mr: &Mr) -> Result {
        let key = mr.key();
        if inner.mrs.get(&key).is_some() {
            return Ok(());
        }
        let (va, length, access, umem) = mr.parts();
        if umem.is_on_demand() {
            // No device can be told when its pages go.
            return Err(EOPNOTSUPP);
        }
        let Some((pages, offset)) = umem.raw_pages()? else {
            // The kernel's memory: no queue pair of a process can name it.
            return Ok(());
        };
        if inner.mrs.values().count() >= self.caps.max_mr as usize {
            return Err(ENOSPC);
        }
        inner.mrs.try_create_and_insert(key, (), GFP_KERNEL)?;
        let raw = RawMr {
            key,
            pd: mr.pd(),
            va,
            length,
            access,
            // CAST: Less than the size of a page.
            offset: offset as u32,
            n_pages: pages.len(),
            pages: pages.as_ptr(),
        };
        self.op_mr_add(&raw).inspect_err(|_| {
            inner.mrs.remove(&key);
        })
    }

    fn use_cq(&self, inner: &mut Inner, cq: &Arc<Cq>) -> Result<Arc<NicCq>> {
        if let Some(known) = inner.cqs.iter().find(|known| Arc::ptr_eq(&known.cq, cq)) {
            known.users.fetch_add(1, Relaxed);
            return Ok(known.clone());
        }
        if inner.cqs.len() >= self.caps.max_cq as usize {
            return Err(ENOSPC);
        }
        inner.cqs.reserve(1, GFP_KERNEL)?;
        let raw = RawCq {
            drv: core::ptr::null_mut(),
            entries: cq.entries(),
        };
        let cq = NicCq {
            raw: Shared::new(raw),
            cq: cq.clone(),
            users: Atomic::new(1),
        };
        let cq = Arc::new(cq, GFP_KERNEL)?;
        self.op_cq_add(&cq)?;
        inner
            .cqs
            .push_within_capacity(cq.clone())
            .map_err(|_| ENOMEM)?;
        Ok(cq)
    }

    fn release_cq(&self, inner: &mut Inner, cq: &Arc<NicCq>) {
        if cq.users.fetch_sub(1, Relaxed) == 1 {
            self.op_cq_del(cq);
            inner.cqs.retain(|other| !Arc::ptr_eq(other, cq));
        }
    }

    /// Makes a connection for a queue pair.
    fn connect(self: &Arc<Self>, inner: &mut Inner, offer: &Offer<'_>) -> Result<Arc<NicConn>> {
        if inner.conns.len() >= self.caps.max_conn as usize {
            // Those that only wait for their end make room.
            self.reap(inner, u64::MAX - 1);
            if inner.conns.len() >= self.caps.max_conn as usize {
                return Err(ENOSPC);
            }
        }
        inner.conns.reserve(1, GFP_KERNEL)?;
        let endpoint = &offer.site.endpoint;
        let local = Gid(offer.attr.address.sgid.gid.0);
        let planes = describe(endpoint, local, &[])?;
        let settings = params::transport();
        let law = endpoint.law();
        let raw = RawConn {
            id: match offer.state {
                Some(state) => transfer::number(state)?,
                None => endpoint.conn_number(),
            },
            local_gid: local.0,
            remote_gid: offer.attr.address.dgid.0,
            port: endpoint.port(),
            paths_per_plane: settings.paths_per_plane,
            crc: settings.crc,
            payload_mtu: PAYLOAD_MTU,
            cc: cc_bit(&law),
            window: match law {
                Controller::Fixed(_) => params::window(),
                _ => 0,
            },
            ..RawConn::default()
        };
        let conn = NicConn::new(self, raw, local, planes)?;
        self.op_conn_add(&conn)?;
        inner
            .conns
            .push_within_capacity(conn.clone())
            .map_err(|_| ENOMEM)?;
        Ok(conn)
    }

    /// Ends a connection.
    fn disconnect(&self, inner: &mut Inner, conn: &Arc<NicConn>) {
        if let Some(site) = &inner.site {
            site.endpoint.disclaim(conn.id);
        }
        self.op_conn_del(conn);
        inner.conns.retain(|other| !Arc::ptr_eq(other, conn));
    }

    /// Ends the connections whose time has come.
    fn reap(&self, inner: &mut Inner, now: u64) {
        while let Some(conn) = inner.conns.iter().find(|c| c.ends.load(Relaxed) <= now) {
            let conn = conn.clone();
            self.disconnect(inner, &conn);
        }
        if let Some(next) = inner.conns.iter().map(|c| c.ends.load(Relaxed)).min() {
            if next != u64::MAX {
                self.timer.arm_by(next);
            }
        }
    }

    /// Takes a queue pair from the device; `moved`: software has gone on with it.
    fn release(&self, inner: &mut Inner, qp: &Arc<NicQp>, how: TakeBack, moved: bool) {
        qp.close();
        // Waits for those who are ringing.
        drop(self.qps.remove(qp.front.qpn()));
        self.op_qp_del(qp);
        inner.qps.retain(|other| !Arc::ptr_eq(other, qp));
        for cq in &qp.cqs {
            self.release_cq(inner, cq);
        }
        if moved {
            // Its number is another one's now.
            self.disconnect(inner, &qp.conn);
        } else {
            let ends = hrtimer::now().saturating_add(LINGER_NS);
            qp.conn.ends.store(ends, Relaxed);
            self.timer.arm_by(ends);
        }
        let lost = how == TakeBack::Lost && !qp.has_failed() && !moved;
        if !moved {
            qp.front.take_back(match how {
                TakeBack::Lost if !lost => TakeBack::Failed,
                how => how,
            });
        }
        if let Some(site) = &inner.site {
            site.counts.inc(Count::Del);
            site.counts.dec(Count::Active);
            if lost {
                site.counts.inc(Count::Lost);
            }
        }
    }

    /// Has software go on with a queue pair. Returns whether it does.
    fn export(&self, inner: &Inner, qp: &Arc<NicQp>) -> bool {
        let Some(site) = &inner.site else {
            return false;
        };
        // What has failed answers nothing.
        if !qp.may_move || qp.has_failed() || self.faulted.load(Relaxed) {
            return false;
        }
        let go_on = || {
            // CAST: A small constant.
            let size = bindings::METAROCE_OFL_STATE_MAX as usize;
            let mut buf = KVVec::from_elem(0u8, size, GFP_KERNEL)?;
            let len = self.op_qp_export(qp, &mut buf)?;
            // Until the device has let go of the connection, packets for it are dropped.
            qp.front.resume(buf.get(..len).ok_or(EINVAL)?)
        };
        let went_on: Result = go_on();
        site.counts.inc(match went_on {
            Ok(()) => Count::Exported,
            Err(_) => Count::NotExported,
        });
        went_on.is_ok()
    }

    /// Takes a queue pair from the device, for its user resets or destroys it. Process context.
    pub(super) fn remove(&self, qp: &Arc<NicQp>) {
        let mut inner = self.inner.lock();
        if qp.open.load(Relaxed) {
            self.release(&mut inner, qp, TakeBack::Discard, false);
        }
    }

    /// Has software go on with a queue pair, if that can be; else the device does. Process context.
    pub(super) fn hand_back(&self, qp: &Arc<NicQp>) {
        let mut inner = self.inner.lock();
        if qp.open.load(Relaxed) && self.export(&inner, qp) {
            self.release(&mut inner, qp, TakeBack::Discard, true);
        }
    }

    /// Changes a queue pair. Process context.
    pub(super) fn modify(
        &self,
        qp: &NicQp,
        attr: &QpAttr,
        mask: AttrMask,
    ) -> Result<(), NotModified> {
        // What is called below excludes that the queue pair goes.
        let _inner = self.inner.lock();
        if !qp.open.load(Relaxed) {
            return Err(NotModified::Gone);
        }
        if attr.state == QpState::SendQueueDrain && attr.current_state != attr.state {
            qp.drained.store(false, Relaxed);
        }
        qp.notify.store(attr.sqd_async_notify, Relaxed);
        let raw = to_raw_attr(attr);
        self.op_qp_modify(qp, &raw, mask.bits())
            .map_err(NotModified::Refused)?;
        qp.keep_attr(&raw);
        qp.front.follow(attr);
        Ok(())
    }

    /// A region was registered. Process context.
    ///
    /// Errors: what the device says.
    pub(super) fn mr_added(&self, site: &Arc<Site>, mr: &Mr) -> Result {
        let mut inner = self.inner.lock();
        match &inner.site {
            Some(own) if Arc::ptr_eq(own, site) && !self.is_dead() => {}
            _ => return Ok(()),
        }
        match self.add_mr(&mut inner, mr) {
            // Nobody needs it there; a queue pair that comes brings all regions.
            Err(_) if inner.qps.is_empty() => Ok(()),
            added => added,
        }
    }

    /// A region was deregistered. Process context.
    pub(super) fn mr_removed(&self, key: u32) {
        let mut inner = self.inner.lock();
        if inner.mrs.remove(&key).is_some() {
            self.op_mr_del(key);
        }
    }

    /// Whether the device has queue pairs of a protection domain. Process context.
    pub(super) fn has_qps_of(&self, pd: u32) -> bool {
        let inner = self.inner.lock();
        inner.qps.iter().any(|qp| qp.front.pd() == pd)
    }

    /// Returns what the device has counted. Process context.
    pub(super) fn stats(&self) -> RawStats {
        let _inner = self.inner.lock();
        if self.is_dead() {
            return RawStats::default();
        }
        self.op_get_stats()
    }

    /// A work request has completed. Any context but NMI.
    pub(super) fn complete(
        &self,
        cq: &NicCq,
        completion: &Completion,
        solicited: bool,
    ) -> Result<(), Overrun> {
        if completion.status != 0 {
            self.qps.with(completion.qp_num, |qp| qp.set_failed());
        }
        cq.cq.push(completion, solicited)
    }

    /// Takes everything from the device.
    fn drain(&self, inner: &mut Inner) {
        if let (Some(site), false) = (&inner.site, inner.qps.is_empty()) {
            site.counts.inc(Count::Fault);
        }
        while let Some(qp) = inner.qps.first().cloned() {
            let moved = self.export(inner, &qp);
            self.release(inner, &qp, TakeBack::Lost, moved);
        }
        while let Some(conn) = inner.conns.first().cloned() {
            self.disconnect(inner, &conn);
        }
        for key in core::mem::take(&mut inner.mrs).keys() {
            self.op_mr_del(*key);
        }
        if let Some(site) = inner.site.take() {
            site.set_nic(None);
        }
    }

    /// Nothing more is added; what there is goes soon. Any context but NMI.
    pub(super) fn kill(self: &Arc<Self>) {
        self.dead.store(true, Relaxed);
        self.wake();
    }

    /// As above, and nothing is to be expected of the device. Any context but NMI.
    pub(super) fn fault(self: &Arc<Self>) {
        self.faulted.store(true, Relaxed);
        self.kill();
    }

    /// The RDMA device goes away: it is left soon. Any context but NMI.
    pub(super) fn leave_soon(self: &Arc<Self>) {
        self.leave.store(true, Relaxed);
        self.wake();
    }

    /// The planes have changed. Any context but NMI.
    pub(super) fn planes_changed(self: &Arc<Self>) {
        self.planes.store(true, Relaxed);
        self.wake();
    }

    fn wake(self: &Arc<Self>) {
        // If it is queued already, then it has yet to run.
        let _ = rdma::work::queue().enqueue(self.clone());
    }

    /// Takes everything of an RDMA device from the device. Process context, the RTNL is not held.
    pub(super) fn leave(&self, site: &Arc<Site>) {
        let mut inner = self.inner.lock();
        if inner
            .site
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, site))
        {
            self.drain(&mut inner);
        }
    }

    /// Takes everything from the device for good; the driver is called no more on return. Process
    /// context, the RTNL is not held.
    pub(super) fn end(self: &Arc<Self>) {
        self.dead.store(true, Relaxed);
        {
            let mut inner = self.inner.lock();
            self.drain(&mut inner);
            inner.ndev = None;
        }
        self.timer.stop();
        work::cancel_sync(self);
    }

    /// Tells the device of planes that have changed.
    fn refresh_planes(&self, inner: &mut Inner) {
        let Some(site) = &inner.site else {
            return;
        };
        for conn in &inner.conns {
            // Without memory, it learns it with the next change.
            let _ = self.refresh_conn(&site.endpoint, conn);
        }
    }

    fn refresh_conn(&self, endpoint: &Endpoint, conn: &NicConn) -> Result {
        let mut known = conn.planes.lock();
        let new = describe(endpoint, conn.local, &known.infos)?;
        let list = new.to_raw()?;
        if *new.infos == *known.infos {
            return Ok(());
        }
        self.op_conn_set_planes(conn, &list);
        conn.keep_planes(&list);
        // The old references go now that the driver has the new ones.
        *known = new;
        Ok(())
    }
}

/// Most bytes of payload of a packet, as in the data path.
const PAYLOAD_MTU: u16 = 4096;

/// Describes the planes of an endpoint, with the network devices.
fn describe(endpoint: &Endpoint, local: Gid, known: &[PlaneInfo]) -> Result<Planes> {
    let infos = endpoint.describe_planes(local, known)?;
    let mut devices = KVec::with_capacity(infos.len(), GFP_KERNEL)?;
    for info in &infos {
        devices.push(endpoint.plane_device(info.ifindex), GFP_KERNEL)?;
    }
    Ok(Planes { infos, devices })
}

fn cc_bit(law: &Controller) -> u32 {
    match law {
        Controller::Ecn(_) => bindings::metaroce_ofl_cc_METAROCE_OFL_CC_ECN,
        Controller::Delay(_) => bindings::metaroce_ofl_cc_METAROCE_OFL_CC_DELAY,
        Controller::Fixed(_) => bindings::metaroce_ofl_cc_METAROCE_OFL_CC_FIXED,
        // No device can do what the interface does not name.
        _ => 0,
    }
}

/// Returns the bit of a law of congestion control in `struct metaroce_ofl_caps`.
pub(super) fn needs_cc(endpoint: &Endpoint) -> u32 {
    cc_bit(&endpoint.law())
}

fn to_raw_ring(ring: &Ring) -> RawRing {
    RawRing {
        va: ring.mem.base().as_ptr().cast(),
        size: ring::Shared::len(&ring.mem),
        entries: ring.geometry.entries(),
        stride: ring.geometry.stride(),
        first: ring.first,
    }
}

impl WorkItem for Nic {
    type Pointer = Arc<Self>;

    /// Does what has come due.
    fn run(this: Arc<Self>) {
        let mut inner = this.inner.lock();
        let leave = this.leave.xchg(false, Full);
        if this.is_dead() || leave {
            this.drain(&mut inner);
        }
        if this.is_dead() {
            // Its unregistration waits for the reference.
            this.forget_netdev();
            inner.ndev = None;
        }
        if this.planes.xchg(false, Full) {
            this.refresh_planes(&mut inner);
        }
        this.reap(&mut inner, hrtimer::now());
    }
}

impl TimerCallback for Nic {
    /// Runs in softirq context.
    fn expired(this: ArcBorrow<'_, Self>) {
        let nic: Arc<Self> = this.into();
        nic.wake();
    }
}
