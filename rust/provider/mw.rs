// SPDX-License-Identifier: GPL-2.0

//! Memory windows.

use super::{
    quota::{
        Kind,
        Permit, //
    },
    Device, //
};
use crate::{
    datapath,
    rdma::{
        self,
        ops::MwType,
        udata::UserData, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A memory window.
pub(crate) struct Mw {
    mw: Arc<datapath::mw::Mw>,
    _permit: Permit,
}

/// Makes a window; returns its key, too.
pub(super) fn alloc(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    mw_type: MwType,
    mut udata: UserData<'_, Device>,
) -> Result<(Mw, u32)> {
    udata.no_request()?;
    udata.no_response()?;
    let kind = match mw_type {
        MwType::One => datapath::mw::Kind::One,
        MwType::Two => datapath::mw::Kind::Two,
    };
    if !dev.offload.may_have_windows(pd.number()) {
        return Err(EOPNOTSUPP);
    }
    let permit = Permit::new(&dev.quotas, Kind::Mw)?;
    let mw = dev.endpoint.mws().alloc(pd.number(), kind)?;
    let key = mw.key();
    let mw = Mw {
        mw,
        _permit: permit,
    };
    Ok((mw, key))
}

impl Mw {
    /// Makes the window's key invalid.
    pub(super) fn dealloc(&self, dev: &rdma::Device<Device>) {
        dev.endpoint.mws().dealloc(&self.mw);
    }
}
