// SPDX-License-Identifier: GPL-2.0

//! The counters that `rdma statistic show` and sysfs have of a port, and those that sysfs alone has,
//! of the device.

use super::Device;
use crate::{
    datapath::counters::{
        NAMES,
        PATH_NAMES, //
    },
    offload::counters::NAMES as OFFLOAD_NAMES,
    rdma::{
        self,
        stats::CounterDesc, //
    }, //
};
use kernel::prelude::*;

/// Descriptions of the counters, in the order in which the data path fills them in.
pub(super) static DESCS: [CounterDesc; ALL.len()] = CounterDesc::list(&ALL);

/// The names: those of the data path, then those of offload.
const ALL: [&CStr; NAMES.len() + OFFLOAD_NAMES.len()] = {
    let mut all = [c""; NAMES.len() + OFFLOAD_NAMES.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < NAMES.len() {
            NAMES[i]
        } else {
            OFFLOAD_NAMES[i - NAMES.len()]
        };
        i += 1;
    }
    all
};

/// Descriptions of the counters of paths, likewise.
pub(super) static PATH_DESCS: [CounterDesc; PATH_NAMES.len()] = CounterDesc::list(&PATH_NAMES);

/// Fills the values of the counters of paths.
pub(super) fn fill_paths(dev: &rdma::Device<Device>, values: &mut [u64]) {
    dev.endpoint.path_counters(values);
}

/// Fills the values of the counters.
pub(super) fn fill(dev: &rdma::Device<Device>, values: &mut [u64]) {
    if let Some((datapath, offload)) = values.split_at_mut_checked(NAMES.len()) {
        dev.endpoint.counters(datapath);
        dev.offload.counters(offload);
    }
}
