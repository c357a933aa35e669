// SPDX-License-Identifier: GPL-2.0

//! A NIC without hardware, that carries queue pairs for MetaRoCE.
//!
//! It registers for any network device as the driver of a NIC does, by
//! `include/metaroce/offload.h` alone. Its firmware is the data path that the software provider
//! has, compiled once more into this module: with queue pairs, connections, memory tables, timers
//! and a worker of its own, it reads work requests from the rings and sends through the stack of
//! the host, for want of a wire. `Documentation/offload.rst` tells what can be set.

use kernel::{
    prelude::*,
    sync::Arc, //
};

#[path = "../net/mod.rs"]
pub mod net;
#[path = "../sync/mod.rs"]
pub mod sync;

/// What the data path needs of the verbs: attributes and memory. Events go to the core.
#[path = "../rdma"]
// ib_core is not talked to.
#[allow(dead_code)]
pub mod rdma {
    pub mod attr;
    #[path = "../sim/dma_buf.rs"]
    mod dma_buf;
    #[path = "../sim/event.rs"]
    pub mod event;
    pub mod event_kind;
    pub mod gid;
    #[path = "shared_mem.rs"]
    pub mod mmap;
    #[path = "../sim/odp.rs"]
    mod odp;
    mod publish;
    pub mod qp;
    pub mod umem;
    pub mod work;
}

/// The data path, with completion queues that belong to the core.
#[path = "../datapath"]
// What connects by address, or is for datagrams and users in the kernel, is not used here.
#[allow(dead_code, unused_imports)]
mod datapath {
    mod ah;
    mod bytes;
    mod clock;
    mod completion;
    pub(crate) mod conn;
    pub(crate) mod counters;
    #[path = "../sim/cq.rs"]
    pub(crate) mod cq;
    mod defaults;
    mod depart;
    mod embedded;
    pub(crate) mod endpoint;
    mod fast;
    mod foreign;
    mod gids;
    pub(crate) mod host;
    pub(crate) mod limits;
    mod local;
    mod memory;
    mod migration;
    mod mr;
    mod mw;
    mod order;
    pub(crate) mod parts;
    pub(crate) mod plane;
    pub(crate) mod qp;
    mod qp_counters;
    mod recv_queue;
    mod requester;
    mod responder;
    pub(crate) mod rx;
    mod shares;
    mod srq;
    mod transfer;
    mod tx;
    mod uc;
    mod ud;
    mod view;
    pub(crate) mod wishes;
    mod work_queue;
    mod wqe;

    use clock::now;
}

mod abi;
mod caps;
mod device;
mod files;
mod firmware;
mod inbox;
mod knobs;
#[path = "../nic/registration.rs"]
mod registration;
mod registry;

module! {
    type: Sim,
    name: "metaroce_sim",
    authors: ["MetaRoCE for Linux contributors"],
    description: "NIC without hardware for MetaRoCE offload",
    license: "GPL",
    params: {
        port: u16 {
            default: 24791,
            description: "UDP port of the connections that it takes",
        },
    },
}

struct Sim {
    /// Goes first: who writes to a file makes devices.
    _files: Pin<KBox<files::Root>>,
    registry: Arc<registry::Registry>,
}

impl kernel::Module for Sim {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let registry = registry::Registry::new()?;
        Ok(Self {
            _files: KBox::pin_init(files::Root::new(registry.clone()), GFP_KERNEL)?,
            registry,
        })
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.registry.close();
    }
}
