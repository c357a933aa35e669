// SPDX-License-Identifier: GPL-2.0

//! The counters that `rdma statistic show` and sysfs have of a port, and those that sysfs alone has,
//! of the device; and counters that queue pairs are bound to.

use super::Device;
use crate::{
    datapath::{
        counters::{
            NAMES,
            PATH_NAMES, //
        },
        qp_counters::{
            self,
            QpCounters,
            MORE_NAMES, //
        }, //
    },
    offload::counters::NAMES as OFFLOAD_NAMES,
    rdma::{
        self,
        ops::PortCounters,
        stats::CounterDesc, //
    },
    sync::id_table::IdTable, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Descriptions of the counters, in the order in which the data path fills them in.
pub(super) static DESCS: [CounterDesc; ALL.len()] = CounterDesc::list(&ALL);

/// Where the names of offload begin, and after them those that have no room in a port's message.
const OFFLOAD: usize = NAMES.len();
const MORE: usize = OFFLOAD + OFFLOAD_NAMES.len();

/// The names: those of the data path, then those of offload, then those beside.
const ALL: [&CStr; MORE + MORE_NAMES.len()] = {
    let mut all = [c""; MORE + MORE_NAMES.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < OFFLOAD {
            NAMES[i]
        } else if i < MORE {
            OFFLOAD_NAMES[i - OFFLOAD]
        } else {
            MORE_NAMES[i - MORE]
        };
        i += 1;
    }
    all
};

/// Whether `rdma statistic` shows the counter of this index for the port.
pub(super) fn is_of_port(index: usize) -> bool {
    index < MORE
}

/// Whether the counter of this index is counted for queue pairs.
pub(super) fn is_of_qp(index: usize) -> bool {
    index >= MORE || (index < OFFLOAD && qp_counters::is_of_qp(index))
}

/// Splits values as [`ALL`] is: the data path's, those of offload, those beside.
fn split(values: &mut [u64]) -> Option<(&mut [u64], &mut [u64], &mut [u64])> {
    let (names, rest) = values.split_at_mut_checked(OFFLOAD)?;
    let (offload, more) = rest.split_at_mut_checked(MORE - OFFLOAD)?;
    Some((names, offload, more))
}

/// Descriptions of the counters of paths, likewise.
pub(super) static PATH_DESCS: [CounterDesc; PATH_NAMES.len()] = CounterDesc::list(&PATH_NAMES);

/// Fills the values of the counters of paths.
pub(super) fn fill_paths(dev: &rdma::Device<Device>, values: &mut [u64]) {
    dev.endpoint.path_counters(values);
}

/// Fills the values of the counters, without what is, or was, counted for queue pairs by counters
/// of their own.
pub(super) fn fill(dev: &rdma::Device<Device>, values: &mut [u64]) {
    if let Some((names, offload, more)) = split(values) {
        dev.endpoint.counters(names);
        dev.endpoint.leave_apart(names, more);
        dev.offload.counters(offload);
    }
}

/// Returns the standard counters of the port. What NICs carry is not among them, and faulty packets
/// are those of the endpoint's network namespace and UDP port, which belong to no device.
pub(super) fn of_port(dev: &rdma::Device<Device>) -> PortCounters {
    let traffic = dev.endpoint.traffic();
    PortCounters {
        xmit_octets: traffic.octets_sent,
        rcv_octets: traffic.octets_received,
        xmit_packets: traffic.packets_sent,
        rcv_packets: traffic.packets_received,
        link_downed: dev.planes.times_down(),
        rcv_errors: traffic.faulty,
        xmit_discards: traffic.not_sent,
        buffer_overruns: traffic.overruns,
    }
}

/// The numbers of the counters of a device that queue pairs are bound to.
pub(super) type Numbers = IdTable<QpCounters>;

/// Not so many that numbers come back soon.
const MAX_NUMBER: u32 = 1 << 24;

/// A counter that queue pairs are bound to.
pub(crate) struct Counter {
    numbers: Arc<Numbers>,
    number: u32,
    counters: Arc<QpCounters>,
}

impl Counter {
    /// Makes a counter; returns its number, too.
    pub(super) fn new(dev: &rdma::Device<Device>) -> Result<(Self, u32)> {
        let counters = QpCounters::new(&dev.endpoint)?;
        let number = dev.qp_counters.alloc(1..MAX_NUMBER, counters.clone())?;
        let counter = Self {
            numbers: dev.qp_counters.clone(),
            number,
            counters,
        };
        Ok((counter, number))
    }

    /// Returns what a queue pair counts by.
    pub(super) fn counters(&self) -> &Arc<QpCounters> {
        &self.counters
    }

    /// Fills the values.
    pub(super) fn fill(&self, values: &mut [u64]) {
        if let Some((names, _, more)) = split(values) {
            self.counters.fill(names, more);
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.numbers.remove(self.number);
    }
}
