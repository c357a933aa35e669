// SPDX-License-Identifier: GPL-2.0

//! User contexts.

use super::Device;
use crate::{
    datapath::limits,
    rdma::udata::UserData, //
};
use bindings::{
    metaroce_alloc_ucontext_req,
    metaroce_alloc_ucontext_resp, //
};
use kernel::prelude::*;

/// What a process has of a device. ib_core keeps all there is to keep.
pub(crate) struct UserContext;

/// Makes a context for a user-space provider that speaks our ABI.
pub(super) fn alloc(mut udata: UserData<'_, Device>) -> Result<UserContext> {
    let req: metaroce_alloc_ucontext_req =
        udata.request(size_of::<metaroce_alloc_ucontext_req>())?;
    if req.abi_version != bindings::METAROCE_ABI_VERSION || req.reserved != 0 {
        return Err(EINVAL);
    }
    udata.respond(&metaroce_alloc_ucontext_resp {
        max_inline: limits::MAX_INLINE,
        max_sge: limits::MAX_SGE,
        ..Default::default()
    })?;
    Ok(UserContext)
}
