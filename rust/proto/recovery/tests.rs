// SPDX-License-Identifier: GPL-2.0

use super::*;
use crate::time::{Duration, Instant, Stamp};

fn tx(stamp: u32, route_epoch: u8) -> Transmission {
    Transmission {
        stamp: Stamp(stamp),
        route_epoch,
    }
}

#[test]
fn fifo_evidence_is_exact_on_one_route() {
    let lost = |sent, arrived| is_lost(sent, arrived, Duration::ZERO, Duration::ZERO);
    assert!(lost(tx(10, 3), tx(11, 3)));
    assert!(!lost(tx(11, 3), tx(11, 3)));
    assert!(!lost(tx(12, 3), tx(11, 3)));
    // Across the wrap of the stamp.
    assert!(lost(tx(u32::MAX, 3), tx(1, 3)));
}

#[test]
fn an_older_route_gets_an_allowance() {
    let allowance = Duration(64 * 100);
    let lost = |sent, arrived| is_lost(sent, arrived, Duration::ZERO, allowance);
    assert!(!lost(tx(10, 3), tx(110, 4)));
    assert!(lost(tx(10, 3), tx(111, 4)));
    assert!(lost(tx(10, 255), tx(111, 0)));
    // The newer route is never judged by the older.
    assert!(!lost(tx(10, 4), tx(500, 3)));
}

#[test]
fn a_path_that_reorders_gets_a_window_for_a_while() {
    let mut rtt = Rtt::new();
    rtt.sample(Instant(0), Duration(64_000));
    let mut r = Reordering::default();
    let ms = |n| Instant(0).after(Duration::from_millis(n));
    r.update(ms(1), 0, &rtt);
    assert_eq!(r.window(), Duration::ZERO);
    r.update(ms(2), 3, &rtt);
    let window = r.window();
    assert_eq!(window, Duration(16_000));
    assert!(!is_lost(tx(10, 3), tx(260, 3), window, window));
    assert!(is_lost(tx(10, 3), tx(261, 3), window, window));
    for i in 3..100 {
        r.update(ms(i), 1, &rtt);
        assert!(r.window() <= Duration(64_000));
    }
    assert_eq!(r.window(), Duration(64_000));
    for i in 1..60 {
        r.update(ms(500 * i), 0, &rtt);
    }
    assert_eq!(r.window(), Duration::ZERO);
}

#[test]
fn rtt_follows_rfc6298() {
    let mut r = Rtt::new();
    let ms = |n| Instant(0).after(Duration::from_millis(n));
    assert_eq!(r.smoothed(), None);
    r.sample(ms(0), Duration(8_000));
    assert_eq!(r.smoothed(), Some(Duration(8_000)));
    assert_eq!(r.variation(), Duration(4_000));
    r.sample(ms(0), Duration(16_000));
    assert_eq!(r.smoothed(), Some(Duration(9_000)));
    assert_eq!(r.variation(), Duration(5_000));
    assert_eq!(r.min(), Duration(8_000));
    // Extremes do not overflow.
    r.sample(ms(0), Duration(u64::MAX));
    r.sample(ms(0), Duration(0));
    r.sample(ms(0), Duration(u64::MAX));
}

#[test]
fn deviation_is_forgotten_by_time_not_by_samples() {
    let mut r = Rtt::new();
    let us = |n| Instant(0).after(Duration::from_micros(n));
    for i in 0..100 {
        r.sample(us(i), Duration(50_000));
    }
    // One hiccup of 5 ms, and many good samples within a few round trips.
    r.sample(us(100), Duration(5_000_000));
    let after = r.variation();
    assert!(after > Duration::from_millis(1));
    for i in 0..1000 {
        r.sample(us(200 + i), Duration(50_000));
    }
    assert_eq!(r.variation(), after);
    // A second later it is forgotten.
    for i in 0..1000 {
        r.sample(us(2000 + 1000 * i), Duration(50_000));
    }
    assert!(r.variation() < Duration::from_micros(10), "{r:?}");
}

#[test]
fn on_another_route_the_first_sample_counts_anew() {
    let mut r = Rtt::new();
    r.sample(Instant(1), Duration(8_000));
    r.on_route_change();
    assert_eq!(r.smoothed(), Some(Duration(8_000)), "a guess until then");
    r.sample(Instant(2), Duration(80_000));
    assert_eq!(r.smoothed(), Some(Duration(80_000)));
    assert_eq!(r.min(), Duration(80_000));
}

#[test]
fn timeouts_back_off_between_bounds() {
    let t = Timers::default();
    let mut r = Rtt::new();
    assert_eq!(t.rto(&r, 0), t.rto_initial);
    assert_eq!(t.rto(&r, 200), t.rto_max);
    r.sample(Instant(0), Duration::from_micros(50));
    assert_eq!(t.rto(&r, 0), t.rto_min);
    assert_eq!(t.rto(&r, 1), t.rto_min);
    assert_eq!(t.rto(&r, 2), Duration(t.rto_min.0 * 2));
    assert_eq!(t.rto(&r, 5), Duration(t.rto_min.0 * 4));
    assert!(t.rto_min < Duration::from_millis(1));
    // Every try of a queue pair with the usual timeout has one of ours, for two seconds and more.
    let quick: u64 = (0..40).map(|n| t.rto(&r, n).0).sum();
    assert!((0..40).all(|n| t.rto(&r, n) < Duration(4_096 << 14)));
    assert!(quick > 1_500_000_000, "{quick}");
    assert_eq!(t.rto(&r, 255), t.rto_max);
    assert_eq!(t.probe(&r), t.probe_min);
    r.sample(Instant(0), Duration::from_millis(50));
    assert!(t.rto(&r, 0) > t.rto_min);
    assert!(t.probe(&r) > t.probe_min);
}
