// SPDX-License-Identifier: GPL-2.0

//! What the data path counts, and the names under which `rdma statistic` shows it.

use super::{
    endpoint::Endpoint,
    qp_counters::QpTotals, //
};
use crate::{
    net::{
        route::Route,
        tx::TxBurst, //
    },
    sync::percpu_counters::PerCpuCounters, //
};
use kernel::prelude::*;
use proto::{
    connection::ConnStats,
    path::{
        RxStats,
        TxStats, //
    },
    wire::{
        WireError,
        MAX_PLANES, //
    },
};

/// Why a datagram was dropped before it came to a connection, beside [`WireError`].
#[derive(Clone, Copy)]
pub(super) enum Drop {
    /// The CRC does not match, or is missing where it was agreed on.
    Crc = WireError::COUNT as isize,
    /// No connection has the id.
    UnknownConnection,
    /// An INIT names no queue pair that is connected to its sender.
    UnknownQueuePair,
    /// A datagram has another key than its queue pair.
    QKey,
    /// A datagram finds no receive.
    NoReceive,
    /// A datagram is longer than a message may be, or than the receive.
    DatagramLength,
}

pub(super) const DROPS: usize = Drop::DatagramLength as usize + 1;

/// Counts dropped datagrams of a host.
pub(super) struct DropCounters(pub(super) PerCpuCounters<DROPS>);

impl DropCounters {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(PerCpuCounters::new()?))
    }

    pub(super) fn count(&self, why: Drop) {
        self.0.inc(why as usize);
    }

    pub(super) fn count_wire(&self, why: WireError) {
        self.0.inc(why.index());
    }
}

/// Counts of an endpoint by plane, as its index.
pub(super) struct Counters {
    /// Datagrams received.
    rx: PerCpuCounters<MAX_PLANES>,
    /// Bursts that the network layer refused.
    tx_errors: PerCpuCounters<1>,
    /// Whatever is sent and received: packets and octets, [`PACKETS`] and [`OCTETS`].
    sent: PerCpuCounters<2>,
    arrived: PerCpuCounters<2>,
    /// Datagrams sent and received, [`SENT`] and [`RECEIVED`].
    datagrams: PerCpuCounters<2>,
    pub(super) of_qps: QpTotals,
}

const PACKETS: usize = 0;
const OCTETS: usize = 1;

const UDP_HEADER: u64 = 8;

/// What a device sends and receives, of all kinds of packets, from the UDP header on.
pub(crate) struct Traffic {
    pub(crate) packets_sent: u64,
    pub(crate) octets_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) octets_received: u64,
    /// Bursts that the network layer refused.
    pub(crate) not_sent: u64,
    /// Packets that are damaged or no packets at all, of the network namespace and UDP port.
    pub(crate) faulty: u64,
    /// Packets that found sockets full, likewise.
    pub(crate) overruns: u64,
}

const SENT: usize = 0;
const RECEIVED: usize = 1;

impl Counters {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            rx: PerCpuCounters::new()?,
            tx_errors: PerCpuCounters::new()?,
            sent: PerCpuCounters::new()?,
            arrived: PerCpuCounters::new()?,
            datagrams: PerCpuCounters::new()?,
            of_qps: QpTotals::new()?,
        })
    }

    /// Hands packets over to the network, as [`TxBurst::xmit`] does, and counts them.
    pub(super) fn xmit(&self, burst: TxBurst, route: Result<&Route>, ecn: u8, ttl: u8) -> Result {
        // CAST: Few and short enough.
        let (packets, octets) = (burst.segments() as u64, burst.len() as u64);
        let sent = route.and_then(|route| burst.xmit(route, ecn, ttl));
        if sent.is_ok() {
            self.sent.add(PACKETS, packets);
            self.sent.add(OCTETS, octets + packets * UDP_HEADER);
        } else {
            // To the transport they are lost like any other packets.
            self.not_sent();
        }
        sent
    }

    /// Counts what could not be sent.
    pub(super) fn not_sent(&self) {
        self.tx_errors.inc(0);
    }

    /// Counts a packet of `len` bytes.
    pub(super) fn arrived(&self, len: usize) {
        self.arrived.inc(PACKETS);
        // CAST: Short enough.
        self.arrived.add(OCTETS, len as u64 + UDP_HEADER);
    }

    pub(super) fn datagrams_sent(&self, n: u64) {
        self.datagrams.add(SENT, n);
    }

    pub(super) fn datagram_received(&self) {
        self.datagrams.inc(RECEIVED);
    }

    pub(super) fn received(&self, plane: usize) {
        self.rx.inc(plane);
    }
}

/// Paths that are counted one by one: all that connections of the usual eight paths a plane have.
const PATHS: usize = 64;

/// Sums over connections.
#[derive(Clone, Copy)]
pub(crate) struct Totals {
    pub(super) connections: u64,
    pub(crate) tx: TxStats,
    pub(crate) rx: RxStats,
    pub(super) conn: ConnStats,
    pub(super) plane_packets: [u64; MAX_PLANES],
    pub(super) plane_bytes: [u64; MAX_PLANES],
    pub(super) plane_retransmits: [u64; MAX_PLANES],
    /// Packets sent for the first time on the paths of a number.
    pub(super) path_packets: [u64; PATHS],
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            connections: 0,
            tx: TxStats::default(),
            rx: RxStats::default(),
            conn: ConnStats::default(),
            plane_packets: [0; MAX_PLANES],
            plane_bytes: [0; MAX_PLANES],
            plane_retransmits: [0; MAX_PLANES],
            path_packets: [0; PATHS],
        }
    }
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.tx.add(&other.tx);
        self.rx.add(&other.rx);
        self.conn.acks_sent += other.conn.acks_sent;
        self.conn.acks_received += other.conn.acks_received;
        self.conn.naks_sent += other.conn.naks_sent;
        self.conn.inits_sent += other.conn.inits_sent;
        self.conn.inits_received += other.conn.inits_received;
        self.conn.resets_received += other.conn.resets_received;
        self.conn.reroutes_timeout += other.conn.reroutes_timeout;
        self.conn.reroutes_plane += other.conn.reroutes_plane;
        self.conn.planes_left += other.conn.planes_left;
        self.conn.returns += other.conn.returns;
        let sum = |a: &mut [u64], b: &[u64]| {
            for (a, b) in a.iter_mut().zip(b) {
                *a += b;
            }
        };
        sum(&mut self.plane_packets, &other.plane_packets);
        sum(&mut self.plane_bytes, &other.plane_bytes);
        sum(&mut self.plane_retransmits, &other.plane_retransmits);
        sum(&mut self.path_packets, &other.path_packets);
    }
}

/// Names of the counters, in the order in which [`Endpoint::counters`] fills them in.
///
/// ib_core puts them all into one netlink message of a page: it has room for no more than some 90.
pub(crate) const NAMES: [&CStr; 84] = [
    c"connections",
    c"tx_packets",
    c"tx_bytes",
    c"tx_errors",
    c"retransmits_gap",
    c"retransmits_probe",
    c"retransmits_timeout",
    c"retransmits_spurious",
    c"timeouts",
    c"probes_sent",
    c"marks",
    c"route_changes",
    c"reroutes_timeout",
    c"reroutes_plane",
    c"planes_left",
    c"returns",
    c"rx_packets",
    c"rx_duplicates",
    c"rx_outside_window",
    c"rx_gaps",
    c"rx_ce_marks",
    c"rx_local",
    c"rx_aborted",
    c"rx_overruns",
    c"rx_checksum_errors",
    c"probes_received",
    c"acks_sent",
    c"acks_received",
    c"naks_sent",
    c"packets_refused",
    c"inits_sent",
    c"inits_received",
    c"resets_received",
    c"tx_datagrams",
    c"rx_datagrams",
    c"drop_too_short",
    c"drop_bad_version",
    c"drop_unknown_type",
    c"drop_reserved_flags",
    c"drop_bad_header_length",
    c"drop_bad_opcode",
    c"drop_bad_nak_code",
    c"drop_too_many_blocks",
    c"drop_bad_vector",
    c"drop_bad_plane_count",
    c"drop_unexpected_payload",
    c"drop_crc",
    c"drop_unknown_connection",
    c"drop_unknown_qp",
    c"drop_qkey",
    c"drop_no_receive",
    c"drop_datagram_length",
    c"plane0_tx_packets",
    c"plane0_tx_bytes",
    c"plane0_retransmits",
    c"plane0_rx_packets",
    c"plane1_tx_packets",
    c"plane1_tx_bytes",
    c"plane1_retransmits",
    c"plane1_rx_packets",
    c"plane2_tx_packets",
    c"plane2_tx_bytes",
    c"plane2_retransmits",
    c"plane2_rx_packets",
    c"plane3_tx_packets",
    c"plane3_tx_bytes",
    c"plane3_retransmits",
    c"plane3_rx_packets",
    c"plane4_tx_packets",
    c"plane4_tx_bytes",
    c"plane4_retransmits",
    c"plane4_rx_packets",
    c"plane5_tx_packets",
    c"plane5_tx_bytes",
    c"plane5_retransmits",
    c"plane5_rx_packets",
    c"plane6_tx_packets",
    c"plane6_tx_bytes",
    c"plane6_retransmits",
    c"plane6_rx_packets",
    c"plane7_tx_packets",
    c"plane7_tx_bytes",
    c"plane7_retransmits",
    c"plane7_rx_packets",
];

/// Names of the counters of paths, in the order in which [`Endpoint::path_counters`] fills them in.
pub(crate) const PATH_NAMES: [&CStr; PATHS] = [
    c"path0_tx_packets",
    c"path1_tx_packets",
    c"path2_tx_packets",
    c"path3_tx_packets",
    c"path4_tx_packets",
    c"path5_tx_packets",
    c"path6_tx_packets",
    c"path7_tx_packets",
    c"path8_tx_packets",
    c"path9_tx_packets",
    c"path10_tx_packets",
    c"path11_tx_packets",
    c"path12_tx_packets",
    c"path13_tx_packets",
    c"path14_tx_packets",
    c"path15_tx_packets",
    c"path16_tx_packets",
    c"path17_tx_packets",
    c"path18_tx_packets",
    c"path19_tx_packets",
    c"path20_tx_packets",
    c"path21_tx_packets",
    c"path22_tx_packets",
    c"path23_tx_packets",
    c"path24_tx_packets",
    c"path25_tx_packets",
    c"path26_tx_packets",
    c"path27_tx_packets",
    c"path28_tx_packets",
    c"path29_tx_packets",
    c"path30_tx_packets",
    c"path31_tx_packets",
    c"path32_tx_packets",
    c"path33_tx_packets",
    c"path34_tx_packets",
    c"path35_tx_packets",
    c"path36_tx_packets",
    c"path37_tx_packets",
    c"path38_tx_packets",
    c"path39_tx_packets",
    c"path40_tx_packets",
    c"path41_tx_packets",
    c"path42_tx_packets",
    c"path43_tx_packets",
    c"path44_tx_packets",
    c"path45_tx_packets",
    c"path46_tx_packets",
    c"path47_tx_packets",
    c"path48_tx_packets",
    c"path49_tx_packets",
    c"path50_tx_packets",
    c"path51_tx_packets",
    c"path52_tx_packets",
    c"path53_tx_packets",
    c"path54_tx_packets",
    c"path55_tx_packets",
    c"path56_tx_packets",
    c"path57_tx_packets",
    c"path58_tx_packets",
    c"path59_tx_packets",
    c"path60_tx_packets",
    c"path61_tx_packets",
    c"path62_tx_packets",
    c"path63_tx_packets",
];

/// Counters before those of the drops, which those of the planes follow, four for each.
const GENERAL: usize = 35;
const _: () = assert!(NAMES.len() == GENERAL + DROPS + 4 * MAX_PLANES);

impl Endpoint {
    /// Fills in the counters in the order of [`NAMES`]. Process context.
    ///
    /// Drops are those of the endpoint's network namespace and UDP port: what is dropped so early
    /// belongs to no device.
    pub(crate) fn counters(&self, out: &mut [u64]) {
        let t = self.totals();
        let general: [u64; GENERAL] = [
            t.connections,
            t.tx.packets,
            t.tx.bytes,
            self.counters.tx_errors.sum(0),
            t.tx.retransmits_gap,
            t.tx.retransmits_probe,
            t.tx.retransmits_timeout,
            t.tx.spurious,
            t.tx.timeouts,
            t.tx.probes,
            t.tx.marks,
            t.tx.route_changes,
            t.conn.reroutes_timeout,
            t.conn.reroutes_plane,
            t.conn.planes_left,
            t.conn.returns,
            t.rx.packets,
            t.rx.duplicates,
            t.rx.outside,
            t.rx.gaps,
            t.rx.marks,
            t.rx.local,
            t.rx.aborted,
            self.host().overruns(),
            self.host().checksum_errors(),
            t.rx.probes,
            t.conn.acks_sent,
            t.conn.acks_received,
            t.conn.naks_sent,
            t.rx.held,
            t.conn.inits_sent,
            t.conn.inits_received,
            t.conn.resets_received,
            self.counters.datagrams.sum(SENT),
            self.counters.datagrams.sum(RECEIVED),
        ];
        let drops = (0..DROPS).map(|i| self.host().drops.0.sum(i));
        let planes = (0..MAX_PLANES).flat_map(|i| {
            let of = |a: &[u64; MAX_PLANES]| a.get(i).copied().unwrap_or(0);
            [
                of(&t.plane_packets),
                of(&t.plane_bytes),
                of(&t.plane_retransmits),
                self.counters.rx.sum(i),
            ]
        });
        let mut out = out.iter_mut();
        let mut put = |value| {
            if let Some(out) = out.next() {
                *out = value;
            }
        };
        general.into_iter().for_each(&mut put);
        drops.for_each(&mut put);
        planes.for_each(&mut put);
    }

    /// Returns what was sent and received. Process context.
    pub(crate) fn traffic(&self) -> Traffic {
        let Counters { sent, arrived, .. } = &self.counters;
        let drops = &self.host().drops.0;
        Traffic {
            packets_sent: sent.sum(PACKETS),
            octets_sent: sent.sum(OCTETS),
            packets_received: arrived.sum(PACKETS),
            octets_received: arrived.sum(OCTETS),
            not_sent: self.counters.tx_errors.sum(0),
            // Those of the wire come first, then that of the CRC.
            faulty: (0..=Drop::Crc as usize).map(|i| drops.sum(i)).sum(),
            overruns: self.host().overruns(),
        }
    }

    /// Fills in the counters in the order of [`PATH_NAMES`]. Process context.
    pub(crate) fn path_counters(&self, out: &mut [u64]) {
        for (out, packets) in out.iter_mut().zip(self.totals().path_packets) {
            *out = packets;
        }
    }
}
