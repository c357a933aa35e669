// SPDX-License-Identifier: GPL-2.0

use std::vec::Vec;

use super::*;
use crate::bits::Bits256;
use crate::congestion::FixedWindow;
use crate::packet::{Opcode, PathId, TxDesc};
use crate::recovery::{LossCause, Timers};
use crate::time::{Duration, Instant, Stamp};
use crate::wire::AckBlock;

type TestPath = Path<Vec<TxSlot>>;

/// A PSN that wraps soon.
const FIRST: Psn = Psn(0xffff_fff0);
const START: Instant = Instant(1_000_000_000);

fn path(window: u32) -> TestPath {
    let mut p = Path::new(std::vec![TxSlot::default(); SPAN as usize]).unwrap();
    let cc = Controller::Fixed(FixedWindow::new(window));
    p.restart(FIRST, FIRST, Route::default(), cc);
    p
}

fn desc(n: u32) -> TxDesc {
    TxDesc {
        opcode: Opcode::Write,
        offset: n,
        len: 100,
        ..TxDesc::default()
    }
}

fn at(us: u64) -> Instant {
    START.after(Duration::from_micros(us))
}

/// Sends `n` packets at `now`.
fn send(p: &mut TestPath, now: Instant, n: u32) -> Vec<Tx> {
    (0..n)
        .map(|i| p.tx.assign(now, desc(i), i + 1 == n).unwrap())
        .collect()
}

/// A block that acknowledges what is before `cum` and these, and echoes `echo`.
fn block(echo: &Tx, cum: u32, also: &[u32]) -> AckBlock {
    let mut b = AckBlock {
        route_epoch: echo.route_epoch,
        cum: FIRST.add(cum),
        stamp: echo.stamp,
        ..AckBlock::default()
    };
    for i in also {
        b.acked.set((i - cum - 1) as u8);
    }
    b
}

fn popped(p: &mut TestPath) -> Vec<u32> {
    let mut all: Vec<u32> = core::iter::from_fn(|| p.tx.pop_acked())
        .map(|acked| acked.desc.offset)
        .collect();
    all.sort_unstable();
    all
}

fn lost(p: &mut TestPath) -> Vec<u32> {
    core::iter::from_fn(|| p.tx.pick_lost())
        .map(|(psn, _)| psn.ahead_of(FIRST))
        .collect()
}

#[test]
fn too_few_slots_make_no_path() {
    assert!(TestPath::new(std::vec![TxSlot::default(); 255]).is_none());
}

#[test]
fn the_window_holds() {
    let mut p = path(10);
    let sent = send(&mut p, START, 10);
    assert_eq!(p.tx.room(), 0);
    assert!(p.tx.assign(START, desc(10), true).is_none());
    p.tx.on_ack(at(100), &block(&sent[3], 4, &[]));
    assert_eq!(p.tx.in_flight(), 6);
    // Places are free once they are popped, and the ring is far from full.
    assert_eq!(p.tx.room(), 4);
}

#[test]
fn naks_have_a_reserve_of_the_span() {
    let mut p = path(1_000);
    send(&mut p, START, SPAN - NAK_RESERVE);
    assert!(p.tx.assign(START, desc(0), true).is_none());
    for _ in 0..NAK_RESERVE {
        assert!(p.tx.room_for_nak());
        assert!(p.tx.assign_internal(START, desc(0)).unwrap().ack_req);
    }
    assert!(!p.tx.room_for_nak());
    assert!(p.tx.assign_internal(START, desc(0)).is_none());
    // What is the connection's own is not popped.
    let echo = Tx {
        psn: FIRST,
        stamp: Stamp((START.0 >> 6) as u32 + 255),
        route_epoch: 0,
        ack_req: false,
        cause: None,
    };
    let out = p.tx.on_ack(at(100), &block(&echo, SPAN, &[]));
    assert_eq!(out.acked, SPAN);
    assert_eq!(popped(&mut p).len() as u32, SPAN - NAK_RESERVE);
    assert!(p.tx.is_idle());
}

#[test]
fn unpopped_places_are_not_used_again() {
    let mut p = path(1_000);
    let sent = send(&mut p, START, 240);
    p.tx.on_ack(at(100), &block(&sent[239], 240, &[]));
    assert_eq!(p.tx.room(), 16);
    send(&mut p, at(200), 16);
    assert_eq!(p.tx.room(), 0);
    assert!(!p.tx.room_for_nak());
    assert_eq!(popped(&mut p).len(), 240);
    assert_eq!(p.tx.room(), 224);
}

#[test]
fn acknowledgements_are_asked_for() {
    let mut p = path(200);
    let asked = |p: &mut TestPath, n: u32, last: bool| -> Vec<u32> {
        (0..n)
            .filter(|i| {
                p.tx.assign(START, desc(*i), last && i + 1 == n)
                    .unwrap()
                    .ack_req
            })
            .collect()
    };
    assert_eq!(asked(&mut p, 70, false), [31, 63]);
    assert_eq!(asked(&mut p, 10, true), [9]);
    assert_eq!(asked(&mut p, 33, false), [31]);
    // The window ends the burst whatever the caller thinks.
    assert_eq!(asked(&mut p, 87, false), [30, 62, 86]);
    assert_eq!(p.tx.room(), 0);
}

#[test]
fn stamps_never_repeat() {
    let mut p = path(100);
    let mut sent = send(&mut p, START, 10);
    // The clock may even go back a little.
    sent.extend(send(&mut p, Instant(START.0 - 1_000), 10));
    sent.extend(send(&mut p, at(1), 10));
    for pair in sent.windows(2) {
        assert!(pair[1].stamp.is_after(pair[0].stamp));
    }
    p.tx.request_probe();
    let (probe, ..) = p.tx.probe(at(1)).unwrap();
    assert!(probe.is_after(sent.last().unwrap().stamp));
    assert!(p.tx.probe(at(1)).is_none());
}

#[test]
fn a_gap_is_found_at_once_and_only_it() {
    let mut p = path(100);
    let sent = send(&mut p, START, 10);
    // 2 and 5 are missing; 8 and 9 are still on their way.
    let b = block(&sent[7], 2, &[3, 4, 6, 7]);
    let out = p.tx.on_ack(at(100), &b);
    assert_eq!((out.acked, out.lost, out.spurious), (6, 2, 0));
    assert_eq!(popped(&mut p), [0, 1, 3, 4, 6, 7]);
    assert_eq!(lost(&mut p), [2, 5]);
    assert_eq!(p.tx.in_flight(), 2);
    let again = p.tx.retransmit(at(110), sent[2].psn).unwrap();
    assert_eq!((again.psn, again.ack_req), (sent[2].psn, true));
    assert!(p.tx.retransmit(at(110), sent[2].psn).is_none());
    p.tx.retransmit(at(111), sent[5].psn).unwrap();
    // The same news again proves nothing about the retransmissions.
    assert_eq!(p.tx.on_ack(at(120), &b).lost, 0);
    // 5's arrives, so 2's, sent before it, is lost again. 8 and 9 are too.
    let echo = Tx {
        stamp: at(111).stamp(),
        ..sent[5]
    };
    let out = p.tx.on_ack(at(211), &block(&echo, 2, &[3, 4, 5, 6, 7]));
    assert_eq!((out.acked, out.lost), (1, 3));
    assert_eq!(lost(&mut p), [2, 8, 9]);
    assert_eq!(p.tx.stats().retransmits_gap, 2);
}

#[test]
fn held_packets_are_not_sent_again() {
    let mut p = path(100);
    let sent = send(&mut p, START, 10);
    let mut b = block(&sent[9], 2, &[3, 4, 5, 7, 8, 9]);
    b.held.set(0); // 2
    b.held.set(4); // 6
    let out = p.tx.on_ack(at(100), &b);
    assert_eq!((out.acked, out.lost), (8, 0));
    assert_eq!(p.tx.in_flight(), 0);
    assert!(!p.tx.is_idle());
    // 2 was forgotten by the receiver; a probe tells.
    p.tx.request_probe();
    let (stamp, ..) = p.tx.probe(at(200)).unwrap();
    let mut b = AckBlock { stamp, ..b };
    b.held.clear(0);
    assert_eq!(p.tx.on_ack(at(300), &b).lost, 1);
    assert_eq!(lost(&mut p), [2]);
    p.tx.retransmit(at(300), sent[2].psn).unwrap();
    assert_eq!(p.tx.stats().retransmits_probe, 1);
}

#[test]
fn needless_retransmissions_are_noticed() {
    let mut p = path(100);
    let sent = send(&mut p, START, 3);
    p.tx.on_ack(at(100), &block(&sent[2], 0, &[1, 2]));
    assert_eq!(lost(&mut p), [0]);
    let again = p.tx.retransmit(at(100), sent[0].psn).unwrap();
    assert_eq!((sent[0].cause, again.cause), (None, Some(LossCause::Gap)));
    // The network was not FIFO: 0 arrives before its retransmission can have.
    let out = p.tx.on_ack(at(101), &block(&sent[0], 3, &[]));
    assert_eq!((out.acked, out.spurious), (1, 1));
    let mut spurious: Vec<_> = core::iter::from_fn(|| p.tx.pop_acked())
        .filter_map(|acked| acked.spurious.then_some(acked.desc.offset))
        .collect();
    assert_eq!(spurious, [0]);
    // The place is used again.
    p.tx.assign(at(102), desc(0), true).unwrap();
    spurious.clear();
}

#[test]
fn nonsense_is_ignored() {
    let mut p = path(100);
    let sent = send(&mut p, START, 10);
    // Beyond what was sent.
    let out = p.tx.on_ack(at(100), &block(&sent[9], 11, &[]));
    assert_eq!(out, AckOutcome::default());
    // Vector bits beyond what was sent would fall on the front of the ring.
    let mut b = block(&sent[4], 5, &[]);
    b.acked = Bits256::range(5, 251);
    b.held = Bits256::range(5, 251);
    let out = p.tx.on_ack(at(100), &b);
    assert_eq!((out.acked, out.lost), (5, 0));
    assert_eq!(p.tx.in_flight(), 5);
    // Before what is acknowledged: an old one.
    assert_eq!(p.tx.on_ack(at(100), &block(&sent[2], 3, &[])).acked, 0);
    let s = p.tx.stats();
    assert_eq!((s.bad_acks, s.stale_acks), (1, 1));
}

#[test]
fn another_route_is_given_time() {
    let mut p = path(100);
    let sent = send(&mut p, START, 1);
    p.tx.on_ack(at(1_000), &block(&sent[0], 1, &[]));
    let old = send(&mut p, at(2_000), 4);
    let route = Route {
        src_port: 7,
        ..Route::default()
    };
    p.tx.change_route(at(2_100), route, false);
    assert!(p.tx.probe_due());
    let new = send(&mut p, at(2_100), 1);
    assert_eq!(new[0].route_epoch, 1);
    // The new route is faster than the old one: no loss yet.
    let out = p.tx.on_ack(at(2_200), &block(&new[0], 1, &[5]));
    assert_eq!((out.acked, out.lost), (1, 0));
    // Two round trips later it is.
    let late = send(&mut p, at(4_200), 1);
    let out = p.tx.on_ack(at(4_300), &block(&late[0], 1, &[5, 6]));
    assert_eq!((out.acked, out.lost), (1, 4));
    // An echo of the old route says nothing about the new.
    p.tx.retransmit(at(4_300), old[0].psn).unwrap();
    let out = p.tx.on_ack(at(4_400), &block(&old[3], 1, &[4, 5, 6]));
    assert_eq!((out.acked, out.lost), (1, 0));
}

#[test]
fn a_dead_route_is_not_waited_for() {
    let mut p = path(100);
    let sent = send(&mut p, START, 1);
    p.tx.on_ack(at(1_000), &block(&sent[0], 1, &[]));
    send(&mut p, at(2_000), 4);
    p.tx.change_route(at(2_001), Route::default(), true);
    let (stamp, route, next) = p.tx.probe(at(2_001)).unwrap();
    let route_epoch = route.epoch;
    assert_eq!(next, FIRST.add(5));
    let echo = Tx {
        stamp,
        route_epoch,
        ..sent[0]
    };
    assert_eq!(p.tx.on_ack(at(2_100), &block(&echo, 1, &[])).lost, 4);
    assert_eq!(lost(&mut p), [1, 2, 3, 4]);
}

#[test]
fn a_route_on_trial_is_taken_once_it_answers() {
    let mut p = path(100);
    let sent = send(&mut p, START, 4);
    let route = Route {
        local_plane: 1,
        ..Route::default()
    };
    p.tx.try_route(route);
    assert!(p.tx.probe_due());
    let (stamp, probed, _) = p.tx.probe(at(10)).unwrap();
    assert_eq!((probed.local_plane, probed.epoch), (1, 1));
    assert!(!p.tx.probe_due());
    // Data stays where it is, and other news does not end the trial.
    assert_eq!(p.tx.route(), Route::default());
    assert!(!p.tx.on_ack(at(100), &block(&sent[1], 2, &[])).moved);
    // The answer overtakes what is still on its way on the old route: no loss.
    let echo = Tx {
        stamp,
        route_epoch: 1,
        ..sent[0]
    };
    let out = p.tx.on_ack(at(101), &block(&echo, 2, &[]));
    assert!(out.moved);
    assert_eq!(out.lost, 0);
    assert_eq!(p.tx.route(), probed);
}

#[test]
fn probe_then_timeout_then_back_off() {
    let t = Timers::default();
    let mut p = path(100);
    assert!(p.tx.deadline(&t).is_none());
    let sent = send(&mut p, START, 1);
    p.tx.on_ack(at(10_000), &block(&sent[0], 1, &[]));
    assert!(p.tx.deadline(&t).is_none());
    let sent = send(&mut p, at(20_000), 3);
    // 2 SRTT.
    assert_eq!(p.tx.deadline(&t), Some(at(40_000)));
    assert!(p.tx.on_timeout(at(39_999), &t, true).is_none());
    assert_eq!(p.tx.on_timeout(at(40_000), &t, true), Some(Expired::Probe));
    assert!(p.tx.probe(at(40_000)).is_some());
    // SRTT + 4 RTTVAR.
    assert_eq!(p.tx.deadline(&t), Some(at(70_000)));
    assert_eq!(
        p.tx.on_timeout(at(70_000), &t, true),
        Some(Expired::Timeout(1))
    );
    assert_eq!(lost(&mut p), [1]);
    assert_eq!(p.tx.deadline(&t), Some(at(100_000)));
    assert_eq!(
        p.tx.on_timeout(at(100_000), &t, true),
        Some(Expired::Timeout(2))
    );
    assert_eq!(p.tx.deadline(&t), Some(at(160_000)));
    // What was picked and not sent is offered again.
    assert_eq!(lost(&mut p), [1, 2]);
    p.tx.retransmit(at(100_000), sent[0].psn).unwrap();
    assert_eq!(p.tx.stats().retransmits_timeout, 1);
    // Any sign of life ends the back-off.
    p.tx.on_ack(at(140_000), &block(&sent[1], 1, &[]));
    assert_eq!(p.tx.timeouts(), 0);
    for _ in 0..50 {
        let due = p.tx.deadline(&t).unwrap();
        assert!(due <= p.tx.deadline(&t).unwrap());
        p.tx.on_timeout(due, &t, true);
    }
    let due = p.tx.deadline(&t).unwrap();
    p.tx.on_timeout(due, &t, true);
    assert_eq!(p.tx.deadline(&t), Some(due.after(t.rto_max)));
}

#[test]
fn a_path_is_patient_while_all_stand_still() {
    let t = Timers::default();
    let mut p = path(100);
    let sent = send(&mut p, START, 1);
    p.tx.on_ack(at(100), &block(&sent[0], 1, &[]));
    let sent = send(&mut p, at(200), 3);
    let expire = |p: &mut TestPath, alone| {
        let now = p.tx.deadline(&t).unwrap();
        (now, p.tx.on_timeout(now, &t, alone))
    };
    let (asked, what) = expire(&mut p, false);
    assert_eq!(what, Some(Expired::Probe));
    assert_eq!(expire(&mut p, false).1, None, "put off");
    let (late, what) = expire(&mut p, false);
    assert_eq!(what, Some(Expired::Timeout(1)));
    assert_eq!(late.since(asked), t.rto_patient);
    assert!(p.tx.is_silent());
    // Progress makes it impatient again, if it is the only one that stands still.
    p.tx.on_ack(late, &block(&sent[0], 2, &[]));
    assert!(!p.tx.is_silent());
    assert_eq!(p.tx.progress(), late);
    let (asked, _) = expire(&mut p, true);
    let (soon, what) = expire(&mut p, true);
    assert_eq!(what, Some(Expired::Timeout(1)));
    assert!(soon > asked);
}

#[test]
fn retransmissions_keep_to_the_window() {
    let mut p = path(8);
    let sent = send(&mut p, START, 8);
    // The last arrived: seven are lost, and the window has become small.
    p.tx.set_controller(Controller::Fixed(FixedWindow::new(3)));
    let out = p.tx.on_ack(at(100), &block(&sent[7], 0, &[7]));
    assert_eq!((out.acked, out.lost), (1, 7));
    let first: Vec<_> = core::iter::from_fn(|| p.tx.pick_lost()).collect();
    assert_eq!(first.len(), 3);
    for (psn, _) in first {
        p.tx.retransmit(at(200), psn).unwrap();
    }
    assert!(p.tx.pick_lost().is_none() && p.tx.has_lost());
    // Nothing is heard: after a timeout one goes all the same.
    let t = Timers::default();
    for _ in 0..2 {
        let due = p.tx.deadline(&t).unwrap();
        p.tx.on_timeout(due, &t, true);
    }
    assert_eq!(p.tx.in_flight(), 2);
    assert!(p.tx.pick_lost().is_some());
}

#[test]
fn round_trips_exclude_what_the_receiver_waited() {
    let mut p = path(100);
    let sent = send(&mut p, START, 1);
    let mut b = block(&sent[0], 1, &[]);
    b.hold = (Duration::from_micros(640).0 >> 6) as u32;
    let out = p.tx.on_ack(at(1_000), &b);
    assert_eq!(out.rtt, Some(Duration::from_micros(360)));
    assert_eq!(p.tx.rtt().smoothed(), out.rtt);
}

#[test]
fn marks_are_differences() {
    let mut p = path(100);
    let sent = send(&mut p, START, 4);
    let mut b = block(&sent[0], 1, &[]);
    b.ce_count = 3;
    assert_eq!(p.tx.on_ack(at(10), &b).marked, 3);
    let mut b = block(&sent[2], 3, &[]);
    b.ce_count = 4;
    assert_eq!(p.tx.on_ack(at(11), &b).marked, 1);
    // An older block does not turn the count back.
    let mut b = block(&sent[1], 3, &[]);
    b.ce_count = 3;
    assert_eq!(p.tx.on_ack(at(12), &b).marked, 0);
    assert_eq!(p.tx.stats().marks, 4);
}

// The receiving half.

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

#[test]
fn what_is_said_of_a_route_does_not_hold_for_the_next() {
    let mut p = path(4);
    let block = |p: &TestPath| AckBlock {
        route_epoch: p.tx.route().epoch,
        ..AckBlock::default()
    };
    assert!(!p.tx.is_local());
    let old = block(&p);
    p.tx.note_local(&old, true);
    assert!(p.tx.is_local());
    p.tx.note_local(&old, false);
    assert!(!p.tx.is_local());
    p.tx.note_local(&old, true);
    p.tx.change_route(START, Route::default(), false);
    assert!(!p.tx.is_local());
    // An ACK that was under way.
    p.tx.note_local(&old, true);
    assert!(!p.tx.is_local());
    let new = block(&p);
    p.tx.note_local(&new, true);
    assert!(p.tx.is_local());
    // When nothing is heard any more, it may be for want of a CRC.
    p.tx.assign(START, desc(0), true).unwrap();
    let late = START.after(Duration::from_millis(5_000));
    assert_eq!(
        p.tx.on_timeout(late, &Timers::default(), true),
        Some(Expired::Probe)
    );
    assert!(!p.tx.is_local());
}
