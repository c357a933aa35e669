// SPDX-License-Identifier: GPL-2.0

//! Timer encodings of the QP attributes.

use crate::time::Duration;

/// RNR timer values in units of 10 µs by 5-bit code (IBTA 1.4, 9.7.5.2.8, table 46).
const RNR_TIMER: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// How long a requester waits after an RNR NAK with timer `code` (5 bits, the rest is ignored).
/// Code 0 is the longest, 655.36 ms.
pub fn rnr_timer(code: u8) -> Duration {
    let units = RNR_TIMER
        .get(usize::from(code & 31))
        .copied()
        .unwrap_or(65_536);
    Duration::from_micros(u64::from(units).saturating_mul(10))
}

/// Smallest exponent that [`local_ack_timeout`] applies: 16.8 ms. Channel adapters may use a longer
/// timeout than asked for (IBTA 1.4, 9.7.6.1.3), and a stream must outlive the retransmission
/// timers of its paths.
const MIN_TIMEOUT: u8 = 12;

/// The local ACK timeout: 4.096 µs × 2^`timeout` (5 bits), or `None` for 0, which means no timeout.
pub fn local_ack_timeout(timeout: u8) -> Option<Duration> {
    match timeout & 31 {
        0 => None,
        t => Some(Duration(4_096 << t.max(MIN_TIMEOUT))),
    }
}
