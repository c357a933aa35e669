// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::{
    quota::{
        Kind,
        Permit, //
    },
    Device, //
};
use crate::rdma::{
    self,
    udata::UserData, //
};
use kernel::prelude::*;

/// A protection domain: a number, which ib_core gives.
pub(crate) struct Pd {
    _permit: Permit,
}

/// Makes a domain.
pub(super) fn alloc(dev: &rdma::Device<Device>, mut udata: UserData<'_, Device>) -> Result<Pd> {
    udata.no_request()?;
    let permit = Permit::new(&dev.quotas, Kind::Pd)?;
    udata.no_response()?;
    Ok(Pd { _permit: permit })
}
