// SPDX-License-Identifier: GPL-2.0

//! The fuzz targets' checks on random input, so that they run everywhere.

#[path = "../fuzz/checks.rs"]
mod checks;

use proptest::prelude::*;

/// The packets of the test vectors, as a corpus.
fn corpus() -> Vec<Vec<u8>> {
    include_str!("../vectors/wire-v1.txt")
        .lines()
        .filter_map(|l| l.strip_prefix("hex: "))
        .map(|l| {
            (0..l.len() / 2)
                .map(|i| u8::from_str_radix(&l[2 * i..2 * i + 2], 16).expect("hexadecimal"))
                .collect()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_bytes_parse_or_do_not(
        mut data in proptest::collection::vec(any::<u8>(), 0..200),
        kind in 0u8..8,
        words in 3u8..24,
    ) {
        // Most random bytes fail at once: give the rest of the parser something to do.
        if let [version, t, flags, w, ..] = &mut data[..] {
            *version = 1;
            *t = kind;
            *flags &= 3;
            *w = words;
        }
        checks::parse(&data);
    }

    #[test]
    fn mutated_packets_parse_or_do_not(
        which in any::<proptest::sample::Index>(),
        at in any::<proptest::sample::Index>(),
        value in any::<u8>(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let corpus = corpus();
        let mut data = which.get(&corpus).clone();
        if !data.is_empty() {
            let at = at.index(data.len());
            data[at] = value;
            checks::parse(&data);
            data.truncate(cut.index(data.len() + 1));
        }
        checks::parse(&data);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn any_operations_keep_a_connection_sound(
        data in proptest::collection::vec(any::<u8>(), 0..4_000),
    ) {
        checks::connection(&data);
    }
}
