// SPDX-License-Identifier: GPL-2.0

//! Connections: the transport's connection with its lock, its timer and the queue pairs that wait
//! to send on it.

use super::{
    counters::Totals,
    endpoint::Endpoint,
    limits::{
        IDLE_NS,
        NAKS, //
    },
    now,
    plane::{
        self,
        PlaneInfo, //
    },
    wishes::{
        ConnFacts,
        Wishes, //
    }, //
};
use crate::{
    net::{
        random_u32,
        route::{
            Flow,
            Route, //
        },
    },
    sync::{
        hrtimer::{
            Timer,
            TimerCallback, //
        },
        index::Place,
        lock_bh::{
            new_spinlock_bh,
            BhDisabled,
            SpinLockBh,
            SpinLockBhBackend, //
        },
    },
};
use core::cmp::Ordering;
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        lock::Guard,
        Arc,
        ArcBorrow, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};
use proto::{
    congestion::Controller,
    connection::{
        Config,
        Connection,
        Event,
        Intro,
        NakRecord,
        State, //
    },
    fairshare::Meter,
    packet::{
        PathId,
        Qpn, //
    },
    path::{
        Path,
        TxSlot,
        SPAN, //
    },
    time::{
        Duration,
        Instant, //
    },
    wire::{
        AckBlock,
        Gid,
        Token,
        MAX_ACK_BLOCKS,
        MAX_PLANES, //
    },
};

/// The work items of a connection.
const RETIRE: u64 = 0;
const RESUME: u64 = 1;

/// Rounds of sending that one caller makes.
const ROUNDS: usize = 8;

/// The transport's connection on kernel memory.
pub(super) type Proto = Connection<KVVec<TxSlot>, KVVec<Path<KVVec<TxSlot>>>, KVVec<NakRecord>>;

/// What tells connections of an endpoint apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnKey {
    pub(crate) local: Gid,
    pub(crate) remote: Gid,
    /// The queue pair that has the connection for itself, 0 if it is shared.
    pub(crate) owner: u32,
}

impl Ord for ConnKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |k: &Self| (k.remote.0, k.local.0, k.owner);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ConnKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Settings that are the same for all connections of an endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Transport {
    /// Paths per plane.
    pub(crate) paths_per_plane: u8,
    /// Whether to ask peers for the CRC.
    pub(crate) crc: bool,
}

/// What a connection is made with.
pub(crate) struct Settings {
    /// The number by which peers name it.
    pub(crate) id: u32,
    pub(crate) planes: KVec<PlaneInfo>,
    pub(crate) transport: Transport,
    /// Most bytes of payload of a packet that this side takes.
    pub(crate) payload_mtu: u16,
    pub(crate) law: Controller,
    /// What of it is as its queue pair wants it.
    pub(crate) wishes: Wishes,
}

/// A route of the transport, and what the kernel makes of it.
struct Resolved {
    of: proto::path::Route,
    route: Route,
}

/// What the connection's lock guards.
pub(super) struct ConnInner {
    pub(super) proto: Proto,
    pub(super) planes: KVec<PlaneInfo>,
    /// What comes in over each of them.
    pub(super) meters: [Meter; MAX_PLANES],
    /// Routes in use: at most one for each path.
    routes: KVec<Resolved>,
    /// For building ACKs.
    pub(super) blocks: KVec<AckBlock>,
    /// Queue pairs that belong to the connection.
    users: usize,
    /// When to give up waiting for another one, after the last has left.
    idle_until: Option<Instant>,
    /// Nothing that comes is taken: the state is going to be saved.
    pub(super) paused: bool,
}

/// The connection's lock, held.
pub(super) type Locked<'a> = Guard<'a, ConnInner, SpinLockBhBackend>;

/// Queue pairs that want to send, in turn. Each is in it at most once.
struct Ready {
    /// A ring; its length bounds the number of users.
    ring: KVec<u32>,
    head: usize,
    len: usize,
}

impl Ready {
    fn place(&self, i: usize) -> usize {
        // The ring is not empty when this is called.
        (self.head + i) % self.ring.len().max(1)
    }

    fn push_back(&mut self, qpn: u32) {
        let at = self.place(self.len);
        if self.len < self.ring.len() {
            if let Some(slot) = self.ring.get_mut(at) {
                *slot = qpn;
                self.len += 1;
            }
        }
    }

    fn push_front(&mut self, qpn: u32) {
        if self.len < self.ring.len() {
            self.head = self.place(self.ring.len() - 1);
            if let Some(slot) = self.ring.get_mut(self.head) {
                *slot = qpn;
                self.len += 1;
            }
        }
    }

    fn pop_front(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let qpn = self.ring.get(self.head).copied();
        self.head = self.place(1);
        self.len -= 1;
        qpn
    }

    fn remove(&mut self, qpn: u32) {
        for _ in 0..self.len {
            match self.pop_front() {
                Some(q) if q != qpn => self.push_back(q),
                _ => {}
            }
        }
    }
}

/// A connection between two endpoints, shared by all their queue pairs but those that have their
/// own.
#[pin_data]
pub(crate) struct Conn {
    id: u32,
    key: ConnKey,
    wishes: Wishes,
    pub(super) endpoint: Arc<Endpoint>,
    #[pin]
    pub(super) inner: SpinLockBh<ConnInner>,
    #[pin]
    ready: SpinLockBh<Ready>,
    /// Path timers, the handshake and idleness.
    #[pin]
    timer: Timer<Self>,
    /// Somebody is in [`Self::run`]; who else comes asks for another round and leaves.
    running: Atomic<bool>,
    again: Atomic<bool>,
    #[pin]
    retire: Work<Self, RETIRE>,
    #[pin]
    resume: Work<Self, RESUME>,
}

impl_has_work! {
    impl HasWork<Self, RETIRE> for Conn { self.retire }
    impl HasWork<Self, RESUME> for Conn { self.resume }
}

impl WorkItem<RETIRE> for Conn {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.endpoint.retire(&this);
    }
}

impl WorkItem<RESUME> for Conn {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        Conn::run(&this);
    }
}

impl Conn {
    /// Makes a connection that has not yet heard of its peer. Process context.
    ///
    /// Errors: `EINVAL` if the settings make no connection, `EBUSY` if there is one of that number,
    /// `ENOMEM`.
    pub(crate) fn new(
        endpoint: &Arc<Endpoint>,
        key: ConnKey,
        settings: Settings,
    ) -> Result<Arc<Self>> {
        let Settings {
            id,
            planes,
            transport,
            payload_mtu,
            law,
            wishes,
        } = settings;
        let mut cfg = Config::new(id, random_u32(), plane::to_wire(&planes));
        cfg.paths_per_plane = transport.paths_per_plane;
        cfg.payload_mtu = payload_mtu;
        cfg.crc = transport.crc;
        cfg.own = key.owner != 0;
        cfg.controller = law;

        let n = usize::from(cfg.paths());
        let mut paths = KVVec::with_capacity(n, GFP_KERNEL)?;
        for _ in 0..n {
            // CAST: a small constant.
            let slots = KVVec::from_elem(TxSlot::default(), SPAN as usize, GFP_KERNEL_ACCOUNT)?;
            paths.push(Path::new(slots).ok_or(EINVAL)?, GFP_KERNEL)?;
        }
        let naks = KVVec::from_elem(NakRecord::default(), NAKS, GFP_KERNEL_ACCOUNT)?;
        let proto = Connection::new(cfg, paths, naks).map_err(|_| EINVAL)?;
        let routes = KVec::with_capacity(n.max(1), GFP_KERNEL)?;
        let blocks = KVec::from_elem(AckBlock::default(), MAX_ACK_BLOCKS, GFP_KERNEL)?;
        let conn = Arc::pin_init(
            pin_init!(Self {
                id,
                key,
                wishes,
                endpoint: endpoint.clone(),
                inner <- new_spinlock_bh!(ConnInner {
                    proto,
                    planes,
                    meters: [Meter::default(); MAX_PLANES],
                    routes,
                    blocks,
                    users: 0,
                    idle_until: None,
                    paused: false,
                }),
                ready <- new_spinlock_bh!(Ready {
                    ring: KVec::new(),
                    head: 0,
                    len: 0,
                }),
                timer <- Timer::new(),
                running: Atomic::new(false),
                again: Atomic::new(false),
                retire <- new_work!("Conn::retire"),
                resume <- new_work!("Conn::resume"),
            }),
            GFP_KERNEL,
        )?;
        let place = Place::new()?;
        endpoint.host().conns.insert(id, conn.clone())?;
        endpoint.ways.insert(place, key, id);
        conn.timer.attach(conn.clone());
        Ok(conn)
    }

    /// Returns its id, by which the peer names it.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Returns what tells it from the endpoint's other connections.
    pub(super) fn key(&self) -> &ConnKey {
        &self.key
    }

    /// Returns what of it is as its queue pair wanted it when it was made.
    pub(super) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Returns what there is to know about it.
    pub(super) fn facts(&self) -> ConnFacts {
        let inner = self.inner.lock();
        let mask = |has: fn(&PlaneInfo) -> bool| {
            let planes = inner.planes.iter().enumerate();
            planes
                .filter(|(_, plane)| has(plane))
                .fold(0, |mask, (i, _)| mask | 1 << i)
        };
        ConnFacts {
            id: self.id,
            is_own: self.key.owner != 0,
            is_established: inner.proto.established(),
            planes: mask(|plane| plane.gid != Gid::default()),
            planes_up: mask(|plane| plane.up),
            paths: inner.proto.n_paths(),
            law: Some(inner.proto.controller().name()),
        }
    }

    /// Whether the peer is, or may still be, there.
    pub(super) fn is_open(&self) -> bool {
        self.inner.lock().proto.state() != State::Closed
    }

    /// Returns how many queue pairs belong to it.
    pub(super) fn users(&self) -> usize {
        self.inner.lock().users
    }

    /// Adds a queue pair. Process context; the caller holds the endpoint's list of connections,
    /// so that there is no other who does this.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn reserve_user(&self) -> Result {
        let users = self.users() + 1;
        let room = self.ready.lock().ring.len();
        if users > room {
            let mut ring = KVec::from_elem(0u32, users.next_power_of_two(), GFP_KERNEL)?;
            let mut ready = self.ready.lock();
            let mut n = 0;
            while let (Some(qpn), Some(slot)) = (ready.pop_front(), ring.get_mut(n)) {
                *slot = qpn;
                n += 1;
            }
            core::mem::swap(&mut ready.ring, &mut ring);
            ready.head = 0;
            ready.len = n;
            drop(ready);
            // The old ring is freed here, outside of the lock.
        }
        let mut inner = self.inner.lock();
        inner.users += 1;
        inner.idle_until = None;
        Ok(())
    }

    /// Introduces the connection to the peer by a pair of queue pairs, unless the peer is known.
    ///
    /// The latest introduction counts, as the peer may not have the pair of an earlier one ready.
    pub(super) fn introduce(&self, local: Qpn, peer: Qpn, token: Token) {
        self.inner.lock().proto.start(
            now(),
            Intro {
                local_qpn: local,
                peer_qpn: peer,
                token,
                local_gid: self.key.local,
                peer_gid: self.key.remote,
            },
        );
    }

    /// Removes a queue pair.
    pub(super) fn detach(&self, qpn: u32) {
        self.ready.lock().remove(qpn);
        let mut inner = self.inner.lock();
        inner.users = inner.users.saturating_sub(1);
        if inner.users == 0 {
            // A peer that has never answered sends nothing again.
            let wait = match inner.proto.peer_id() {
                0 => 0,
                _ => IDLE_NS,
            };
            let end = now().after(Duration(wait));
            inner.idle_until = Some(end);
            self.timer.arm_by(end.0);
        }
    }

    /// Returns the addresses of a path that is usable, ours and the peer's, and the network
    /// interface of ours.
    pub(super) fn usable_way(&self) -> Option<(Gid, Gid, u32)> {
        let inner = self.inner.lock();
        let mut paths = (0..inner.proto.n_paths()).map(PathId);
        let path = paths.find(|path| inner.proto.is_usable(*path))?;
        let route = inner.proto.route(path)?;
        let plane = inner.planes.get(usize::from(route.local_plane))?;
        let remote = inner.proto.peer_planes().get(route.remote_plane)?;
        Some((plane.gid, remote.gid, plane.ifindex))
    }

    /// When the peer last made progress; now if it does not owe any.
    pub(super) fn progress(&self) -> Instant {
        self.inner.lock().proto.stalled_since().unwrap_or_else(now)
    }

    /// Enters a queue pair at the end of the queue.
    pub(super) fn enqueue(&self, qpn: u32) {
        self.ready.lock().push_back(qpn);
    }

    /// Enters a queue pair at the front of the queue.
    pub(super) fn enqueue_first(&self, qpn: u32) {
        self.ready.lock().push_front(qpn);
    }

    /// Takes the first queue pair off the queue.
    pub(super) fn dequeue(&self) -> Option<u32> {
        self.ready.lock().pop_front()
    }

    /// Sends all that is due and may be sent. Any context; no lock held.
    ///
    /// Only one caller does the work at a time, which keeps the order of packets on a path without
    /// anybody waiting; the others make it go round once more. After some rounds a worker goes on,
    /// so that nobody is kept in softirq context for as long as others have work.
    pub(super) fn run(self: &Arc<Self>) {
        let _bh = BhDisabled::new();
        self.again.store(true, Relaxed);
        let mut rounds = 0;
        loop {
            if self.running.xchg(true, Full) {
                return;
            }
            while rounds < ROUNDS && self.again.xchg(false, Full) {
                self.pass();
                rounds += 1;
            }
            self.running.xchg(false, Full);
            // Who came after the last look and before the line above has left already.
            if !self.again.load(Relaxed) {
                return;
            }
            if rounds >= ROUNDS {
                // If it is queued already, then it has yet to run.
                let _ = self.endpoint.queue.enqueue::<_, RESUME>(self.clone());
                return;
            }
        }
    }

    /// Makes the one who is in [`Self::run`] go round once more.
    pub(super) fn ask_again(&self) {
        self.again.store(true, Relaxed);
    }

    /// Acts on what the transport has found out, and sets the timer.
    pub(super) fn conclude(&self) {
        let mut lost = false;
        let timeout = {
            let mut inner = self.inner.lock();
            while let Some(event) = inner.proto.poll_event() {
                lost |= matches!(event, Event::PeerRestarted | Event::PeerClosed);
                if event == Event::PathsChanged {
                    // The peer's planes may have other addresses now.
                    inner.routes.clear();
                }
            }
            let idle = inner.idle_until.map(|t| t.0);
            let timeout = inner.proto.poll_timeout().map(|t| t.0);
            [timeout, idle].into_iter().flatten().min()
        };
        if lost {
            self.for_each_qp(|qp| {
                let mut qp_inner = qp.inner.lock();
                if qp_inner
                    .conn
                    .as_deref()
                    .is_some_and(|c| core::ptr::eq(c, self))
                {
                    qp.peer_lost(&mut qp_inner);
                }
            });
        }
        if let Some(at) = timeout {
            self.timer.arm_by(at);
        }
    }

    fn for_each_qp(&self, f: impl Fn(&super::qp::Qp)) {
        self.endpoint.host().qps.for_each(|_, qp| f(&qp));
    }

    /// Changes the law of congestion control. Process context.
    pub(super) fn set_law(self: &Arc<Self>, law: Controller) {
        self.inner.lock().proto.set_controller(law);
        // The new window may be wider.
        self.run();
    }

    /// A local plane went up or down. Process context.
    pub(super) fn set_plane_up(self: &Arc<Self>, ifindex: u32, up: bool) {
        {
            let mut inner = self.inner.lock();
            let at = inner.planes.iter().position(|p| p.ifindex == ifindex);
            let Some(i) = at.and_then(|i| u8::try_from(i).ok()) else {
                return;
            };
            // Whatever was resolved over that device is void.
            inner.routes.retain(|r| r.of.local_plane != i);
            if let Some(plane) = inner.planes.get_mut(usize::from(i)) {
                // One without an address does not come up.
                plane.up = up && plane.gid != Gid::default();
                let up = plane.up;
                inner.proto.set_local_plane(now(), i, up);
            }
        }
        self.run();
    }

    /// Looks at the endpoint's planes and their addresses anew. Process context; the caller holds
    /// the endpoint's list of connections.
    ///
    /// Errors: `ENOMEM`.
    pub(super) fn refresh_planes(self: &Arc<Self>) -> Result {
        let mut known = KVec::with_capacity(MAX_PLANES, GFP_KERNEL)?;
        for plane in self.inner.lock().planes.iter() {
            known.push_within_capacity(*plane).map_err(|_| ENOSPC)?;
        }
        let mut planes = self.endpoint.planes.describe(self.key.local, &known)?;
        self.wishes.restrict(&mut planes);
        if *planes != *known {
            self.set_planes(planes);
        }
        Ok(())
    }

    /// Tells the peer of the planes, which may have changed since it was last told.
    pub(super) fn announce(&self) {
        self.inner.lock().proto.announce(now());
    }

    /// Goes on with other planes, or other addresses of theirs. Process context.
    pub(crate) fn set_planes(self: &Arc<Self>, mut planes: KVec<PlaneInfo>) {
        {
            let mut inner = self.inner.lock();
            inner.routes.clear();
            inner
                .proto
                .set_local_planes(now(), &plane::to_wire(&planes));
            core::mem::swap(&mut inner.planes, &mut planes);
        }
        self.run();
    }

    /// Returns what it has counted.
    pub(crate) fn totals(&self) -> Totals {
        let inner = self.inner.lock();
        let mut totals = Totals {
            connections: 0,
            tx: inner.proto.tx_totals(),
            rx: inner.proto.rx_totals(),
            conn: *inner.proto.stats(),
            ..Totals::default()
        };
        for (at, id) in (0..MAX_PLANES).zip(0..) {
            let Some(stats) = inner.proto.plane_stats(id) else {
                break;
            };
            let add = |a: &mut [u64], n: u64| {
                if let Some(a) = a.get_mut(at) {
                    *a += n;
                }
            };
            add(&mut totals.plane_packets, stats.packets);
            add(&mut totals.plane_bytes, stats.bytes);
            add(&mut totals.plane_retransmits, stats.retransmits);
        }
        for (i, packets) in (0..).zip(&mut totals.path_packets) {
            if let Some(path) = inner.proto.path(PathId(i)) {
                *packets = path.tx.stats().packets;
            }
        }
        totals
    }

    /// Ends it: tells the peer, and lets nothing find it any more. Process context, may sleep.
    pub(crate) fn shut_down(self: &Arc<Self>) {
        self.inner.lock().proto.close();
        // The RESET goes out.
        self.run();
        drop(self.endpoint.host().conns.remove(self.id));
        self.endpoint.ways.remove(&self.key, self.id);
        self.timer.stop();
    }
}

impl ConnInner {
    /// Returns the number of the network device of a plane.
    pub(super) fn plane_ifindex(&self, plane: u8) -> Option<u32> {
        self.planes.get(usize::from(plane)).map(|p| p.ifindex)
    }

    /// Returns the number of the local plane that a path is on just now.
    pub(super) fn plane_of(&self, path: PathId) -> Option<u8> {
        self.proto.route(path).map(|route| route.local_plane)
    }

    /// Returns the route that a path takes just now.
    ///
    /// Errors: what the route lookup says, `ENOMEM`.
    pub(super) fn route(&mut self, conn: &Conn, path: PathId) -> Result<&Route> {
        let route = self.proto.route(path).ok_or(ENETUNREACH)?;
        self.resolve(conn, &route)
    }

    /// Returns the kernel's route for one of the transport. Errors as for [`Self::route`].
    pub(super) fn resolve(&mut self, conn: &Conn, of: &proto::path::Route) -> Result<&Route> {
        let same = |r: &Resolved| {
            (r.of.local_plane, r.of.remote_plane, r.of.src_port)
                == (of.local_plane, of.remote_plane, of.src_port)
        };
        let at = match self.routes.iter().position(same) {
            Some(at) if self.routes.get(at).is_some_and(|r| r.route.is_valid()) => at,
            stale => {
                if let Some(at) = stale {
                    let _ = self.routes.remove(at);
                } else if self.routes.len() == self.routes.capacity() {
                    // Paths have moved: whatever is still in use comes back.
                    self.routes.clear();
                }
                let remote = self
                    .proto
                    .peer_planes()
                    .get(of.remote_plane)
                    .ok_or(ENETUNREACH)?
                    .gid;
                let route = self.look_up(conn, of.local_plane, remote, of.src_port)?;
                self.routes
                    .push_within_capacity(Resolved { of: *of, route })
                    .map_err(|_| ENOMEM)?;
                self.routes.len() - 1
            }
        };
        Ok(&self.routes.get(at).ok_or(ENETUNREACH)?.route)
    }

    /// Finds the way from a local plane to an address.
    pub(super) fn look_up(
        &self,
        conn: &Conn,
        local_plane: u8,
        remote: Gid,
        sport: u16,
    ) -> Result<Route> {
        let plane = self
            .planes
            .get(usize::from(local_plane))
            .ok_or(ENETUNREACH)?;
        let flow = Flow {
            src: plane.gid.0,
            dst: remote.0,
            sport,
            dport: conn.endpoint.host().port(),
            tos: 0,
            vlan: plane.vlan,
        };
        let dev = conn.endpoint.planes.device(plane.ifindex).ok_or(ENODEV)?;
        Route::lookup(&dev, flow)
    }
}

impl TimerCallback for Conn {
    /// Runs in softirq context.
    fn expired(this: ArcBorrow<'_, Self>) {
        let conn: Arc<Self> = this.into();
        let idle = {
            let mut inner = conn.inner.lock();
            let now = now();
            inner.proto.on_timeout(now);
            // Taken, so that the timer is not set for it again.
            inner.idle_until.take_if(|t| now >= *t).is_some()
        };
        conn.run();
        if idle {
            let _ = conn.endpoint.queue.enqueue::<_, RETIRE>(conn.clone());
        }
    }
}
