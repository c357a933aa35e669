// SPDX-License-Identifier: GPL-2.0

//! MetaRoCE, a multipath RDMA transport for lossy Ethernet, as an RDMA provider.

use kernel::prelude::*;

pub mod net;
pub mod rdma;
pub mod sync;

mod datapath;
mod provider;

module! {
    type: MetaRoce,
    name: "metaroce",
    authors: ["MetaRoCE for Linux contributors"],
    description: "MetaRoCE RDMA provider",
    license: "GPL",
    alias: ["rdma-link-metaroce"],
}

#[pin_data]
struct MetaRoce {
    /// Tells of the network devices below our devices. Goes first: nobody may hear of a device that
    /// is just going.
    watch: Pin<KBox<net::notifier::NetdevNotifier<provider::Watch>>>,
    /// Removes all devices when it is dropped.
    #[pin]
    links: rdma::link::Registration<provider::Device>,
}

impl kernel::InPlaceModule for MetaRoce {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            links <- rdma::link::Registration::new(),
            watch: provider::Watch::start()?,
        })
    }
}
