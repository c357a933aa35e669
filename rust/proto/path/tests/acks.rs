// SPDX-License-Identifier: GPL-2.0

//! What an ACK tells: of losses, of round trips, of marks.

use super::*;

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
