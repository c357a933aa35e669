// SPDX-License-Identifier: GPL-2.0

//! What holds for every law.

use super::*;

#[test]
fn an_unused_window_does_not_grow() {
    for name in ["ecn", "delay"] {
        let mut p = Controller::by_name(name).unwrap();
        for i in 0..1000 {
            p.on_ack(&AckEvent {
                now: Instant(i * 100_000),
                acked: 1,
                acked_bytes: 64,
                in_flight: 0,
                in_flight_before: 1,
                rtt: Some(Duration::from_micros(100)),
                min_rtt: Duration::from_micros(100),
            });
        }
        assert_eq!(p.window(), 8, "{name}");
    }
}

#[test]
fn a_timeout_that_was_a_mistake_is_undone() {
    for name in ["ecn", "delay"] {
        let mut link = Link::new(100_000);
        let (_, mut p) = run(&mut link, Controller::by_name(name).unwrap(), 1);
        let before = p[0].window();
        let timeout = LossEvent {
            now: Instant(1 << 40),
            lost: 1,
            cause: LossCause::Timeout,
            in_flight: 100,
        };
        p[0].on_loss(&timeout);
        p[0].on_loss(&timeout);
        assert_eq!(p[0].window(), before / 4, "{name}");
        p[0].on_route_change(timeout.now);
        p[0].on_spurious(timeout.now);
        assert_eq!(p[0].window(), before, "{name}");
        // Once.
        p[0].on_loss(&timeout);
        p[0].on_route_change(timeout.now);
        assert_eq!(p[0].window(), 8, "{name}");
    }
}

#[test]
fn any_sequence_of_events_leaves_a_window() {
    for (seed, name) in (1u64..300).zip(Controller::NAMES.into_iter().cycle()) {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        let mut p = Controller::by_name(name).unwrap();
        let mut now = Instant(0);
        for _ in 0..500 {
            let big = if next() % 8 == 0 { u32::MAX } else { 255 };
            let n = next() as u32 & big & 0xffff_ffff;
            now = now.after(Duration(next() % 1_000_000_000));
            match next() % 6 {
                0 => p.on_mark(&MarkEvent {
                    now,
                    marked: n & 0xffff,
                    acked: n & 0xff,
                    in_flight: n & 0xff,
                }),
                1 => p.on_loss(&LossEvent {
                    now,
                    lost: n & 0xff,
                    cause: [LossCause::Gap, LossCause::Probe, LossCause::Timeout]
                        [next() as usize % 3],
                    in_flight: n & 0xff,
                }),
                2 => p.on_spurious(now),
                3 if next() % 16 == 0 => p.on_route_change(now),
                _ => p.on_ack(&AckEvent {
                    now,
                    acked: n & 0xff,
                    acked_bytes: next(),
                    in_flight: n & 0xff,
                    in_flight_before: next() as u32 & 0xff,
                    rtt: (next() % 4 > 0).then(|| Duration(next() >> (next() % 64))),
                    min_rtt: Duration(next() % 1_000_000),
                }),
            }
            let w = p.window();
            assert!((1..=240).contains(&w), "{name} {seed}: {p:?}");
            assert!(p.fine_window() >= Window::MIN && p.fine_window() <= Window::MAX);
        }
    }
}

/// A peer may say that anything was marked, and have everything lost, for as long as it likes.
#[test]
fn laws_survive_what_a_peer_makes_up() {
    for name in Controller::NAMES {
        let mut law = Controller::by_name(name).unwrap();
        let mut now = Instant(1_000_000);
        for i in 0..100_000u32 {
            now = now.after(MS);
            law.on_mark(&MarkEvent {
                now,
                marked: (1 << 31) - 1,
                acked: 0,
                in_flight: 0,
            });
            law.on_loss(&LossEvent {
                now,
                lost: 256,
                cause: LossCause::Gap,
                in_flight: 0,
            });
            if i % 30_000 == 0 {
                law.on_ack(&AckEvent {
                    now,
                    acked: 1,
                    acked_bytes: 0,
                    in_flight: 0,
                    in_flight_before: 256,
                    rtt: Some(MS),
                    min_rtt: MS,
                });
            }
        }
        assert!((1..=SPAN).contains(&law.window()), "{name}");
    }
}
