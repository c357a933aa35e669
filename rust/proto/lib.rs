// SPDX-License-Identifier: GPL-2.0

//! The MetaRoCE transport, sans-IO.
//!
//! This crate holds every rule of the protocol and nothing else. It names no kernel type, reads no
//! clock, draws no random number, allocates nothing and cannot panic: callers hand in storage, the
//! time, packets and events, and get back packets to send and things to do. The kernel module, the
//! host tests, the simulator and the conformance peer compile the same files.
//!
//! Call contract, by owner of the lock that guards the object:
//!
//! | object | what it is | guarded by |
//! | --- | --- | --- |
//! | [`connection::Connection`] | paths, handshake, acknowledgements, scheduling | the connection's lock |
//! | [`stream::SendStream`] | the requester half of one RC QP | the QP's lock |
//! | [`stream::RecvStream`] | the responder half of one RC QP | the QP's lock |
//!
//! The two levels never call each other. What crosses between them is a [`packet::TxDesc`]: the
//! stream produces it, the connection gives it a path and a PSN and keeps it until the peer
//! acknowledges that PSN, and hands it back to the stream then. A path delivers each PSN exactly
//! once, so a stream counts packets and never sees a duplicate.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(test)]
extern crate std;

pub mod bits;
pub mod congestion;
pub mod connection;
pub mod fairshare;
pub mod packet;
pub mod path;
pub mod patience;
pub mod psn;
pub mod recovery;
pub mod state;
pub mod stream;
pub mod time;
pub mod wire;
