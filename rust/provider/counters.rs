// SPDX-License-Identifier: GPL-2.0

//! The counters that `rdma statistic show` and sysfs have of a port, and those that sysfs alone has,
//! of the device.

use super::Device;
use crate::{
    datapath::counters::{
        NAMES,
        PATH_NAMES, //
    },
    rdma::{
        self,
        stats::CounterDesc, //
    }, //
};

/// Descriptions of the counters, in the order in which the data path fills them in.
pub(super) static DESCS: [CounterDesc; NAMES.len()] = CounterDesc::list(&NAMES);

/// Descriptions of the counters of paths, likewise.
pub(super) static PATH_DESCS: [CounterDesc; PATH_NAMES.len()] = CounterDesc::list(&PATH_NAMES);

/// Fills the values of the counters of paths.
pub(super) fn fill_paths(dev: &rdma::Device<Device>, values: &mut [u64]) {
    dev.endpoint.path_counters(values);
}

/// Fills the values of the counters.
pub(super) fn fill(dev: &rdma::Device<Device>, values: &mut [u64]) {
    dev.endpoint.counters(values);
}
