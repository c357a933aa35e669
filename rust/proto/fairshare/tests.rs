// SPDX-License-Identifier: GPL-2.0

use std::vec::Vec;

use super::*;

const MS: Duration = Duration::from_millis(1);
const PACKET: u32 = 1500;

/// A sender that wants `want` Mbit/s and obeys the hint.
struct Sender {
    want: u64,
    meter: Meter,
    /// Bits that it may send, in 1/1000000.
    credit: u64,
    sent: u64,
}

fn senders(wants: &[u64]) -> Vec<Sender> {
    let one = |want: &u64| Sender {
        want: *want,
        meter: Meter::default(),
        credit: 0,
        sent: 0,
    };
    wants.iter().map(one).collect()
}

/// Runs for so many milliseconds in steps of 10 µs; returns what each sent in the last half, Mbit/s.
fn run(now: &mut Instant, plane: &mut Inbound, s: &mut [Sender], ms: u64) -> Vec<u64> {
    let steps = ms * 100;
    for step in 0..steps {
        if step == steps / 2 {
            s.iter_mut().for_each(|s| s.sent = 0);
        }
        *now = now.after(Duration::from_micros(10));
        for s in s.iter_mut() {
            let hint = match plane.level() {
                0 => u64::MAX,
                level => u64::from(level),
            };
            s.credit += (s.want * 1000).min(hint) * 10;
            while s.credit >= u64::from(PACKET) * 8_000 {
                s.credit -= u64::from(PACKET) * 8_000;
                s.sent += u64::from(PACKET) * 8;
                if s.meter.on_packet(*now, PACKET, MS) {
                    s.meter.update(*now, plane);
                }
            }
        }
    }
    s.iter().map(|s| s.sent / (ms * 500)).collect()
}

/// Max-min by definition: hand out in equal parts until all is gone.
fn water_filling(capacity: u64, wants: &[u64]) -> Vec<u64> {
    let mut sorted = wants.to_vec();
    sorted.sort_unstable();
    let (mut left, mut n) = (capacity, wants.len() as u64);
    let mut level = capacity;
    for w in sorted {
        level = left / n;
        if w >= level {
            break;
        }
        left -= w;
        n -= 1;
    }
    wants.iter().map(|w| *w.min(&level)).collect()
}

#[test]
fn shares_are_max_min() {
    let cases: [&[u64]; 9] = [
        &[10_000; 8],
        &[10_000; 2],
        &[100, 10_000],
        &[100, 200, 10_000, 10_000],
        &[300, 300, 300, 10_000],
        &[50; 8],
        &[20, 40, 80, 160, 320, 640],
        &[499, 501, 10_000],
        &[10_000; 64],
    ];
    for wants in cases {
        let mut plane = Inbound::new(1000, MS);
        let mut s = senders(wants);
        let mut now = Instant(1 << 40);
        let got = run(&mut now, &mut plane, &mut s, 400);
        let fair = water_filling(1000, wants);
        for (got, fair) in got.iter().zip(&fair) {
            assert!(
                got * 100 >= fair * 88 && got * 100 <= fair * 112 + 200,
                "{wants:?}: {got} for {fair}"
            );
        }
        let (sum, most): (u64, u64) = (got.iter().sum(), fair.iter().sum());
        assert!(
            sum <= 1010 && sum * 100 >= most * 93,
            "{wants:?}: {sum} of {most}"
        );
    }
}

#[test]
fn a_slow_plane_takes_its_time_to_know_its_senders() {
    // In 16 ms it brings fewer than 16 packets of each.
    for (capacity, n) in [(100, 12), (20, 8), (5, 2)] {
        let mut plane = Inbound::new(capacity, MS);
        let mut s = senders(&std::vec![1000; n]);
        // They were there in turn, and have what they could get.
        let mut now = Instant(1 << 40);
        run(&mut now, &mut plane, &mut s[..1], 100);
        run(&mut now, &mut plane, &mut s[..n / 2], 1000);
        run(&mut now, &mut plane, &mut s, 4000);
        assert_eq!(plane.senders() as usize, n);
        let fair = u64::from(capacity) * 1000 * 63 / 64 / n as u64;
        let level = u64::from(plane.level());
        assert!(level.abs_diff(fair) <= fair / 50, "{level} for {fair}");
    }
}

#[test]
fn a_single_sender_is_not_limited() {
    let mut plane = Inbound::new(1000, MS);
    let mut s = senders(&[25_000]);
    let mut now = Instant(1 << 40);
    assert!(run(&mut now, &mut plane, &mut s, 100)[0] >= 24_999);
    assert_eq!(plane.level(), 0);
    // Neither by one that sends a packet now and then, …
    let mut s = senders(&[25_000, 1]);
    let got = run(&mut now, &mut plane, &mut s, 400);
    assert!(got[0] >= 24_999);
    // … nor by one that has gone.
    let mut s = senders(&[25_000, 25_000]);
    run(&mut now, &mut plane, &mut s, 50);
    assert!(plane.level() > 0);
    run(&mut now, &mut plane, &mut s[..1], 40);
    assert_eq!((plane.level(), plane.senders()), (0, 1));
}

#[test]
fn nothing_is_said_about_an_unknown_capacity() {
    let mut plane = Inbound::new(0, MS);
    let mut s = senders(&[1000; 4]);
    let mut now = Instant(1 << 40);
    assert!(run(&mut now, &mut plane, &mut s, 50)
        .iter()
        .all(|g| *g >= 999));
    plane.set_capacity(400);
    assert_eq!(plane.capacity(), 400);
    let got = run(&mut now, &mut plane, &mut s, 200);
    assert!(got.iter().all(|g| (88..=102).contains(g)), "{got:?}");
}

#[test]
fn a_new_sender_changes_the_hint_with_its_first_packets() {
    let mut plane = Inbound::new(1000, MS);
    let mut s = senders(&[10_000; 3]);
    let mut now = Instant(1 << 40);
    run(&mut now, &mut plane, &mut s, 100);
    let before = plane.level();
    let mut late = Meter::default();
    for n in 1..=16 {
        let due = late.on_packet(now, PACKET, MS);
        assert_eq!(due, n == 16);
    }
    assert!(!late.is_active());
    late.update(now, &mut plane);
    assert!(late.is_active());
    let after = plane.level();
    assert!((320_000..=335_000).contains(&before), "{before}");
    assert!((240_000..=250_000).contains(&after), "{after}");
}

#[test]
fn sums_never_go_wrong() {
    let mut x = 0x1234_5678_9abc_def1u64;
    let mut next = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let mut plane = Inbound::new(10_000, MS);
    let mut meters = [Meter::default(); 20];
    let mut now = Instant(0);
    for _ in 0..100_000 {
        let step = if next() % 1000 == 0 { 1 << 34 } else { 100_000 };
        now = now.after(Duration(next() % step));
        let m = &mut meters[next() as usize % 20];
        if m.on_packet(now, next() as u32 % 9000, MS) || next() % 50 == 0 {
            m.update(now, &mut plane);
        }
        assert!(plane.senders() <= 20);
        let level = plane.level();
        assert!(level <= 10_000_000);
        if plane.senders() >= 2 {
            assert!(level >= 10_000_000 / 21);
        }
    }
    // All fall silent.
    now = now.after(Duration::from_millis(1000));
    for _ in 0..17 {
        meters[0].on_packet(now, PACKET, MS);
    }
    meters[0].update(now, &mut plane);
    assert_eq!(plane.senders(), 1);
}
