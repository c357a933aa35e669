// SPDX-License-Identifier: GPL-2.0

//! How much may be sent, and what asks for an ACK.

use super::*;

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
