// SPDX-License-Identifier: GPL-2.0

//! What all devices of one network namespace and UDP port share: sockets, and the tables by which
//! packets find connections and queue pairs.

use super::{
    conn::Conn,
    counters::DropCounters,
    foreign::Foreign,
    limits,
    plane::Planes,
    qp::Qp,
    rx::Receiver,
    ud::{
        Ud,
        GSI_QPN, //
    }, //
};
use crate::{
    net::{
        self,
        namespace::{
            self,
            Net, //
        },
        route::{
            Flow,
            Route, //
        },
        skbuff::Meta,
        tx::TxBurst,
        udp::UdpSockets, //
    },
    sync::{
        global_mutex::global_mutex,
        id_table::IdTable,
        list,
        lock_bh::{
            new_spinlock_bh,
            SpinLockBh, //
        },
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};
use proto::{
    packet::Qpn,
    wire::Gid, //
};

/// Hop limit of what is sent.
pub(super) const TTL: u8 = 64;

/// ECN-capable transport, ECT(0) (RFC 3168).
pub(super) const ECT0: u8 = 2;

global_mutex! {
    /// The hosts there are, and how many devices use each.
    static HOSTS: KVec<(Arc<Host>, usize)> = KVec::new();
}

/// Closes the sockets of network namespaces that go away. The devices there follow by themselves,
/// for they lose their planes.
pub(crate) struct Namespaces;

impl namespace::Operations for Namespaces {
    fn exit(net: &Net) {
        let hosts = HOSTS.lock();
        for (host, _) in hosts.iter().filter(|(host, _)| host.net == net.cookie()) {
            host.close();
        }
    }
}

/// A network namespace as peers see it: one UDP port.
#[pin_data]
pub(crate) struct Host {
    /// The cookie of the namespace. A reference would keep it from going away.
    net: u64,
    port: u16,
    /// Set at once after construction, for the receiver needs the host.
    #[pin]
    sockets: Mutex<Option<Arc<UdpSockets<Receiver>>>>,
    /// By the id that peers address.
    #[pin]
    pub(super) conns: IdTable<Conn>,
    /// Connections of devices, likewise.
    #[pin]
    pub(super) foreign: IdTable<Foreign>,
    /// By number.
    #[pin]
    pub(super) qps: IdTable<Qp>,
    /// The datagram queue pairs, by number; those for general services by one that nobody sees.
    #[pin]
    pub(super) uds: IdTable<Ud>,
    /// Those of the devices.
    #[pin]
    planes: SpinLockBh<KVec<Arc<Planes>>>,
    pub(super) drops: DropCounters,
    /// When strangers may be answered again.
    next_answer: Atomic<u64>,
}

/// Least time between two answers to strangers, in nanoseconds.
const ANSWER_NS: u64 = 1_000_000;

impl Host {
    /// Returns the host of a namespace and port for a device with these planes, opening the
    /// sockets if it is the first one there. Pair with [`Self::put`]. Process context.
    ///
    /// Errors: `EADDRINUSE` if the port is taken, `ENOMEM`.
    pub(super) fn get(net: &Net, port: u16, planes: &Arc<Planes>) -> Result<Arc<Self>> {
        let mut hosts = HOSTS.lock();
        let found = hosts
            .iter_mut()
            .find(|(host, _)| host.port == port && host.net == net.cookie());
        if let Some((host, users)) = found {
            host.add_planes(planes)?;
            *users += 1;
            return Ok(host.clone());
        }
        hosts.reserve(1, GFP_KERNEL)?;
        let host = Self::new(net.cookie(), port)?;
        host.add_planes(planes)?;
        let receiver = Arc::new(Receiver::new(host.clone()), GFP_KERNEL)?;
        *host.sockets.lock() = Some(UdpSockets::open(net, port, receiver)?);
        hosts.push((host.clone(), 1), GFP_KERNEL)?;
        Ok(host)
    }

    /// Makes a host without sockets, that of the namespace with the cookie `net`. Process context.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new(net: u64, port: u16) -> Result<Arc<Self>> {
        let drops = DropCounters::new()?;
        Arc::pin_init(
            pin_init!(Self {
                net,
                port,
                sockets <- new_mutex!(None),
                conns <- IdTable::new(),
                foreign <- IdTable::new(),
                // Nobody should know the numbers by counting.
                qps <- IdTable::starting_at(net::random_in(limits::QPN_RANGE)),
                uds <- IdTable::starting_at(net::random_in(limits::UD_QPN_RANGE)),
                planes <- new_spinlock_bh!(KVec::new()),
                drops,
                next_answer: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// The list has one writer at a time, who holds [`HOSTS`].
    fn add_planes(&self, planes: &Arc<Planes>) -> Result {
        list::push(&self.planes, planes.clone(), GFP_KERNEL, |_| true)
    }

    /// Gives up one use; the last closes the sockets. Process context.
    pub(super) fn put(this: &Arc<Self>, planes: &Arc<Planes>) {
        this.planes.lock().retain(|p| !Arc::ptr_eq(p, planes));
        let last = {
            let mut hosts = HOSTS.lock();
            let at = hosts.iter().position(|(host, _)| Arc::ptr_eq(host, this));
            match at.and_then(|i| Some((i, hosts.get_mut(i)?))) {
                Some((_, (_, users))) if *users > 1 => {
                    *users -= 1;
                    None
                }
                // Closed before somebody else can open the port again.
                Some((i, _)) => {
                    this.close();
                    let gone = hosts.remove(i).ok();
                    if hosts.is_empty() {
                        // A static keeps its memory when the module goes.
                        *hosts = KVec::new();
                    }
                    gone
                }
                None => None,
            }
        };
        drop(last);
    }

    fn close(&self) {
        let sockets = self.sockets.lock().take();
        if let Some(sockets) = sockets {
            sockets.close();
        }
    }

    /// Returns the UDP port that all peers receive on.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Packets dropped because they were not taken in time. Process context.
    pub(super) fn overruns(&self) -> u64 {
        self.sockets.lock().as_ref().map_or(0, |s| s.drops())
    }

    /// Returns the queue pair that a datagram is addressed to: it must be one of the endpoint that
    /// has the GID.
    pub(super) fn addressee(&self, qpn: Qpn, gid: &Gid) -> Option<Arc<Ud>> {
        let key = match qpn.0 {
            GSI_QPN => {
                let planes = self.planes.lock();
                let owner = planes.iter().find(|p| p.gids.contains(gid))?;
                owner.gids.gsi()
            }
            key => key,
        };
        self.uds
            .lookup(key)
            // Nobody reaches general services by their key.
            .filter(|qp| qp.qpn() == qpn.0 && qp.endpoint.planes.gids.contains(gid))
    }

    /// Calls `f` with each queue pair that is in a multicast group on the network device `ifindex`.
    /// Bottom halves are disabled.
    pub(super) fn for_each_member(&self, group: &Gid, ifindex: u32, f: impl Fn(Arc<Ud>)) {
        for planes in self.planes.lock().iter() {
            if planes.id_of(ifindex).is_some() || planes.gids.has_interface(ifindex) {
                planes.groups.for_each(group, |key| {
                    if let Some(qp) = self.uds.lookup(key) {
                        f(qp);
                    }
                });
            }
        }
    }

    /// Packets dropped because of a wrong UDP checksum. Process context.
    pub(super) fn checksum_errors(&self) -> u64 {
        self.sockets
            .lock()
            .as_ref()
            .map_or(0, |s| s.checksum_errors())
    }

    /// Sends a datagram back to where one came from, at a limited rate. Softirq context.
    pub(super) fn answer(&self, meta: &Meta, bytes: &[u8]) {
        let now = super::now().0;
        if now < self.next_answer.load(Relaxed) {
            return;
        }
        self.next_answer.store(now + ANSWER_NS, Relaxed);
        let way = {
            let planes = self.planes.lock();
            planes
                .iter()
                .find_map(|p| p.device(meta.ifindex))
                .map(|dev| (dev, None))
                .or_else(|| {
                    let (dev, vlan) = planes.iter().find_map(|p| p.with_vlan_of(&meta.dst))?;
                    Some((dev, Some(vlan)))
                })
                // A local packet came by the loopback device. Any will do for the way back.
                .or_else(|| planes.iter().find_map(|p| Some((p.any_device()?, None))))
        };
        // Whether it arrives is not worth knowing.
        let _ = way.ok_or(ENODEV).and_then(|(dev, vlan)| {
            let flow = Flow {
                src: meta.dst,
                dst: meta.src,
                sport: self.port,
                dport: self.port,
                tos: 0,
                vlan,
            };
            let route = Route::lookup(&dev, flow)?;
            let mut burst = TxBurst::new()?;
            burst.push_header(bytes)?;
            burst.segment_end()?;
            burst.xmit(&route, 0, TTL)
        });
    }
}
