// SPDX-License-Identifier: GPL-2.0

//! A congestion window in fixed point.

use crate::path::{NAK_RESERVE, SPAN};

/// Fraction bits of a window.
const SHIFT: u32 = 8;

/// Packets that may be in flight, in units of 1/256 packet.
///
/// Below one packet the window says how much of the time one may be in flight: the pacer then
/// spaces packets by more than a round trip, which is what lets thousands of senders share a link
/// that holds fewer packets than there are senders (Kumar et al., "Swift", SIGCOMM 2020, 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window(u32);

/// Growth per round without congestion, 1/256 packet. A connection has many paths, by default
/// eight to a plane: together two packets, RFC 8257 has one.
pub(super) const INCREASE: u32 = 64;

impl Window {
    /// Packets in flight on a new route: eight paths of 4 KiB then have 256 KiB under way, the
    /// product of 100 Gbit/s and 20 µs.
    pub const INITIAL: Window = Window::packets(8);
    /// One packet.
    pub const ONE: Window = Window(1 << SHIFT);
    /// The least window: one packet in sixteen round trips.
    pub const MIN: Window = Window(Self::ONE.0 / 16);
    /// The largest window: what the span of a path leaves to data.
    pub const MAX: Window = Window::packets(SPAN - NAK_RESERVE);

    /// A window of `n` whole packets, brought into bounds.
    pub const fn packets(n: u32) -> Self {
        let most = SPAN - NAK_RESERVE;
        Window(if n > most { most } else { n } << SHIFT).bounded()
    }

    const fn bounded(self) -> Self {
        if self.0 < Self::MIN.0 {
            Self::MIN
        } else {
            self
        }
    }

    /// Whole packets, at least one.
    pub const fn whole(self) -> u32 {
        let n = self.0 >> SHIFT;
        if n == 0 {
            1
        } else {
            n
        }
    }

    /// The window in units of 1/256 packet.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Adds `n` packets, for slow start.
    pub fn add_packets(&mut self, n: u32) {
        self.add(u64::from(n) << SHIFT);
    }

    /// Adds, for `acked` packets, their part of `per_round` (1/256 packet) for a whole window; at
    /// most one packet for each.
    pub fn grow(&mut self, per_round: u32, acked: u32) {
        let share = u64::from(per_round).saturating_mul(u64::from(acked) << SHIFT);
        let most = u64::from(self.0) * u64::from(acked);
        self.add((share / u64::from(self.0.max(1))).min(most));
    }

    fn add(&mut self, raw: u64) {
        let sum = u64::from(self.0).saturating_add(raw);
        // CAST: bounded by `MAX`, which fits.
        self.0 = sum.min(u64::from(Self::MAX.0)) as u32;
    }

    /// Takes `part` of 1024 off, no further down than to `least`; never adds anything.
    pub fn cut(&mut self, part: u32, least: Window) {
        let left = u64::from(self.0) * u64::from(1024u32.saturating_sub(part)) / 1024;
        // CAST: not more than it was.
        let left = Window(left as u32).max(least).bounded();
        *self = (*self).min(left);
    }
}
