// SPDX-License-Identifier: GPL-2.0

//! A small deterministic generator (SplitMix64), so that a seed is all it takes to see a run again.

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
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

/// Runs `test` on seeds derived from `base`, or on the one in METAROCE_SEED alone. A panic names
/// the seed.
pub fn seeds(base: u64, n: u64, test: impl Fn(u64)) {
    if let Ok(seed) = std::env::var("METAROCE_SEED") {
        return test(seed.parse().expect("METAROCE_SEED is a number"));
    }
    struct Report(u64);
    impl Drop for Report {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("run again with METAROCE_SEED={}", self.0);
            }
        }
    }
    for i in 0..n {
        let seed = Rng::new(base.wrapping_add(i)).next();
        let report = Report(seed);
        test(seed);
        drop(report);
    }
}
