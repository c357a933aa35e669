// SPDX-License-Identifier: GPL-2.0

//! A generator of numbers that look random.

/// A small deterministic generator (xorshift64*).
pub(super) struct Rng(pub u64);

impl Rng {
    pub(super) fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let x = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from((x * u64::from(n)) >> 32).unwrap()
    }

    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(u32::try_from(len).unwrap())).unwrap()
    }
}
