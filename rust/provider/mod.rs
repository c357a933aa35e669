// SPDX-License-Identifier: GPL-2.0

//! The RDMA provider: what ib_core asks of a MetaRoCE device, one verbs object a file.
//!
//! Here requests are checked and their resources made; how a device carries work out is the
//! business of [`crate::datapath`].

mod ah;
mod caps;
mod counters;
mod cq;
mod debugfs;
mod device;
mod dv;
mod link;
mod mr;
mod mw;
mod pd;
mod planes;
mod port;
mod qp;
mod quota;
mod restrack;
mod srq;
mod sysfs;
mod ucontext;

pub(crate) use self::{
    device::Device,
    link::Watch, //
};
