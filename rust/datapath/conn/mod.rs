// SPDX-License-Identifier: GPL-2.0

//! Connections: the transport's connection with its lock, its timer and the queue pairs that wait
//! to send on it.

mod planes;
mod ready;
mod routes;
mod run;

use self::{
    ready::Ready,
    routes::Resolved, //
};
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
    net::random_u32,
    sync::{
        hrtimer::Timer,
        index::Place,
        lock_bh::{
            new_spinlock_bh,
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
        atomic::Atomic,
        lock::Guard,
        Arc, //
    },
    workqueue::Work,
};
use proto::{
    congestion::Controller,
    connection::{
        Config,
        Connection,
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

/// What the connection's lock guards.
pub(super) struct ConnInner {
    pub(super) proto: Proto,
    pub(super) planes: KVec<PlaneInfo>,
    /// Its queue pair has chosen the law of congestion control.
    has_own_law: bool,
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
    /// Some queue pair wants to know when planes are left.
    watched: Atomic<bool>,
    #[pin]
    retire: Work<Self, RETIRE>,
    #[pin]
    resume: Work<Self, RESUME>,
}

impl_has_work! {
    impl HasWork<Self, RETIRE> for Conn { self.retire }
    impl HasWork<Self, RESUME> for Conn { self.resume }
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
                    has_own_law: wishes.law.is_some(),
                    meters: [Meter::default(); MAX_PLANES],
                    routes,
                    blocks,
                    users: 0,
                    idle_until: None,
                    paused: false,
                }),
                ready <- new_spinlock_bh!(Ready::new()),
                timer <- Timer::new(),
                running: Atomic::new(false),
                again: Atomic::new(false),
                watched: Atomic::new(false),
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
        let room = self.ready.lock().room();
        if users > room {
            let ring = KVec::from_elem(0u32, users.next_power_of_two(), GFP_KERNEL)?;
            let old = self.ready.lock().grow(ring);
            drop(old);
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

    /// Changes the law of congestion control: to one of its own, or to that of all, which changes
    /// nothing if it has one of its own. Process context.
    pub(super) fn set_law(self: &Arc<Self>, law: Controller, is_own: bool) {
        {
            let mut inner = self.inner.lock();
            if inner.has_own_law && !is_own {
                return;
            }
            inner.has_own_law = is_own;
            inner.proto.set_controller(law);
        }
        // The new window may be wider.
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
