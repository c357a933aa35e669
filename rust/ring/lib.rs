// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The rings that the kernel module and the user-space provider share.
//!
//! One piece of code for both sides: index arithmetic, memory ordering and the doorbell protocol
//! are written here once, and neither side can drift from the other. The memory itself is reached
//! through [`Shared`], which the kernel implements over the pages that it maps to user space and
//! the provider over its mapping of them.
//!
//! # Trust
//!
//! Each side keeps the index that it owns in private memory ([`Producer`], [`Consumer`]) and only
//! publishes copies of it. What it loads from the other side is checked against the private state
//! before use, and a value that no honest peer can have stored is [`Runaway`]. So a process that
//! scribbles over its ring can break its own queue and nothing else.
//!
//! # Roles
//!
//! | ring | producer | consumer | doorbell |
//! | --- | --- | --- | --- |
//! | SQ | user space | kernel | [`Producer::publish_with_doorbell`], [`Consumer::prepare_idle`] |
//! | RQ | user space | kernel, when a packet needs a receive | none |
//! | CQ | kernel | user space | none (completion channels are events of their own) |
//!
//! # Examples
//!
//! The kernel takes work requests off a send queue, and retires them when they complete:
//!
//! ```text
//! consumer.resume(&ring)?;
//! loop {
//!     while let Some(slot) = consumer.fetch(&ring)? {
//!         slot.read(&ring, 0, &mut wqe).ok_or(Error::OutOfBounds)?;
//!         ...                                 // later: consumer.retire(1), consumer.publish(&ring)
//!     }
//!     if consumer.prepare_idle(&ring)? == Idle::Sleep {
//!         break;                              // the next doorbell starts over
//!     }
//! }
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

mod consumer;
mod error;
mod geometry;
pub mod layout;
mod migration;
mod producer;
mod shared;

pub use consumer::{Consumer, Idle};
pub use error::{Error, Runaway};
pub use geometry::{Geometry, Slot};
pub use migration::Migration;
pub use producer::Producer;
pub use shared::Shared;
