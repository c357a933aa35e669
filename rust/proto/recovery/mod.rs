// SPDX-License-Identifier: GPL-2.0

//! Loss detection and timers: the rules, apart from the state that they run on.
//!
//! * [`rtt`]: round-trip estimate;
//! * [`rto`]: when to stop waiting ([`rto::Timers`]);
//! * [`loss`]: what an acknowledgement proves lost.

pub mod loss;
pub mod rto;
pub mod rtt;
#[cfg(test)]
mod tests;

pub use loss::{is_lost, LossCause, Transmission};
pub use rto::Timers;
pub use rtt::Rtt;
