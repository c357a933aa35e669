// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! libibverbs provider for MetaRoCE devices.
//!
//! Objects are created and destroyed by the kernel module through uverbs. Work requests and
//! completions go through rings in memory shared with it: posting writes a slot and makes a system
//! call only if the ring says that the kernel sleeps; polling makes none.
//!
//! # Layers
//!
//! * [`bindings`]: generated from rdma-core's and the module's headers.
//! * [`abi`], [`errno`], [`object`], [`mapping`], [`lock`]: what wraps the bindings.
//! * [`send`], [`recv`], [`completion`]: the queues, with their slots' encoding.
//! * [`cq`], [`cq_ex`], [`qp`], [`qp_ex`], [`pd`], [`td`], [`mr`], [`mw`], [`srq`], [`ah`],
//!   [`context`]: the verbs, one object a file.
//! * [`dv`]: direct verbs, which applications call by name.
//! * [`driver`]: registration with libibverbs.
//!
//! # Panics
//!
//! None is reachable: a library must not take its process down. The crate is built with
//! `panic=abort`, so nothing unwinds into C if that should be wrong.

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]

mod abi;
mod ah;
mod bindings;
mod completion;
mod context;
mod cq;
mod cq_ex;
mod driver;
mod dv;
mod errno;
mod lock;
mod mapping;
mod mr;
mod mw;
mod object;
mod pd;
mod post;
mod qp;
mod qp_ex;
mod recv;
mod send;
mod srq;
mod td;
mod wr;

#[cfg(test)]
mod tests;
