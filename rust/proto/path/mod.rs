// SPDX-License-Identifier: GPL-2.0

//! Paths: ordered packet sequences with a replaceable route.
//!
//! A path is two independent halves that share a number: [`tx::TxHalf`] sends on it and
//! [`rx::RxHalf`] receives what the peer sends on its path of the same number. PSNs and what is
//! outstanding belong to the path; where packets go just now is its [`Route`].

mod route;
mod rx;
mod stats;
#[cfg(test)]
mod tests;
mod tx;

pub use route::Route;
pub(crate) use rx::index;
pub use rx::{Arrival, Done, Received, Rx, RxHalf};
pub use stats::{RxStats, TxStats};
pub use tx::{AckOutcome, Acked, Expired, Tx, TxHalf, TxSlot};

use core::ops::DerefMut;

use crate::congestion::Controller;
use crate::psn::Psn;

/// Packets that a path can have between the oldest unacknowledged one and the newest: what the
/// receiver's vectors cover.
pub const SPAN: u32 = 256;

/// Slots of the span that only NAKs may use. Both directions may be full of packets that wait for
/// a NAK of the other direction to be released; with these slots the NAKs still get through.
pub const NAK_RESERVE: u32 = 16;

/// At least one packet in this many asks for an acknowledgement.
pub const ACK_EVERY: u32 = 32;

/// Both halves of a path. `S` holds [`SPAN`] slots, e.g. a `KVVec<TxSlot>` or a `Vec<TxSlot>`.
#[derive(Debug)]
pub struct Path<S> {
    /// The sending half.
    pub tx: TxHalf<S>,
    /// The receiving half.
    pub rx: RxHalf,
}

impl<S: DerefMut<Target = [TxSlot]>> Path<S> {
    /// Makes an idle path on `slots`. `None` if there are fewer than [`SPAN`] slots.
    ///
    /// The slots are not touched before something is sent; the path itself is below 1 KiB.
    pub fn new(slots: S) -> Option<Self> {
        Some(Path {
            tx: TxHalf::new(slots)?,
            rx: RxHalf::new(),
        })
    }

    /// Starts both halves over: `tx_first` is the first PSN to send, `rx_first` the first expected.
    /// Whatever was outstanding is forgotten.
    pub(crate) fn restart(&mut self, tx_first: Psn, rx_first: Psn, route: Route, cc: Controller) {
        self.tx.restart(tx_first, route, cc);
        self.rx.restart(rx_first);
    }
}
