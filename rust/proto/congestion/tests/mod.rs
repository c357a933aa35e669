// SPDX-License-Identifier: GPL-2.0

//! The laws over a bottleneck, and against what no bottleneck does.

mod any_law;
mod by_delay;
mod by_ecn;
mod pacing;

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
