// SPDX-License-Identifier: GPL-2.0

//! What the law of ECN makes of marks, loss and delay.

use super::*;

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
