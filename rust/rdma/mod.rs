// SPDX-License-Identifier: GPL-2.0

//! RDMA devices implemented in Rust.
//!
//! A driver implements [`Operations`], makes an [`UnregisteredDevice`] and registers it. From then
//! on ib_core calls the driver's operations with the [`Device`] and with the [`Object`]s (user
//! contexts, protection domains, completion queues, queue pairs, memory regions) whose memory
//! ib_core allocates and whose Rust part the driver returns from its `create` operations.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

pub mod attr;
pub mod debugfs;
pub mod device;
mod dma_buf;
pub mod event;
pub mod event_kind;
pub mod gid;
pub mod link;
pub mod methods;
pub mod mmap;
pub mod object;
mod odp;
pub mod ops;
pub mod param;
mod pin;
pub mod post;
mod publish;
pub mod qp;
pub mod restrack;
pub mod shared_mem;
pub mod stats;
pub mod sysfs;
pub mod udata;
pub mod umem;
pub mod wc;
pub mod work;

pub use self::{
    device::{
        Device,
        DeviceRef,
        UnregisteredDevice, //
    },
    object::{
        Ah,
        Cq,
        Mr,
        Mw,
        Object,
        Pd,
        Qp,
        Srq,
        UserContext, //
    },
    ops::Operations, //
};
