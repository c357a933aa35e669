// SPDX-License-Identifier: GPL-2.0

//! The firmware: what the NIC does by itself, in its own worker.

use crate::{
    abi::QpRef,
    datapath::{
        conn::{
            Conn,
            ConnKey,
            Settings,
            Transport, //
        },
        counters::Totals,
        cq::Cq,
        endpoint::Endpoint,
        host::Host,
        parts::{
            QpParts,
            QpRings, //
        },
        plane::{
            PlaneInfo,
            Planes, //
        },
        qp::{
            Qp,
            QpInit, //
        },
        rx::{
            Receiver,
            Touched, //
        },
    },
    inbox::{
        Datagram,
        Inbox, //
    },
    knobs::Knobs,
    module_parameters,
    net::netdev::NetDeviceRef,
    rdma::{
        event::QpEvents,
        mmap::SharedMem,
        qp::{
            AttrMask,
            QpAttr,
            QpType, //
        },
        umem::Umem, //
    },
    sync::{
        id_table::IdTable,
        lock_bh::BhDisabled,
        work::{
            self,
            OwnedQueue, //
        }, //
    },
};
use core::fmt;
use kernel::{
    impl_has_work,
    new_mutex,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};
use proto::congestion::Controller;

/// Packets that are taken with bottom halves disabled.
const PORTION: usize = 64;

/// A queue pair of the core's.
pub(crate) struct Carried {
    qp: Arc<Qp>,
    conn: Arc<Conn>,
    /// There is something in its rings.
    rung: Atomic<bool>,
}

/// A connection as the core describes it.
pub(crate) struct ConnSpec {
    pub(crate) key: ConnKey,
    pub(crate) port: u16,
    pub(crate) settings: Settings,
    pub(crate) devices: KVec<(u8, NetDeviceRef)>,
}

/// A queue pair as the core describes it.
pub(crate) struct QpSpec<'a> {
    pub(crate) qp: QpRef,
    pub(crate) qpn: u32,
    pub(crate) pd: u32,
    pub(crate) signal_all: bool,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) sq: (SharedMem, ring::Geometry),
    pub(crate) rq: Option<(SharedMem, ring::Geometry)>,
    /// Where work begins, in the send and in the receive ring.
    pub(crate) first: (u32, u32),
    pub(crate) attr: QpAttr,
    /// What it goes on from, if it was elsewhere before.
    pub(crate) state: Option<&'a [u8]>,
}

/// What the firmware has counted, `struct metaroce_ofl_stats`.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) retransmits: u64,
    pub(crate) rx_errors: u64,
}

struct Conns {
    list: KVec<Arc<Conn>>,
    /// What connections that are gone have counted.
    retired: Totals,
}

/// The firmware of one registration.
#[pin_data]
pub(crate) struct Firmware {
    knobs: Arc<Knobs>,
    endpoint: Arc<Endpoint>,
    planes: Arc<Planes>,
    receiver: Receiver,
    #[pin]
    conns: Mutex<Conns>,
    /// By number.
    #[pin]
    qps: IdTable<Carried>,
    #[pin]
    inbox: Inbox,
    rx_packets: Atomic<u64>,
    rx_bytes: Atomic<u64>,
    /// Packets for which there was no room or no memory.
    overruns: Atomic<u64>,
    /// It looks at nothing any more.
    dead: Atomic<bool>,
    queue: OwnedQueue,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Firmware { self.work }
}

impl Firmware {
    /// Makes one that has nothing. Process context. Pair with [`Self::stop`].
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new(knobs: Arc<Knobs>) -> Result<Arc<Self>> {
        let planes = Planes::new()?;
        let host = Host::new(0, module_parameters::port.value())?;
        // Each connection says what it wants.
        let transport = Transport {
            paths_per_plane: 1,
            crc: true,
        };
        let endpoint = Endpoint::at(&host, &planes, transport, Controller::default())?;
        let inbox = Inbox::new()?;
        let queue = OwnedQueue::new_unbound(c"metaroce_sim")?;
        Arc::pin_init(
            pin_init!(Self {
                knobs,
                endpoint,
                planes,
                receiver: Receiver::new(host),
                conns <- new_mutex!(Conns {
                    list: KVec::new(),
                    retired: Totals::default(),
                }),
                qps <- IdTable::new(),
                inbox <- inbox,
                rx_packets: Atomic::new(0),
                rx_bytes: Atomic::new(0),
                overruns: Atomic::new(0),
                dead: Atomic::new(false),
                queue,
                work <- new_work!("Firmware::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the settings of the device.
    pub(crate) fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// It takes neither packets nor doorbells any more. Any context.
    pub(crate) fn die(&self) {
        self.dead.store(true, Relaxed);
    }

    /// Ends it, when the core has taken everything back. Process context.
    pub(crate) fn stop(self: &Arc<Self>) {
        self.die();
        work::cancel_sync(self);
        self.endpoint.shutdown();
    }

    fn wake(self: &Arc<Self>) {
        // If it is queued already, then it has yet to run.
        let _ = self.queue.enqueue(self.clone());
    }

    /// Takes a packet off the host. Softirq context.
    pub(crate) fn receive(self: &Arc<Self>, datagram: Result<Datagram>) {
        let Some(datagram) = datagram.ok().filter(|_| !self.dead.load(Relaxed)) else {
            self.overruns.fetch_add(1, Relaxed);
            return;
        };
        // CAST: Less than 64 KiB.
        let len = datagram.1 .1 as u64;
        if self.inbox.put(datagram) {
            self.rx_packets.fetch_add(1, Relaxed);
            self.rx_bytes.fetch_add(len, Relaxed);
            self.wake();
        } else {
            self.overruns.fetch_add(1, Relaxed);
        }
    }

    /// Something was posted to a queue pair. Any context but NMI.
    pub(crate) fn ring(self: &Arc<Self>, qp: &Carried) {
        qp.rung.store(true, Relaxed);
        self.wake();
    }

    /// Makes a memory region known. Process context.
    pub(crate) fn add_mr(
        &self,
        (key, pd): (u32, u32),
        umem: Umem,
        range: (u64, u64),
        access: u32,
    ) -> Result {
        let umem = Arc::new(umem, GFP_KERNEL)?;
        self.endpoint.mrs().insert(key, pd, umem, range, access)
    }

    /// Forgets a memory region, which is not accessed any more on return. Process context.
    pub(crate) fn remove_mr(&self, key: u32) {
        self.endpoint.mrs().remove(key);
    }

    /// Makes a connection. Process context.
    ///
    /// Errors: `EOPNOTSUPP` on another port than the NIC's filters have, `ENOMEM`.
    pub(crate) fn add_conn(&self, spec: ConnSpec) -> Result<Arc<Conn>> {
        if spec.port != module_parameters::port.value() {
            return Err(EOPNOTSUPP);
        }
        let mut conns = self.conns.lock();
        conns.list.reserve(1, GFP_KERNEL)?;
        self.planes.assign(spec.devices)?;
        let conn = Conn::new(&self.endpoint, spec.key, spec.settings)?;
        conns
            .list
            .push_within_capacity(conn.clone())
            .map_err(|_| ENOMEM)?;
        Ok(conn)
    }

    /// Tells a connection of other planes. Process context.
    pub(crate) fn set_planes(
        &self,
        conn: &Arc<Conn>,
        infos: KVec<PlaneInfo>,
        devices: KVec<(u8, NetDeviceRef)>,
    ) {
        // Without memory it goes on with those that it has, but for the devices: it must let go of
        // those that are gone.
        if self.planes.assign(devices).is_err() {
            let _ = self.planes.assign(KVec::new());
        }
        conn.set_planes(infos);
    }

    /// Ends a connection. Process context.
    pub(crate) fn remove_conn(&self, conn: &Arc<Conn>) {
        let mut conns = self.conns.lock();
        conns.list.retain(|other| !Arc::ptr_eq(other, conn));
        conns.retired.add(&conn.totals());
        conn.shut_down();
        // Nothing of it is queued any more.
        self.endpoint.flush();
        if conns.list.is_empty() {
            let _ = self.planes.assign(KVec::new());
        }
    }

    /// Takes a queue pair over. Process context.
    pub(crate) fn add_qp(&self, conn: &Arc<Conn>, spec: QpSpec<'_>) -> Result<Arc<Carried>> {
        let init = QpInit {
            service: QpType::Rc,
            parts: QpParts {
                pd: spec.pd,
                send_cq: spec.send_cq,
                recv_cq: spec.recv_cq,
                rings: QpRings {
                    sq: spec.sq,
                    rq: spec.rq,
                    srq: None,
                },
                signal_all: spec.signal_all,
                events: QpEvents::new(spec.qp),
            },
        };
        let qp = Qp::new_on(conn, init, spec.qpn, &spec.attr, (spec.first, spec.state))?;
        let carried = Arc::new(
            Carried {
                qp: qp.clone(),
                conn: conn.clone(),
                rung: Atomic::new(false),
            },
            GFP_KERNEL,
        );
        let entered = carried.map_err(Into::into).and_then(|carried| {
            self.qps.insert(spec.qpn, carried.clone())?;
            Ok(carried)
        });
        entered.inspect_err(|_| qp.destroy())
    }

    /// Changes a queue pair. Process context.
    pub(crate) fn modify_qp(&self, qp: &Carried, attr: &QpAttr, mask: AttrMask) -> Result {
        // That decides for a connection, which is not decided here.
        if mask.contains(AttrMask::DEST_QPN) {
            return Err(EINVAL);
        }
        qp.qp.modify(attr, mask.without(AttrMask::CURRENT_STATE))
    }

    /// Writes the state of a queue pair, which stands still then. Process context.
    ///
    /// Errors: as for [`Qp::save`].
    pub(crate) fn export_qp(&self, qp: &Carried, buf: &mut [u8]) -> Result<usize> {
        let (len, _conn) = qp.qp.save(buf)?;
        Ok(len)
    }

    /// Gives a queue pair up. Process context.
    pub(crate) fn remove_qp(&self, qp: &Carried) {
        // Waits for the worker to let go of it.
        drop(self.qps.remove(qp.qp.qpn()));
        qp.qp.destroy();
        qp.conn.end_unanswered();
    }

    /// Returns what it has counted. Process context.
    pub(crate) fn stats(&self) -> Stats {
        let conns = self.conns.lock();
        let mut totals = conns.retired;
        for conn in &conns.list {
            totals.add(&conn.totals());
        }
        Stats {
            tx_packets: totals.tx.packets + totals.tx.retransmits(),
            tx_bytes: totals.tx.bytes,
            rx_packets: self.rx_packets.load(Relaxed),
            rx_bytes: self.rx_bytes.load(Relaxed),
            retransmits: totals.tx.retransmits(),
            rx_errors: self.endpoint.host().dropped() + self.overruns.load(Relaxed),
        }
    }

    /// Writes lines for each connection, as the data path of the host does. Process context.
    pub(crate) fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conns = self.conns.lock();
        conns.list.iter().try_for_each(|conn| conn.describe(f))
    }

    /// Takes packets.
    fn take(&self, datagrams: &[Datagram]) {
        // Objects that were removed are waited for by those who disable bottom halves.
        let _bh = BhDisabled::new();
        let mut touched = Touched::default();
        for (skb, at) in datagrams {
            if !self.dead.load(Relaxed) {
                self.receiver.take(skb, &skb.meta(), *at, &mut touched);
            }
        }
        self.receiver.end(touched);
    }

    /// Looks at the rings for which there was a doorbell.
    fn serve(&self) {
        let _bh = BhDisabled::new();
        self.qps.for_each(|_, qp| {
            if qp.rung.xchg(false, Full) && !self.dead.load(Relaxed) {
                qp.qp.doorbell();
            }
        });
    }
}

impl WorkItem for Firmware {
    type Pointer = Arc<Self>;

    /// Does what there is to do; who brings more wakes it again.
    fn run(this: Arc<Self>) {
        this.knobs.wait();
        this.inbox.take(PORTION, |datagrams| this.take(datagrams));
        this.serve();
    }
}
