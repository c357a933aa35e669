// SPDX-License-Identifier: GPL-2.0

//! MetaRoCE, a multipath RDMA transport for lossy Ethernet, as an RDMA provider.

use kernel::prelude::*;

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
        pr_info!(
            "an ib_device has {} bytes\n",
            core::mem::size_of::<bindings::ib_device>()
        );
        Ok(MetaRoce)
    }
}
