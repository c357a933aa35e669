// SPDX-License-Identifier: GPL-2.0

//! Time as the transport sees it: what the caller says it is.

/// A point in time in nanoseconds on the caller's monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// Makes a span from microseconds, saturating.
    pub const fn from_micros(us: u64) -> Self {
        Duration(us.saturating_mul(1_000))
    }

    /// Makes a span from milliseconds, saturating.
    pub const fn from_millis(ms: u64) -> Self {
        Duration(ms.saturating_mul(1_000_000))
    }

    /// Multiplies, saturating.
    pub const fn saturating_mul(self, n: u64) -> Self {
        Duration(self.0.saturating_mul(n))
    }

    /// Adds, saturating.
    pub const fn saturating_add(self, other: Duration) -> Self {
        Duration(self.0.saturating_add(other.0))
    }
}

impl Instant {
    /// The time `d` later, saturating.
    pub const fn after(self, d: Duration) -> Self {
        Instant(self.0.saturating_add(d.0))
    }

    /// Time passed since `earlier`, zero if that lies ahead.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The 32-bit timestamp that goes on the wire.
    pub const fn stamp(self) -> Stamp {
        // CAST: truncation is meant, stamps wrap.
        Stamp((self.0 >> Stamp::SHIFT) as u32)
    }
}

/// A wire timestamp: units of 64 ns, modulo 2^32 (wraps after 275 s).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub u32);

impl Stamp {
    /// log2 of the unit in nanoseconds.
    pub const SHIFT: u32 = 6;

    /// Whether this stamp is later than `other`, in serial arithmetic (RFC 1982).
    pub const fn is_after(self, other: Stamp) -> bool {
        let d = self.0.wrapping_sub(other.0);
        d != 0 && d < 1 << 31
    }

    /// Time from `earlier` to this stamp, zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Stamp) -> Duration {
        let d = self.0.wrapping_sub(earlier.0);
        if d < 1 << 31 {
            // CAST: widening.
            Duration((d as u64) << Self::SHIFT)
        } else {
            Duration::ZERO
        }
    }
}
