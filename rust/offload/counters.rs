// SPDX-License-Identifier: GPL-2.0

//! What an RDMA device counts of offload, and the names under which `rdma statistic` shows it.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// Names of the counters, in the order in which they are filled in: those of [`Count`], then those
/// of the device itself.
pub(crate) const NAMES: [&CStr; COUNTS + DEVICE] = [
    c"ofl_qp_active",
    c"ofl_qp_add",
    c"ofl_qp_del",
    c"ofl_add_fallback",
    c"ofl_add_fail",
    c"ofl_faults",
    c"ofl_qp_lost",
    c"ofl_export_ok",
    c"ofl_export_fail",
    c"ofl_import",
    c"ofl_tx_packets",
    c"ofl_tx_bytes",
    c"ofl_rx_packets",
    c"ofl_rx_bytes",
    c"ofl_retransmits",
    c"ofl_rx_errors",
];

/// Numbers of a device, `struct metaroce_ofl_stats`.
pub(super) const DEVICE: usize = 6;

/// A counter.
#[derive(Clone, Copy)]
pub(super) enum Count {
    /// Queue pairs at a device now. This one goes down as well.
    Active,
    /// Queue pairs that a device has taken.
    Add,
    /// Queue pairs that it has given up.
    Del,
    /// Queue pairs that fell back to software.
    Fallback,
    /// Queue pairs that nobody carries.
    Fail,
    /// Devices that failed or left while they had queue pairs.
    Fault,
    /// Queue pairs that were lost by that.
    Lost,
    /// Queue pairs that went on in software.
    Exported,
    /// Queue pairs that could not.
    NotExported,
    /// Queue pairs that went on at a device.
    Imported,
}

pub(super) const COUNTS: usize = Count::Imported as usize + 1;

/// The counters of an RDMA device.
pub(super) struct Counts([Atomic<u64>; COUNTS]);

impl Counts {
    pub(super) fn new() -> Self {
        Self([const { Atomic::new(0) }; COUNTS])
    }

    pub(super) fn inc(&self, count: Count) {
        if let Some(c) = self.0.get(count as usize) {
            c.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn dec(&self, count: Count) {
        if let Some(c) = self.0.get(count as usize) {
            c.fetch_sub(1, Relaxed);
        }
    }

    /// Returns the values, in the order of [`NAMES`].
    pub(super) fn values(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|c| c.load(Relaxed))
    }
}
