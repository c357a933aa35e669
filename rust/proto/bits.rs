// SPDX-License-Identifier: GPL-2.0

//! A ring of 256 bits, one per PSN of a path's span.

/// 256 bits, addressed modulo 256.
///
/// Indexed by the low byte of a PSN the set is a ring: nothing moves when the base of the window
/// does. [`Bits256::rotate_left`] and [`Bits256::rotate_right`] convert between the ring and the
/// wire's vectors, which count from a base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits256([u64; 4]);

impl Bits256 {
    /// No bit set.
    pub const EMPTY: Bits256 = Bits256([0; 4]);
    /// All bits set.
    pub const FULL: Bits256 = Bits256([u64::MAX; 4]);

    /// Builds the set from eight 32-bit words, least significant bit of the first word first.
    pub fn from_words(words: [u32; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = words;
        let pair = |lo: u32, hi: u32| u64::from(lo) | u64::from(hi) << 32;
        Bits256([pair(a, b), pair(c, d), pair(e, f), pair(g, h)])
    }

    /// The set as eight 32-bit words, the inverse of [`Bits256::from_words`].
    pub fn words(self) -> [u32; 8] {
        let [a, b, c, d] = self.0;
        // CAST: truncation is meant, each half is taken.
        let lo = |w: u64| w as u32;
        let hi = |w: u64| (w >> 32) as u32;
        [lo(a), hi(a), lo(b), hi(b), lo(c), hi(c), lo(d), hi(d)]
    }

    /// The `len` bits from `start` on, around the ring; `len` above 256 counts as 256.
    #[inline]
    pub fn range(start: u8, len: u32) -> Self {
        let mut out = [0u64; 4];
        for (w, base) in out.iter_mut().zip([0u32, 64, 128, 192]) {
            let n = len.min(256).saturating_sub(base).min(64);
            *w = match n {
                0 => 0,
                n => u64::MAX >> (64 - n),
            };
        }
        Bits256(out).rotate_left(start)
    }

    /// Whether bit `i` is set.
    #[inline]
    pub fn get(&self, i: u8) -> bool {
        self.0
            .get(usize::from(i >> 6))
            .is_some_and(|w| w >> (i & 63) & 1 != 0)
    }

    /// Sets bit `i`.
    #[inline]
    pub fn set(&mut self, i: u8) {
        if let Some(w) = self.0.get_mut(usize::from(i >> 6)) {
            *w |= 1 << (i & 63);
        }
    }

    /// Clears bit `i`.
    #[inline]
    pub fn clear(&mut self, i: u8) {
        if let Some(w) = self.0.get_mut(usize::from(i >> 6)) {
            *w &= !(1 << (i & 63));
        }
    }

    /// Whether no bit is set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Without a call of memcmp().
        self.0.iter().fold(0, |all, w| all | w) == 0
    }

    /// How many bits are set.
    #[inline]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    /// Bits in both sets.
    #[inline]
    pub fn and(self, o: Self) -> Self {
        self.zip(o, |a, b| a & b)
    }

    /// Bits in either set.
    #[inline]
    pub fn or(self, o: Self) -> Self {
        self.zip(o, |a, b| a | b)
    }

    /// Bits in this set and not in `o`.
    #[inline]
    pub fn without(self, o: Self) -> Self {
        self.zip(o, |a, b| a & !b)
    }

    #[inline]
    fn zip(self, o: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let mut out = self;
        for (a, b) in out.0.iter_mut().zip(o.0) {
            *a = f(*a, b);
        }
        out
    }

    /// Moves bit `i` to `i + n` modulo 256.
    #[inline]
    pub fn rotate_left(self, n: u8) -> Self {
        let mut w = self.0;
        w.rotate_right(usize::from(n >> 6));
        let bits = u32::from(n & 63);
        if bits == 0 {
            return Bits256(w);
        }
        let [a, b, c, d] = w;
        let join = |word: u64, below: u64| word << bits | below >> (64 - bits);
        Bits256([join(a, d), join(b, a), join(c, b), join(d, c)])
    }

    /// Moves bit `i` to `i - n` modulo 256.
    #[inline]
    pub fn rotate_right(self, n: u8) -> Self {
        self.rotate_left(0u8.wrapping_sub(n))
    }

    /// The lowest set bit.
    #[inline]
    pub fn lowest(&self) -> Option<u8> {
        let mut base = 0u8;
        for w in self.0 {
            if w != 0 {
                // CAST: at most 63.
                return Some(base.wrapping_add(w.trailing_zeros() as u8));
            }
            base = base.wrapping_add(64);
        }
        None
    }

    /// The first set bit at or after `start`, around the ring.
    #[inline]
    pub fn first_from(&self, start: u8) -> Option<u8> {
        self.rotate_right(start)
            .lowest()
            .map(|i| start.wrapping_add(i))
    }

    /// Takes the first set bit at or after `start`, around the ring.
    #[inline]
    pub fn take_from(&mut self, start: u8) -> Option<u8> {
        let i = self.first_from(start)?;
        self.clear(i);
        Some(i)
    }

    /// How many of the eight words of [`Bits256::words`] are needed to hold the highest set bit.
    pub fn significant_words(&self) -> u8 {
        let mut n = 0u8;
        for (i, w) in (1u8..).zip(self.words()) {
            if w != 0 {
                n = i;
            }
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_is_modular_and_invertible() {
        for n in 0..=255u8 {
            for i in [0u8, 1, 63, 64, 65, 127, 128, 200, 255] {
                let mut b = Bits256::EMPTY;
                b.set(i);
                let r = b.rotate_left(n);
                assert!(r.get(i.wrapping_add(n)), "{i} {n}");
                assert_eq!(r.count(), 1);
                assert_eq!(r.rotate_right(n), b);
            }
        }
    }

    #[test]
    fn ranges_wrap() {
        for start in [0u8, 1, 63, 64, 250, 255] {
            for len in [0u32, 1, 63, 64, 65, 128, 255, 256, 300] {
                let r = Bits256::range(start, len);
                assert_eq!(r.count(), len.min(256));
                for k in 0..len.min(256) {
                    assert!(r.get(start.wrapping_add(k as u8)));
                }
            }
        }
    }

    #[test]
    fn search_goes_round() {
        let mut b = Bits256::EMPTY;
        b.set(3);
        b.set(250);
        assert_eq!(b.first_from(4), Some(250));
        assert_eq!(b.first_from(251), Some(3));
        assert_eq!(b.take_from(250), Some(250));
        assert_eq!(b.take_from(250), Some(3));
        assert_eq!(b.take_from(250), None);
    }

    #[test]
    fn words_round_trip() {
        let w = [1, 2, 3, 4, 5, 6, 0, 0x8000_0000];
        assert_eq!(Bits256::from_words(w).words(), w);
        assert_eq!(Bits256::from_words(w).significant_words(), 8);
        assert_eq!(Bits256::EMPTY.significant_words(), 0);
    }
}
