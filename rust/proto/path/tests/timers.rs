// SPDX-License-Identifier: GPL-2.0

//! Silence.

use super::*;

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
