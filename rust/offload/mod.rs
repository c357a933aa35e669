// SPDX-License-Identifier: GPL-2.0

//! The hook by which drivers of NICs carry queue pairs in hardware.
//!
//! `Documentation/offload.rst` tells what it is for, `include/metaroce/offload.h` is the interface
//! with drivers. A [`Front`] is a connected queue pair as verbs see it; it has its work done by a
//! [`Backend`], which is the data path or a queue pair of a [`Nic`](nic::Nic).
//!
//! # Locks
//!
//! The mutex of a [`Front`], then that of a registration, under which a driver's operations are
//! called; then the locks of the data path. The RTNL is never held: what a notification leads to is
//! done by a worker.
//!
//! [`abi`] and [`exports`] are the abstraction layer: all `unsafe` is there.

mod abi;
mod backend;
mod caps;
pub(crate) mod counters;
mod exports;
mod front;
mod nic;
mod objects;
pub(crate) mod policy;
mod registry;
mod site;

pub(crate) use self::{
    backend::Carrier,
    front::{
        Front,
        Origin, //
    },
    registry::netdev_gone,
    site::Site, //
};
