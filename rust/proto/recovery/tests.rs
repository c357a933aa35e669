// SPDX-License-Identifier: GPL-2.0

use super::*;
use crate::time::{Duration, Stamp};

fn tx(stamp: u32, route_epoch: u8) -> Transmission {
    Transmission {
        stamp: Stamp(stamp),
        route_epoch,
    }
}

#[test]
fn fifo_evidence_is_exact_on_one_route() {
    assert!(is_lost(tx(10, 3), tx(11, 3), Duration::ZERO));
    assert!(!is_lost(tx(11, 3), tx(11, 3), Duration::ZERO));
    assert!(!is_lost(tx(12, 3), tx(11, 3), Duration::ZERO));
    // Across the wrap of the stamp.
    assert!(is_lost(tx(u32::MAX, 3), tx(1, 3), Duration::ZERO));
}

#[test]
fn an_older_route_gets_an_allowance() {
    let allowance = Duration(64 * 100);
    assert!(!is_lost(tx(10, 3), tx(110, 4), allowance));
    assert!(is_lost(tx(10, 3), tx(111, 4), allowance));
    assert!(is_lost(tx(10, 255), tx(111, 0), allowance));
    // The newer route is never judged by the older.
    assert!(!is_lost(tx(10, 4), tx(500, 3), allowance));
}

#[test]
fn rtt_follows_rfc6298() {
    let mut r = Rtt::new();
    assert_eq!(r.smoothed(), None);
    r.sample(Duration(8_000));
    assert_eq!(r.smoothed(), Some(Duration(8_000)));
    assert_eq!(r.variation(), Duration(4_000));
    r.sample(Duration(16_000));
    assert_eq!(r.smoothed(), Some(Duration(9_000)));
    assert_eq!(r.variation(), Duration(5_000));
    assert_eq!(r.min(), Duration(8_000));
    // Extremes do not overflow.
    r.sample(Duration(u64::MAX));
    r.sample(Duration(0));
    r.sample(Duration(u64::MAX));
}

#[test]
fn timeouts_back_off_between_bounds() {
    let t = Timers::default();
    let mut r = Rtt::new();
    assert_eq!(t.rto(&r, 0), t.rto_initial);
    assert_eq!(t.rto(&r, 200), t.rto_max);
    r.sample(Duration::from_micros(50));
    assert_eq!(t.rto(&r, 0), t.rto_min);
    assert_eq!(t.rto(&r, 1), t.rto_min);
    assert_eq!(t.rto(&r, 2), Duration(t.rto_min.0 * 2));
    assert_eq!(t.rto(&r, 5), Duration(t.rto_min.0 * 4));
    assert_eq!(t.probe(&r), t.probe_min);
    r.sample(Duration::from_millis(50));
    assert!(t.rto(&r, 0) > t.rto_min);
    assert!(t.probe(&r) > t.probe_min);
}
