// SPDX-License-Identifier: GPL-2.0

//! Another route for a path.

use super::*;

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
