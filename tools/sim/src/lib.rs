// SPDX-License-Identifier: GPL-2.0

//! Simulation of the transport.
//!
//! The very files of the module run here, on virtual time and a seed, on networks of any size.
//!
//! * [`endpoint`]: one end of a connection, driven as a datapath does it; also used by the tests of
//!   the transport;
//! * [`fabric`]: planes as fat trees with ECMP, marking and tail drop;
//! * [`world`]: hosts with connections on a fabric, and the event loop;
//! * [`rc`]: the baseline, go-back-N on a single path with DCQCN;
//! * [`ideal`]: what a perfect network and transport would do;
//! * [`scenario`]: what is simulated and measured.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod calendar;
pub mod endpoint;
pub mod fabric;
pub mod ideal;
pub mod measure;
pub mod messages;
pub mod net;
pub mod rc;
pub mod report;
pub mod rng;
pub mod scenario;
pub mod time;
pub mod transport;
pub mod world;
