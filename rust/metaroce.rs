// SPDX-License-Identifier: GPL-2.0

//! MetaRoCE, a multipath RDMA transport for lossy Ethernet, as an RDMA provider.

use kernel::prelude::*;

pub mod net;
pub mod rdma;
pub mod sync;

mod datapath;
mod offload;
mod params;
mod provider;

module! {
    type: MetaRoce,
    name: "metaroce",
    authors: ["MetaRoCE for Linux contributors"],
    description: "MetaRoCE RDMA provider",
    license: "GPL",
    alias: ["rdma-link-metaroce"],
    imports_ns: ["DMA_BUF"],
    params: {
        port: u16 {
            default: 24791,
            description: "UDP port of links that are added from now on",
        },
        paths_per_plane: u8 {
            default: 8,
            description: "Paths of a connection per plane, 1 to 16",
        },
        window: u32 {
            default: 64,
            description: "Packets in flight per path with cc=fixed, 1 to 256",
        },
        crc: u8 {
            default: 1,
            description: "Whether to protect packets by a CRC32C of their own",
        },
    },
}

#[pin_data]
struct MetaRoce {
    /// Tells of the network devices below our devices. Goes first: nobody may hear of a device that
    /// is just going.
    watch: Pin<KBox<net::notifier::NetdevNotifier<provider::Watch>>>,
    /// Removes all devices when it is dropped.
    #[pin]
    links: rdma::link::Registration<provider::Device>,
    /// Closes sockets in time. Goes last: its own end looks to it like that of all namespaces.
    #[pin]
    namespaces: net::namespace::Registration<datapath::host::Namespaces>,
}

impl kernel::InPlaceModule for MetaRoce {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // A name that is not known is told at once, not when a device is added.
            _: { params::default_law().map(drop)? },
            _: { params::default_policy().map(drop)? },
            namespaces <- net::namespace::Registration::new(),
            links <- rdma::link::Registration::new(),
            watch: provider::Watch::start()?,
        })
    }
}
