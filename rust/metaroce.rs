// SPDX-License-Identifier: GPL-2.0

//! MetaRoCE, a multipath RDMA transport for lossy Ethernet, as an RDMA provider.

use kernel::prelude::*;

pub mod rdma;
pub mod sync;

module! {
    type: MetaRoce,
    name: "metaroce",
    authors: ["MetaRoCE for Linux contributors"],
    description: "MetaRoCE RDMA provider",
    license: "GPL",
    alias: ["rdma-link-metaroce"],
}

struct MetaRoce;

impl kernel::Module for MetaRoce {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(MetaRoce)
    }
}
