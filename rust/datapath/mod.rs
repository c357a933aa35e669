// SPDX-License-Identifier: GPL-2.0

//! The data path: glue between verbs, the transport and the network.
//!
//! [`proto`] decides; this module carries out: doorbells become packets ([`tx`]), packets become
//! bytes in user memory and completions ([`rx`]), timers become events.
//!
//! # Locks
//!
//! A queue pair's lock, then its connection's; a queue pair's lock, then a completion queue's. The
//! queue of a connection's waiting queue pairs has a lock of its own, which is taken last. All are
//! spinlocks taken with bottom halves disabled: everything here runs in softirq context or in
//! process context, and most of it in both. Only what users in the kernel call in any context, the
//! posting of work ([`post`]) and the completion queues ([`cq`]), has locks that disable interrupts.
//!
//! # Lifetime
//!
//! Packets, timers and keys find objects through [`IdTable`](crate::sync::id_table::IdTable)s.
//! What is found is used and dropped with bottom halves disabled, and removal from a table waits
//! for all such sections to end. So the last reference to anything goes away in process context,
//! in the verb that destroys it.

pub(crate) mod ah;
mod bytes;
mod clock;
mod completion;
pub(crate) mod conn;
pub(crate) mod counters;
pub(crate) mod cq;
pub(crate) mod defaults;
mod depart;
pub(crate) mod endpoint;
pub(crate) mod fast;
pub(crate) mod foreign;
mod gids;
pub(crate) mod handover;
pub(crate) mod host;
pub(crate) mod limits;
mod local;
mod memory;
mod migration;
pub(crate) mod mr;
pub(crate) mod mw;
mod notice;
mod order;
pub(crate) mod parts;
pub(crate) mod plane;
pub(crate) mod post;
pub(crate) mod qp;
pub(crate) mod qp_counters;
mod recv_queue;
mod requester;
mod responder;
mod rx;
mod shares;
pub(crate) mod srq;
pub(crate) mod transfer;
mod tx;
mod uc;
pub(crate) mod ud;
mod view;
pub(crate) mod wishes;
mod work_queue;
pub(crate) mod wqe;

use clock::now;
