// SPDX-License-Identifier: GPL-2.0

//! Loss detection and timers: the rules, apart from the state that they run on.
//!
//! * [`rtt`]: round-trip estimate;
//! * [`rto`]: when to stop waiting ([`rto::Timers`]);
//! * [`loss`]: what an acknowledgement proves lost;
//! * [`reordering`]: what it does not prove on paths that turn out not to be FIFO;
//! * [`share`]: what share of packets is.

pub mod loss;
pub mod reordering;
pub mod rto;
pub mod rtt;
pub mod share;
#[cfg(test)]
mod tests;

pub use loss::{is_lost, LossCause, Transmission};
pub use reordering::Reordering;
pub use rto::Timers;
pub use rtt::Rtt;
pub use share::LossShare;
