// SPDX-License-Identifier: GPL-2.0

//! A window that does not change: for tests and for links that one sender has to itself.

use super::{AckEvent, CongestionControl, LossEvent, MarkEvent};
use crate::time::Instant;

/// A constant number of packets in flight.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    packets: u32,
}

impl FixedWindow {
    /// Packets per path unless set otherwise: 64 of 1 KiB cover 500 Mbit/s at a round trip of 1 ms.
    pub const DEFAULT: u32 = 64;

    /// A window of `packets`, at least 1.
    pub const fn new(packets: u32) -> Self {
        FixedWindow {
            packets: if packets == 0 { 1 } else { packets },
        }
    }
}

impl Default for FixedWindow {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}

impl CongestionControl for FixedWindow {
    #[inline]
    fn window(&self) -> u32 {
        self.packets
    }

    fn on_ack(&mut self, _: &AckEvent) {}

    fn on_mark(&mut self, _: &MarkEvent) {}

    fn on_loss(&mut self, _: &LossEvent) {}

    fn on_spurious(&mut self, _: Instant) {}

    fn on_route_change(&mut self, _: Instant) {}
}
