// SPDX-License-Identifier: GPL-2.0

//! The receiving half.

use super::*;

fn arrive(p: &mut TestPath, n: u32) -> Rx {
    arrive_with(p, n, false)
}

fn arrive_with(p: &mut TestPath, n: u32, ack_req: bool) -> Rx {
    p.rx.check(&Received {
        now: at(u64::from(n)),
        psn: FIRST.add(n),
        stamp: Stamp(n),
        route_epoch: 0,
        ack_req,
        arrival: Arrival::default(),
    })
}

fn report(p: &mut TestPath) -> AckBlock {
    p.rx.report(at(1_000), PathId(3)).unwrap()
}

#[test]
fn packets_in_order_need_no_vector() {
    let mut p = path(1);
    assert!(p.rx.report(START, PathId(0)).is_none());
    for n in 0..31 {
        assert_eq!(arrive(&mut p, n), Rx::New);
        p.rx.accept(FIRST.add(n));
        assert!(!p.rx.ack_due());
        assert!(p.rx.unreported());
    }
    assert_eq!(arrive(&mut p, 31), Rx::New);
    assert!(p.rx.ack_due());
    p.rx.accept(FIRST.add(31));
    let b = report(&mut p);
    assert_eq!(
        (b.path, b.cum, b.stamp),
        (PathId(3), FIRST.add(32), Stamp(31))
    );
    assert!(b.acked.is_empty() && b.held.is_empty());
    assert_eq!(u64::from(b.hold), (1_000 - 31) * 1_000 / 64);
    assert!(!p.rx.ack_due() && !p.rx.unreported());
}

#[test]
fn holes_are_reported_at_once() {
    let mut p = path(1);
    for n in [0, 2, 5] {
        assert_eq!(arrive(&mut p, n), Rx::New);
        p.rx.accept(FIRST.add(n));
        assert_eq!(p.rx.ack_due(), n != 0);
    }
    let b = report(&mut p);
    assert_eq!(b.cum, FIRST.add(1));
    assert_eq!(b.acked.words(), [0b1001, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(arrive(&mut p, 1), Rx::New);
    p.rx.accept(FIRST.add(1));
    assert!(p.rx.ack_due());
    assert_eq!(report(&mut p).cum, FIRST.add(3));
    assert_eq!(p.rx.stats().gaps, 2);
}

#[test]
fn each_psn_is_taken_once_within_the_span() {
    let mut p = path(1);
    assert_eq!(arrive(&mut p, 255), Rx::New);
    assert_eq!(arrive(&mut p, 255), Rx::Duplicate);
    assert_eq!(arrive(&mut p, 256), Rx::Outside);
    assert_eq!(arrive(&mut p, 0), Rx::New);
    p.rx.accept(FIRST);
    p.rx.accept(FIRST.add(255));
    assert_eq!(arrive(&mut p, 0), Rx::Duplicate);
    assert_eq!(arrive(&mut p, 255), Rx::Duplicate);
    assert_eq!(arrive(&mut p, 256), Rx::New);
    let b = report(&mut p);
    assert_eq!(b.cum, FIRST.add(1));
    assert!(b.acked.get(253) && b.acked.count() == 1);
    assert!(b.held.get(255) && b.held.count() == 1);
    let s = p.rx.stats();
    assert_eq!((s.packets, s.duplicates, s.outside), (3, 3, 1));
}

#[test]
fn pending_packets_are_held_and_followed_up() {
    let mut p = path(1);
    for n in 0..4 {
        arrive_with(&mut p, n, n == 3);
    }
    for n in [0, 2, 3] {
        p.rx.accept(FIRST.add(n));
    }
    assert!(p.rx.is_pending(FIRST.add(1)) && !p.rx.is_pending(FIRST.add(2)));
    let b = report(&mut p);
    assert_eq!(b.cum, FIRST.add(1));
    assert_eq!((b.acked.count(), b.held.count()), (2, 1));
    assert!(b.held.get(0));
    // The peer waits for news of it.
    assert!(!p.rx.ack_due());
    p.rx.accept(FIRST.add(1));
    assert!(p.rx.ack_due());
    assert_eq!(report(&mut p).cum, FIRST.add(4));
    // Twice does no harm.
    p.rx.accept(FIRST.add(1));
    p.rx.abort(FIRST.add(1));
    assert!(!p.rx.ack_due());
}

#[test]
fn what_is_aborted_comes_again() {
    let mut p = path(1);
    arrive(&mut p, 0);
    arrive(&mut p, 1);
    p.rx.accept(FIRST.add(1));
    report(&mut p);
    p.rx.abort(FIRST);
    assert!(p.rx.ack_due());
    let b = report(&mut p);
    assert!(b.held.is_empty() && b.cum == FIRST);
    assert_eq!(arrive(&mut p, 0), Rx::New);
    p.rx.accept(FIRST);
    assert_eq!(report(&mut p).cum, FIRST.add(2));
}

#[test]
fn marks_probes_and_duplicates_bring_an_ack() {
    let mut p = path(1);
    p.rx.probe(START, Stamp(77), 9, Arrival::default());
    assert!(p.rx.ack_due());
    let b = report(&mut p);
    assert_eq!((b.stamp, b.route_epoch, b.cum), (Stamp(77), 9, FIRST));
    arrive(&mut p, 0);
    p.rx.accept(FIRST);
    report(&mut p);
    arrive(&mut p, 0);
    assert!(p.rx.ack_due());
    report(&mut p);
    let marked = Received {
        now: START,
        psn: FIRST.add(1),
        stamp: Stamp(5),
        route_epoch: 0,
        ack_req: false,
        arrival: Arrival {
            ce: true,
            local: false,
        },
    };
    assert_eq!(p.rx.check(&marked), Rx::New);
    assert!(p.rx.ack_due());
    assert_eq!(report(&mut p).ce_count, 1);
}

#[test]
fn one_packet_from_a_link_makes_the_report_not_local() {
    let mut p = path(1);
    let mut n = 0;
    let mut arrive = |p: &mut TestPath, local: bool| {
        let packet = Received {
            now: START,
            psn: FIRST.add(n),
            stamp: Stamp(n),
            route_epoch: 0,
            ack_req: false,
            arrival: Arrival { ce: false, local },
        };
        n += 1;
        assert_eq!(p.rx.check(&packet), Rx::New);
        p.rx.accept(packet.psn);
    };
    assert!(!p.rx.is_local());
    arrive(&mut p, true);
    arrive(&mut p, true);
    assert!(p.rx.is_local());
    arrive(&mut p, false);
    arrive(&mut p, true);
    assert!(!p.rx.is_local());
    report(&mut p);
    // Nothing new has come that would tell anything else.
    assert!(!p.rx.is_local());
    arrive(&mut p, true);
    assert!(p.rx.is_local());
    report(&mut p);
    let from_link = Arrival::default();
    p.rx.probe(START, Stamp(99), 0, from_link);
    assert!(!p.rx.is_local());
}
