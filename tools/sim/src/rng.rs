// SPDX-License-Identifier: GPL-2.0

//! A small deterministic generator (SplitMix64), so that a seed is all it takes to see a run again.

/// The generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

/// Mixes the bits of a number: SplitMix64's output function.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Rng {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)] // There is no end to them.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A span of time between events of a Poisson process, of this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    /// Puts `items` in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// True in `p` of 10,000 cases.
    pub fn chance(&mut self, p: u32) -> bool {
        self.below(10_000) < u64::from(p)
    }
}

/// Runs `test` on `n` seeds derived from `base`, METAROCE_SEEDS times as many if that is set, or on
/// the one in METAROCE_SEED alone. A panic names the seed.
pub fn seeds(base: u64, n: u64, test: impl Fn(u64)) {
    if let Ok(seed) = std::env::var("METAROCE_SEED") {
        return test(seed.parse().expect("METAROCE_SEED is a number"));
    }
    let times = std::env::var("METAROCE_SEEDS").map_or(1, |times| {
        times.parse().expect("METAROCE_SEEDS is a number")
    });
    struct Report(u64);
    impl Drop for Report {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("run again with METAROCE_SEED={}", self.0);
            }
        }
    }
    for i in 0..n * times {
        let seed = Rng::new(base.wrapping_add(i)).next();
        let report = Report(seed);
        test(seed);
        drop(report);
    }
}
