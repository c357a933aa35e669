// SPDX-License-Identifier: GPL-2.0

use std::vec::Vec;

use super::*;
use crate::path::{NAK_RESERVE, SPAN};

const MS: Duration = Duration::from_millis(1);

/// A bottleneck that a few paths share, simulated round by round: what does not fit into the pipe
/// waits, what does not fit into the queue is dropped, what finds a long queue is marked.
struct Link {
    /// Packets that the link carries in one base round trip.
    pipe: u32,
    /// Packets that its queue holds.
    buffer: u32,
    /// Queue from which on packets are marked.
    mark_at: u32,
    /// Loss at random, of 10,000.
    loss: u32,
    base: Duration,
    /// The least round-trip time that was ever seen.
    least: Duration,
    rng: u64,
}

impl Link {
    fn new(pipe: u32) -> Self {
        Link {
            pipe,
            buffer: u32::MAX,
            mark_at: u32::MAX,
            loss: 0,
            base: Duration::from_micros(100),
            least: Duration(u64::MAX),
            rng: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn chance(&mut self, of_10_000: u32) -> bool {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng % 10_000 < u64::from(of_10_000)
    }

    /// One round trip of all paths. Returns packets delivered, dropped by the queue, and the queue.
    fn round(&mut self, now: &mut Instant, paths: &mut [Controller]) -> (u32, u32, u32) {
        let total: u32 = paths.iter().map(|p| p.window()).sum();
        let queue = total.saturating_sub(self.pipe).min(self.buffer);
        let fits = self.pipe.saturating_add(queue);
        let overflow = total.saturating_sub(fits);
        let wait = self.base.0 * u64::from(queue) / u64::from(self.pipe);
        let rtt = Duration(self.base.0 + wait);
        self.least = self.least.min(rtt);
        let (mut delivered, mut dropped) = (0, 0);
        for p in paths.iter_mut() {
            let n = p.window();
            let (mut lost, mut marked) = (0, 0);
            for _ in 0..n {
                if self.chance((u64::from(overflow) * 10_000 / u64::from(total)) as u32) {
                    lost += 1;
                    dropped += 1;
                } else if self.chance(self.loss) {
                    lost += 1;
                } else if queue > self.mark_at {
                    marked += 1;
                }
            }
            let acked = n - lost;
            delivered += acked;
            if lost > 0 {
                p.on_loss(&LossEvent {
                    now: *now,
                    lost,
                    cause: LossCause::Gap,
                    in_flight: 0,
                });
            }
            if marked > 0 {
                p.on_mark(&MarkEvent {
                    now: *now,
                    marked,
                    acked,
                    in_flight: 0,
                });
            }
            if acked > 0 {
                p.on_ack(&AckEvent {
                    now: *now,
                    acked,
                    acked_bytes: 4096 * u64::from(acked),
                    in_flight: 0,
                    in_flight_before: n,
                    rtt: Some(rtt),
                    min_rtt: self.least,
                });
            }
        }
        *now = now.after(rtt);
        // The link carries no more than a pipe full per base round trip.
        let possible = u64::from(self.pipe) * rtt.0 / self.base.0;
        (delivered.min(possible as u32), dropped, queue)
    }
}

struct Outcome {
    /// Goodput over what the link carries, of 1000.
    goodput: u64,
    /// Dropped by the queue, of 1000.
    dropped: u64,
    /// Mean queue in packets.
    queue: u64,
}

/// Runs `paths` of one law: 300 rounds to settle, 700 that count.
fn run(link: &mut Link, law: Controller, paths: usize) -> (Outcome, Vec<Controller>) {
    let mut p = std::vec![law; paths];
    let mut now = Instant(1_000_000);
    for _ in 0..300 {
        link.round(&mut now, &mut p);
    }
    let start = now;
    let (mut good, mut dropped, mut queue) = (0u64, 0u64, 0u64);
    for _ in 0..700 {
        let (g, d, q) = link.round(&mut now, &mut p);
        good += u64::from(g);
        dropped += u64::from(d);
        queue += u64::from(q);
    }
    let possible = u64::from(link.pipe) * now.since(start).0 / link.base.0;
    let outcome = Outcome {
        goodput: good * 1000 / possible,
        dropped: dropped * 1000 / (good + dropped),
        queue: queue / 700,
    };
    (outcome, p)
}

fn ecn() -> Controller {
    Controller::by_name("ecn").unwrap()
}

#[test]
fn laws_have_names() {
    for name in Controller::NAMES {
        assert_eq!(Controller::by_name(name).unwrap().name(), name);
    }
    assert_eq!(Controller::default().name(), Controller::NAMES[0]);
    assert!(Controller::by_name("").is_none());
    // Every path has one, and thousands of connections have many paths.
    assert!(
        size_of::<Controller>() <= 112,
        "{}",
        size_of::<Controller>()
    );
}

#[test]
fn windows_stay_in_bounds() {
    let mut w = Window::packets(1000);
    assert_eq!(w.whole(), SPAN - NAK_RESERVE);
    w.add_packets(u32::MAX);
    w.grow(u32::MAX, u32::MAX);
    assert_eq!(w, Window::MAX);
    for _ in 0..1000 {
        w.cut(100, Window::MIN);
    }
    assert_eq!((w, w.whole()), (Window::MIN, 1));
    w.cut(0, Window::MAX);
    assert_eq!(w, Window::MIN, "a cut adds nothing");
    // A tiny window at most doubles with each packet.
    w.grow(256, 1);
    assert_eq!(w.raw(), 2 * Window::MIN.raw());
    w = Window::packets(10);
    w.grow(256, 10);
    assert_eq!(w, Window::packets(11));
    assert_eq!(Window::packets(0), Window::MIN);
}

#[test]
fn slow_start_ends_with_the_first_mark() {
    let mut p = [ecn()];
    let mut link = Link::new(1000);
    let mut now = Instant(1);
    let mut last = p[0].window();
    for _ in 0..4 {
        link.round(&mut now, &mut p);
        assert_eq!(p[0].window(), 2 * last);
        last = p[0].window();
    }
    link.mark_at = 0;
    link.pipe = 100;
    link.round(&mut now, &mut p);
    let Controller::Ecn(law) = &p[0] else {
        unreachable!()
    };
    assert!(!law.in_slow_start());
    assert!(p[0].window() < last);
}

#[test]
fn marks_hold_the_queue_at_the_threshold() {
    let mut link = Link {
        mark_at: 20,
        ..Link::new(100)
    };
    let (o, p) = run(&mut link, ecn(), 8);
    assert!(o.goodput >= 950, "{}", o.goodput);
    assert!((5..=35).contains(&o.queue), "{}", o.queue);
    // Half of the share that is marked is what a cut takes.
    let Controller::Ecn(law) = &p[0] else {
        unreachable!()
    };
    assert!((1..700).contains(&law.alpha()), "{}", law.alpha());
    let windows: Vec<_> = p.iter().map(|p| p.window()).collect();
    let (min, max) = (windows.iter().min().unwrap(), windows.iter().max().unwrap());
    assert!(max - min <= 4, "{windows:?}");
}

#[test]
fn random_loss_does_not_shrink_the_window() {
    for loss in [10, 100, 500, 1000] {
        // Whether the window is all that the span allows, …
        let mut link = Link {
            loss,
            ..Link::new(100_000)
        };
        let (_, p) = run(&mut link, ecn(), 8);
        assert!(p.iter().all(|p| p.window() == 240), "{loss} {p:?}");
        // … or a queue stands before the link.
        let mut link = Link {
            loss,
            ..Link::new(500)
        };
        let (o, p) = run(&mut link, ecn(), 8);
        let bound = 1000 - u64::from(loss) / 10;
        assert!(o.goodput + 15 >= bound, "{loss}: {}", o.goodput);
        assert!(p.iter().all(|p| p.window() > 62), "{loss} {p:?}");
    }
}

#[test]
fn a_clean_path_that_turns_lossy_recovers() {
    for loss in [500, 1000] {
        let mut link = Link::new(100_000);
        let (_, mut p) = run(&mut link, ecn(), 1);
        link.loss = loss;
        let mut now = Instant(1 << 40);
        for _ in 0..600 {
            link.round(&mut now, &mut p);
        }
        assert!(p[0].window() >= 200, "{loss} {p:?}");
    }
}

#[test]
fn tail_drop_shrinks_the_window() {
    // From a queue far too short to be seen as a delay that is too long, to a deep one.
    for buffer in [5, 20, 100, 1000] {
        let mut link = Link {
            buffer,
            ..Link::new(200)
        };
        let (o, p) = run(&mut link, ecn(), 8);
        assert!(o.goodput >= 900, "{buffer}: {}", o.goodput);
        // With a queue to be seen little is dropped, else no more than counts as random.
        let most = if buffer < 50 { 210 } else { 110 };
        assert!(o.dropped <= most, "{buffer}: {} {p:?}", o.dropped);
    }
    // A link that gets narrower takes the window down with it.
    let mut link = Link {
        buffer: 20,
        ..Link::new(1000)
    };
    let (_, mut p) = run(&mut link, ecn(), 8);
    link.pipe = 100;
    let mut now = Instant(1 << 40);
    for _ in 0..200 {
        link.round(&mut now, &mut p);
    }
    let total: u32 = p.iter().map(|p| p.window()).sum();
    assert!(total < 160, "{total}");
}

#[test]
fn tail_drop_on_top_of_random_loss_shrinks_the_window() {
    for loss in [100, 500] {
        let mut link = Link {
            buffer: 50,
            loss,
            ..Link::new(200)
        };
        let (o, _) = run(&mut link, ecn(), 8);
        assert!(
            o.goodput + 80 >= 1000 - u64::from(loss) / 10,
            "{}",
            o.goodput
        );
        assert!(o.dropped <= 210, "{}", o.dropped);
    }
}

#[test]
fn delay_bounds_a_deep_queue() {
    let mut link = Link::new(10);
    let (o, _) = run(&mut link, ecn(), 8);
    // 2 ms are 200 packets here.
    assert!((100..=260).contains(&o.queue), "{}", o.queue);
    assert!(o.goodput >= 990);
}

#[test]
fn a_longer_route_is_not_taken_for_a_queue_for_good() {
    let mut link = Link::new(100_000);
    let (_, mut p) = run(&mut link, ecn(), 1);
    link.base = Duration::from_millis(20);
    let mut now = Instant(1 << 40);
    for _ in 0..1500 {
        link.round(&mut now, &mut p);
    }
    assert_eq!(p[0].window(), 240);
}

#[test]
fn the_window_opens_at_forty_milliseconds() {
    let mut link = Link {
        base: Duration::from_millis(40),
        ..Link::new(100_000)
    };
    let mut p = [ecn()];
    let mut now = Instant(1);
    for _ in 0..6 {
        link.round(&mut now, &mut p);
    }
    assert_eq!(p[0].window(), 240);
    // And again after congestion, within a few seconds.
    p[0].on_mark(&MarkEvent {
        now,
        marked: 100,
        acked: 100,
        in_flight: 240,
    });
    let mut rounds = 0;
    while p[0].window() < 240 {
        link.round(&mut now, &mut p);
        rounds += 1;
    }
    assert!(rounds < 60, "{rounds}");
}

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
fn the_delay_law_keeps_its_target() {
    let mut link = Link::new(100);
    let (o, p) = run(&mut link, Controller::by_name("delay").unwrap(), 8);
    assert!(o.goodput >= 950, "{}", o.goodput);
    let Controller::Delay(law) = &p[0] else {
        unreachable!()
    };
    let above = law.target().0 - link.base.0;
    let most = u64::from(link.pipe) * above / link.base.0;
    assert!(o.queue <= most * 3 / 2, "{} of {most}", o.queue);
    assert!(o.queue >= most / 4, "{} of {most}", o.queue);
}

#[test]
fn the_delay_law_does_not_mind_random_loss() {
    let mut link = Link {
        loss: 500,
        ..Link::new(100_000)
    };
    let (_, p) = run(&mut link, Controller::by_name("delay").unwrap(), 4);
    assert!(p.iter().all(|p| p.window() == 240), "{p:?}");
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
