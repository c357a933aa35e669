// SPDX-License-Identifier: GPL-2.0

//! Simulated time, in picoseconds: at 800 Gbit/s a byte takes 10 of them.

use proto::time::Instant;

/// A time or a span of time in picoseconds.
pub type Ps = u64;

/// A nanosecond.
pub const NS: Ps = 1_000;
/// A microsecond.
pub const US: Ps = 1_000_000;
/// A millisecond.
pub const MS: Ps = 1_000_000_000;

/// The time as the transport sees it.
pub fn instant(at: Ps) -> Instant {
    Instant(at / NS)
}

/// A span in microseconds, for reports.
pub fn us(t: Ps) -> f64 {
    t as f64 / US as f64
}
