// SPDX-License-Identifier: GPL-2.0

//! What an acknowledgement proves lost.
//!
//! A path on one route is FIFO, and every transmission on it carries a later stamp than the one
//! before. So once the receiver echoes a stamp, whatever went out before it on the same route and
//! has not arrived is lost: RACK (RFC 8985) with no reordering window, for first transmissions and
//! retransmissions alike. Only a path that was seen to reorder gets a window.

use crate::time::{Duration, Stamp};

/// When and on which route a packet was last sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmission {
    /// Its stamp.
    pub stamp: Stamp,
    /// The route epoch.
    pub route_epoch: u8,
}

/// Why a packet counts as lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum LossCause {
    /// A later packet of the path arrived.
    #[default]
    Gap,
    /// A probe arrived that was sent later.
    Probe,
    /// The retransmission timer ran out.
    Timeout,
}

/// Whether `sent`, which is neither acknowledged nor held by the receiver, is lost, given that
/// `arrived` has arrived.
///
/// On the same route it is if `arrived` was sent more than `reordering` after it. A transmission on
/// an *earlier* route may still be on its way although one on a later route has arrived; it counts
/// as lost only when `arrived` was sent more than `allowance` after it. No transmission on a later
/// route is judged by one on an earlier.
pub const fn is_lost(
    sent: Transmission,
    arrived: Transmission,
    reordering: Duration,
    allowance: Duration,
) -> bool {
    if !arrived.stamp.is_after(sent.stamp) {
        return false;
    }
    let age = arrived.route_epoch.wrapping_sub(sent.route_epoch);
    let later = arrived.stamp.since(sent.stamp).0;
    match age {
        0 => later > reordering.0,
        1..=127 => later > allowance.0,
        _ => false,
    }
}
