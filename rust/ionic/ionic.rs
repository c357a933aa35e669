// SPDX-License-Identifier: GPL-2.0

//! Offload to AMD Pensando NICs, as far as their public interface goes, which is not far.
//!
//! The NIC's own driver, `ionic`, and its firmware's public interface have no commands for
//! MetaRoCE, so this registers each network device of such a NIC with no capability at all: queue
//! pairs that are to be offloaded run in software and are counted. What is here is the frame for
//! the rest: [`watch`] follows the NIC through resets, [`codec`] is where commands would be encoded.
//! No private header of `ionic` is used, and no command is sent.

use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Of the networking, network devices.
#[path = "../net"]
#[allow(dead_code)]
pub mod net {
    pub mod addr;
    pub mod namespace;
    pub mod netdev;
    pub mod notifier;
}

/// Of the rest, mutexes and work.
#[path = "../sync"]
#[allow(dead_code)]
pub mod sync {
    pub mod global_mutex;
    pub mod work;
}

mod abi;
mod auxiliary;
mod cards;
mod codec;
#[path = "../nic/registration.rs"]
mod registration;
mod watch;

module! {
    type: Ionic,
    name: "metaroce_ionic",
    authors: ["MetaRoCE for Linux contributors"],
    description: "MetaRoCE offload to AMD Pensando NICs",
    license: "GPL",
    params: {
        take_rdma: u8 {
            default: 0,
            description: "Whether to take the NIC's RDMA function, which its RoCE driver then has not",
        },
    },
}

/// The parts go in this order: who tells of changes first.
#[pin_data]
struct Ionic {
    _watch: Pin<KBox<net::notifier::NetdevNotifier<watch::Watch>>>,
    #[pin]
    _metaroce: auxiliary::Registration<auxiliary::MetaRoce>,
    _rdma: Option<Pin<KBox<auxiliary::Registration<auxiliary::Rdma>>>>,
    _end: cards::End,
}

impl kernel::InPlaceModule for Ionic {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _end: cards::End::new()?,
            _rdma: match module_parameters::take_rdma.value() {
                0 => None,
                _ => Some(KBox::pin_init(
                    auxiliary::Registration::new(c"metaroce_ionic_rdma", module),
                    GFP_KERNEL,
                )?),
            },
            _metaroce <- auxiliary::Registration::new(c"metaroce_ionic", module),
            _watch: net::notifier::NetdevNotifier::new(Arc::new(watch::Watch, GFP_KERNEL)?)?,
        })
    }
}
