// SPDX-License-Identifier: GPL-2.0

//! The clock of the data path.

use proto::time::Instant;

/// The time on the clock that the transport runs on, `CLOCK_MONOTONIC`.
pub(super) fn now() -> Instant {
    Instant(crate::sync::hrtimer::now())
}
