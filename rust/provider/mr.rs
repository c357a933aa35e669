// SPDX-License-Identifier: GPL-2.0

//! Memory regions.

use super::{
    quota::{
        Kind,
        Permit, //
    },
    Device, //
};
use crate::{
    datapath::{
        self,
        limits, //
    },
    rdma::{
        self,
        ops::{
            MrInit,
            MrKeys, //
        },
        udata::UserData,
        umem::Umem, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Access that a region can allow.
const ACCESS: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
    | bindings::ib_access_flags_IB_ACCESS_MW_BIND;

/// Wishes that a device may ignore.
const OPTIONAL: u32 = bindings::ib_access_flags_IB_ACCESS_OPTIONAL;

/// A memory region.
pub(crate) struct Mr {
    mr: Arc<datapath::mr::Mr>,
    _permit: Permit,
}

/// Pins a range of the process's memory and makes a region of it.
pub(super) fn register(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    init: &MrInit,
    mut udata: UserData<'_, Device>,
) -> Result<(Mr, MrKeys)> {
    udata.no_request()?;
    if init.access_flags & !(ACCESS | OPTIONAL) != 0 {
        return Err(EOPNOTSUPP);
    }
    if init.length > limits::MAX_MR_SIZE || init.virt_addr.checked_add(init.length).is_none() {
        return Err(EINVAL);
    }
    let access = init.access_flags & ACCESS;
    let permit = Permit::new(&dev.quotas, Kind::Mr)?;
    let umem = Umem::pin(dev, init.start, init.length, access)?;
    // Before the region exists, for nothing may fail after that.
    udata.no_response()?;
    let mr = dev
        .endpoint
        .reg_mr(pd.number(), umem, init.virt_addr, init.length, access)?;
    let keys = MrKeys {
        lkey: mr.key(),
        rkey: mr.key(),
    };
    let mr = Mr {
        mr,
        _permit: permit,
    };
    Ok((mr, keys))
}

/// Makes a region of all memory that the kernel has mapped, for a user there: addresses are the
/// kernel's own, which is what ib_core's DMA mapping gives for a device without DMA.
pub(super) fn all_memory(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    access: u32,
) -> Result<(Mr, MrKeys)> {
    if access & !(ACCESS | OPTIONAL) != 0 {
        return Err(EOPNOTSUPP);
    }
    let permit = Permit::new(&dev.quotas, Kind::Mr)?;
    let mr = dev
        .endpoint
        .reg_mr(pd.number(), Umem::kernel(), 0, u64::MAX, access & ACCESS)?;
    let keys = MrKeys {
        lkey: mr.key(),
        rkey: mr.key(),
    };
    let mr = Mr {
        mr,
        _permit: permit,
    };
    Ok((mr, keys))
}

impl Mr {
    /// Makes the region's keys invalid, unless memory windows are bound to it.
    pub(super) fn deregister(&self, dev: &rdma::Device<Device>) -> Result {
        dev.endpoint.dereg_mr(&self.mr)
    }

    /// Returns how many memory windows are bound to the region.
    pub(super) fn windows(&self) -> u32 {
        self.mr.windows()
    }
}
