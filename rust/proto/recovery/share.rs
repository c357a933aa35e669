// SPDX-License-Identifier: GPL-2.0

//! The share of packets that a path loses.

/// Weight of one packet in the average, as a shift: 1/64.
const GAIN: u32 = 6;
/// Fraction bits of the average.
const SHIFT: u32 = 16;

/// Moving average of the share of packets lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct LossShare(u32);

impl LossShare {
    /// Takes in packets acknowledged and packets found lost.
    pub fn sample(&mut self, acked: u32, lost: u32) {
        for (n, goal) in [(acked, 0), (lost, 1u32 << SHIFT)] {
            // After so many alike the average has arrived.
            for _ in 0..n.min(1 << (GAIN + 4)) {
                self.0 = self.0 - (self.0 >> GAIN) + (goal >> GAIN);
            }
        }
    }

    /// The share, of 1024.
    pub const fn share(self) -> u32 {
        self.0 >> (SHIFT - 10)
    }
}
