// SPDX-License-Identifier: GPL-2.0

//! Counters that queue pairs are bound to: what the device counts, for some of its queue pairs
//! alone (`rdma statistic qp`).
//!
//! A queue pair that is bound to none looks at one pointer under its lock, and that is all.
//!
//! What the device counts by connection and path can be told apart by queue pair only where a
//! packet names one. Marks that a peer reports, probes, timeouts and acknowledgements belong to
//! paths, which many queue pairs share; they are not here.

use super::{
    counters::NAMES,
    endpoint::Endpoint,
    responder::Outcome, //
};
use crate::sync::percpu_counters::PerCpuCounters;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::{
    packet::NakCode,
    path::Arrival,
    recovery::LossCause,
    wire::MAX_PLANES, //
};

/// Counters by the index that they have in [`NAMES`].
const ALL: usize = NAMES.len();

/// Names of what is counted beside [`NAMES`], of the device as well. The netlink message in which
/// `rdma statistic` has a port's counters has no room for them.
pub(crate) const MORE_NAMES: [&CStr; MORE] = [c"rnr_naks_received", c"rnr_naks_sent"];

pub(super) const MORE: usize = 2;

/// Indices in [`MORE_NAMES`].
pub(super) const RNR_RECEIVED: usize = 0;
pub(super) const RNR_SENT: usize = 1;

/// Returns the index of a counter in [`NAMES`].
const fn named(name: &CStr) -> usize {
    let name = name.to_bytes();
    let mut i = 0;
    while i < ALL {
        let other = NAMES[i].to_bytes();
        let mut n = 0;
        while n < name.len() && n < other.len() && name[n] == other[n] {
            n += 1;
        }
        if n == name.len() && n == other.len() {
            return i;
        }
        i += 1;
    }
    panic!("no counter has this name")
}

const TX_PACKETS: usize = named(c"tx_packets");
const TX_BYTES: usize = named(c"tx_bytes");
const GAP: usize = named(c"retransmits_gap");
const PROBE: usize = named(c"retransmits_probe");
const TIMEOUT: usize = named(c"retransmits_timeout");
const SPURIOUS: usize = named(c"retransmits_spurious");
const RX_PACKETS: usize = named(c"rx_packets");
const RX_MARKS: usize = named(c"rx_ce_marks");
const RX_LOCAL: usize = named(c"rx_local");
const RX_ABORTED: usize = named(c"rx_aborted");
const REFUSED: usize = named(c"packets_refused");
const TX_DATAGRAMS: usize = named(c"tx_datagrams");
const RX_DATAGRAMS: usize = named(c"rx_datagrams");
const Q_KEY: usize = named(c"drop_qkey");
const NO_RECEIVE: usize = named(c"drop_no_receive");
const LENGTH: usize = named(c"drop_datagram_length");
const PLANES: usize = named(c"plane0_tx_packets");

/// Counters that each plane has, in their order.
const BY_PLANE: usize = 4;
const PLANE_PACKETS: usize = 0;
const PLANE_BYTES: usize = 1;
const PLANE_RETRANSMITS: usize = 2;
const PLANE_RECEIVED: usize = 3;

const _: () = {
    assert!(PLANES + BY_PLANE * MAX_PLANES == ALL);
    assert!(named(c"plane1_tx_bytes") == PLANES + BY_PLANE + PLANE_BYTES);
    assert!(named(c"plane0_retransmits") == PLANES + PLANE_RETRANSMITS);
    assert!(named(c"plane7_rx_packets") == ALL - BY_PLANE + PLANE_RECEIVED);
};

/// Counted for queue pairs, beside the planes' and [`MORE_NAMES`].
const COUNTED: [usize; 16] = [
    TX_PACKETS,
    TX_BYTES,
    GAP,
    PROBE,
    TIMEOUT,
    SPURIOUS,
    RX_PACKETS,
    RX_MARKS,
    RX_LOCAL,
    RX_ABORTED,
    REFUSED,
    TX_DATAGRAMS,
    RX_DATAGRAMS,
    Q_KEY,
    NO_RECEIVE,
    LENGTH,
];

/// Whether the counter of this index in [`NAMES`] is counted for queue pairs.
pub(crate) fn is_of_qp(index: usize) -> bool {
    (PLANES..ALL).contains(&index) || COUNTED.contains(&index)
}

/// What an endpoint has counted of its queue pairs.
pub(super) struct QpTotals {
    /// [`MORE_NAMES`], of all queue pairs.
    more: PerCpuCounters<MORE>,
    /// By the index in [`NAMES`], then [`MORE_NAMES`]: what went to counters that queue pairs are,
    /// or were, bound to.
    apart: PerCpuCounters<{ ALL + MORE }>,
}

impl QpTotals {
    /// Makes counters that are zero.
    ///
    /// Errors: `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            more: PerCpuCounters::new()?,
            apart: PerCpuCounters::new()?,
        })
    }
}

/// A counter that queue pairs are bound to.
pub(crate) struct QpCounters {
    endpoint: Arc<Endpoint>,
    values: PerCpuCounters<{ ALL + MORE }>,
}

impl QpCounters {
    /// Makes a counter that is zero. Process context.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new(endpoint: &Arc<Endpoint>) -> Result<Arc<Self>> {
        let counters = Self {
            endpoint: endpoint.clone(),
            values: PerCpuCounters::new()?,
        };
        Ok(Arc::new(counters, GFP_KERNEL)?)
    }

    /// Fills in the values in the order of [`NAMES`], then [`MORE_NAMES`].
    pub(crate) fn fill(&self, names: &mut [u64], more: &mut [u64]) {
        for (i, out) in Iterator::chain(names.iter_mut(), more).enumerate() {
            *out = self.values.sum(i);
        }
    }

    /// Adds `n` to the counter `index`. Any context.
    ///
    /// First to the values themselves: see [`Endpoint::leave_apart`].
    fn add(&self, index: usize, n: u64) {
        self.values.add(index, n);
        self.endpoint.counters.of_qps.apart.add(index, n);
    }

    fn add_to_plane(&self, plane: usize, what: usize, n: u64) {
        if plane < MAX_PLANES {
            self.add(PLANES + BY_PLANE * plane + what, n);
        }
    }

    /// Packets were sent for the first time, with that much payload.
    pub(super) fn sent(&self, plane: Option<u8>, packets: u64, bytes: u64) {
        self.add(TX_PACKETS, packets);
        self.add(TX_BYTES, bytes);
        if let Some(plane) = plane {
            self.add_to_plane(plane.into(), PLANE_PACKETS, packets);
            self.add_to_plane(plane.into(), PLANE_BYTES, bytes);
        }
    }

    /// A packet was sent again.
    pub(super) fn sent_again(&self, plane: Option<u8>, cause: LossCause) {
        let counter = match cause {
            LossCause::Gap => GAP,
            LossCause::Probe => PROBE,
            LossCause::Timeout => TIMEOUT,
        };
        self.add(counter, 1);
        if let Some(plane) = plane {
            self.add_to_plane(plane.into(), PLANE_RETRANSMITS, 1);
        }
    }

    /// It turns out that so many packets need not have been sent again.
    pub(super) fn spurious(&self, n: u64) {
        self.add(SPURIOUS, n);
    }

    /// A packet came for the first time.
    pub(super) fn received(&self, plane: Option<usize>, arrival: Arrival) {
        self.add(RX_PACKETS, 1);
        if arrival.ce {
            self.add(RX_MARKS, 1);
        }
        if arrival.local {
            self.add(RX_LOCAL, 1);
        }
        if let Some(plane) = plane {
            self.add_to_plane(plane, PLANE_RECEIVED, 1);
        }
    }

    /// A request was taken, refused, or put off.
    pub(super) fn treated(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Accept => {}
            Outcome::Refuse(nak) => {
                self.add(REFUSED, 1);
                if nak.code == NakCode::Rnr {
                    self.add(ALL + RNR_SENT, 1);
                }
            }
            Outcome::Later => self.aborted(),
        }
    }

    /// A packet could not be taken, and is to come again.
    pub(super) fn aborted(&self) {
        self.add(RX_ABORTED, 1);
    }

    /// The peer had no receive for a message.
    pub(super) fn not_ready(&self) {
        self.add(ALL + RNR_RECEIVED, 1);
    }

    /// Datagrams were sent.
    pub(super) fn datagrams_sent(&self, n: u64) {
        self.add(TX_DATAGRAMS, n);
    }

    /// A datagram was taken.
    pub(super) fn datagram_received(&self) {
        self.add(RX_DATAGRAMS, 1);
    }

    /// A datagram was dropped.
    pub(super) fn datagram_dropped(&self, why: super::counters::Drop) {
        use super::counters::Drop;
        let counter = match why {
            Drop::QKey => Q_KEY,
            Drop::NoReceive => NO_RECEIVE,
            Drop::DatagramLength => LENGTH,
            _ => return,
        };
        self.add(counter, 1);
    }
}

impl Endpoint {
    /// One more RNR NAK, [`RNR_RECEIVED`] or [`RNR_SENT`].
    pub(super) fn count_rnr(&self, which: usize) {
        self.counters.of_qps.more.inc(which);
    }

    /// Fills in what [`MORE_NAMES`] names, and takes from all values what went to counters that
    /// queue pairs are bound to: ib_core adds those, present and past, itself.
    ///
    /// What is taken here is in the counters already when ib_core reads them after this, so their
    /// sum never falls short of what was counted before.
    pub(crate) fn leave_apart(&self, names: &mut [u64], more: &mut [u64]) {
        let totals = &self.counters.of_qps;
        for (i, out) in more.iter_mut().enumerate() {
            *out = totals.more.sum(i);
        }
        for (i, value) in Iterator::chain(names.iter_mut(), more).enumerate() {
            *value = value.saturating_sub(totals.apart.sum(i));
        }
    }
}
