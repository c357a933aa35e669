// SPDX-License-Identifier: GPL-2.0

//! The counters that `rdma statistic show` and sysfs have of a port.

use super::Device;
use crate::{
    datapath::counters::NAMES,
    rdma::{
        self,
        stats::CounterDesc, //
    }, //
};

/// Descriptions of the counters, in the order in which the data path fills them in.
pub(super) static DESCS: [CounterDesc; NAMES.len()] = CounterDesc::list(&NAMES);

/// Fills the values of the counters.
pub(super) fn fill(dev: &rdma::Device<Device>, values: &mut [u64]) {
    dev.endpoint.counters(values);
}
