// SPDX-License-Identifier: GPL-2.0

//! The pacer.

use super::*;

/// Sends as fast as `pace` lets it for a while, asking again when told to. Returns units sent and
/// how often it had to wait.
fn paced(pace: &Pace, wanted: u64, time: Duration) -> (u64, u64) {
    let mut pacer = Pacer::default();
    let (mut now, mut sent, mut waits) = (Instant(1 << 40), 0, 0);
    let end = now.after(time);
    while now < end {
        match pacer.credit(now, pace, wanted) {
            Ok(n) => {
                assert!(n >= 1 && n <= wanted);
                pacer.charge(now, pace, n);
                sent += n;
            }
            Err(at) => {
                assert!(at > now);
                waits += 1;
                now = at;
            }
        }
    }
    (sent, waits)
}

#[test]
fn a_pacer_keeps_the_rate() {
    // 100 packets in 10 ms, with headroom 15 in a millisecond, for a second.
    let pace = Pace::of_window(Window::packets(100), Some(Duration::from_millis(10)), MS);
    let (sent, waits) = paced(&pace, 16, Duration::from_millis(1000));
    assert!((15_000..15_100).contains(&sent), "{sent}");
    assert!(waits < 1_100, "{waits}");
    // A small window is not held up for the sake of a burst.
    let pace = Pace::of_window(Window::packets(2), Some(Duration::from_millis(40)), MS);
    let (sent, _) = paced(&pace, 2, Duration::from_millis(4000));
    assert!((300..305).contains(&sent), "{sent}");
    // A window below one packet: to the letter.
    let pace = Pace::of_window(Window::MIN, Some(Duration::from_millis(1)), MS);
    let (sent, _) = paced(&pace, 1, Duration::from_millis(1600));
    assert!((99..=101).contains(&sent), "{sent}");
    // 800 Mbit/s are 100 bytes in a microsecond.
    let pace = Pace::of_rate(800_000, 16_000, MS);
    let (sent, waits) = paced(&pace, 64_000, Duration::from_millis(100));
    assert!((10_000_000..10_100_000).contains(&sent), "{sent}");
    assert!(waits <= 700, "{waits}");
}

#[test]
fn a_pacer_does_not_matter_at_short_round_trips() {
    for (window, us) in [(1, 10), (8, 100), (240, 50), (240, 1000)] {
        let pace = Pace::of_window(Window::packets(window), Some(Duration::from_micros(us)), MS);
        let mut pacer = Pacer::default();
        let now = Instant(1 << 40);
        let n = u64::from(window);
        assert_eq!(pacer.credit(now, &pace, n), Ok(n));
        pacer.charge(now, &pace, n);
        // A round trip later the whole window again.
        let now = now.after(Duration::from_micros(us));
        assert_eq!(pacer.credit(now, &pace, n), Ok(n), "{window} {us}");
    }
    let free = [
        Pace::FREE,
        Pace::of_rate(0, 1, MS),
        Pace::of_window(Window::ONE, None, MS),
    ];
    for pace in free {
        assert_eq!(Pacer::default().credit(Instant(0), &pace, 7), Ok(7));
    }
}

#[test]
fn a_pacer_saves_up_nothing() {
    let pace = Pace::of_rate(8_000, 1_000, MS);
    let mut pacer = Pacer::default();
    pacer.charge(Instant(1), &pace, 1);
    // A thousand seconds later no more than the slack.
    let now = Instant(1 << 40);
    let n = pacer.credit(now, &pace, u64::MAX >> 20).unwrap();
    assert!(n <= 2_001, "{n}");
    for (interval, units) in [(u32::MAX, 1), (1, u64::MAX), (0, u64::MAX)] {
        let pace = Pace::of_rate(interval, u32::MAX, MS);
        let mut pacer = Pacer::default();
        pacer.charge(now, &pace, units);
        let _ = pacer.credit(now, &pace, units);
        pacer.reset();
        assert!(pacer.credit(now, &pace, 1).is_ok());
    }
}
