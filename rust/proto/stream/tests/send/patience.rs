// SPDX-License-Identifier: GPL-2.0

//! How long nobody may answer.

use super::*;

#[test]
fn not_ready_consumes_transport_retries() {
    let mut s = sender(SendConfig {
        retry_cnt: 3,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
    let mut now = T0;
    let mut attempts = 0;
    loop {
        let sent = pump(&mut s, now);
        attempts += 1;
        let mut f = nak(NakCode::NotReady, START, sent[0].epoch);
        f.src_qpn = Qpn(0);
        s.on_nak(now, &f);
        let done = completed(&mut s);
        if !done.is_empty() {
            assert_eq!(done, [(1, WcStatus::RetryExceeded)]);
            break;
        }
        let at = s.poll_timeout().unwrap();
        assert_eq!(at, now.after(Duration(4_096 << 14)));
        now = at;
        s.on_timeout(now, T0);
    }
    assert_eq!(attempts, 4);
}

#[test]
fn silence_ends_in_retry_exceeded() {
    let mut s = sender(SendConfig {
        retry_cnt: 2,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    s.post(T0, &work(SendOp::Write, 8, 2)).unwrap();
    let sent = pump(&mut s, T0);
    let period = Duration(4_096 << 14);
    let mut now = T0;
    for _ in 0..2 {
        assert_eq!(s.poll_timeout(), Some(now.after(period)));
        now = now.after(period);
        s.on_timeout(now, T0);
    }
    // An acknowledgement is progress, whichever message it is for.
    now = now.after(Duration::from_millis(10));
    ack_all(&mut s, now, &sent[1..]);
    for _ in 0..3 {
        assert_eq!(completed(&mut s), []);
        assert_eq!(s.poll_timeout(), Some(now.after(period)));
        now = now.after(period);
        s.on_timeout(now, now);
    }
    assert_eq!(
        completed(&mut s),
        [(1, WcStatus::RetryExceeded), (2, WcStatus::Flushed)]
    );
}

#[test]
fn a_pause_of_the_machine_is_one_try() {
    let mut s = sender(SendConfig {
        retry_cnt: 1,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    let sent = pump(&mut s, T0);
    // The timer runs late, and before what has come in the meantime is looked at.
    let late = T0.after(Duration::from_millis(10_000));
    s.on_timeout(late, T0);
    assert_eq!(completed(&mut s), []);
    assert!(s.poll_timeout().is_some_and(|at| at > late));
    ack_all(&mut s, late, &sent);
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
}

#[test]
fn waiting_for_ones_turn_is_not_silence() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    let end = s.poll_timeout().unwrap();
    s.on_timeout(end, end);
    assert_eq!(completed(&mut s), []);
    // But nobody answering at all is.
    for _ in 0..=send_config().retry_cnt {
        assert_eq!(completed(&mut s), []);
        let end = s.poll_timeout().unwrap();
        s.on_timeout(end, T0);
    }
    assert_eq!(completed(&mut s), [(1, WcStatus::RetryExceeded)]);
}

#[test]
fn patience_starts_with_work() {
    let mut s = sender(send_config());
    // That of one try.
    let limit = Duration(4_096 << 14);
    let late = T0.after(Duration::from_millis(10_000));
    s.post(late, &work(SendOp::Write, 8, 1)).unwrap();
    assert_eq!(s.poll_timeout(), Some(late.after(limit)));
    // More work for a busy stream is no progress.
    let later = late.after(Duration(1));
    s.post(later, &work(SendOp::Write, 8, 2)).unwrap();
    assert_eq!(s.poll_timeout(), Some(late.after(limit)));
    let sent = pump(&mut s, later);
    ack_all(&mut s, later, &sent);
    assert_eq!(s.poll_timeout(), None);
}

#[test]
fn timeout_zero_is_infinite() {
    let mut s = sender(SendConfig {
        ack_timeout: 0,
        retry_cnt: 0,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    let mut now = T0;
    for _ in 0..20 {
        let sent = pump(&mut s, now);
        assert_eq!(s.poll_timeout(), None);
        s.on_nak(now, &nak(NakCode::NotReady, START, sent[0].epoch));
        now = expire(&mut s);
    }
    assert_eq!(completed(&mut s), []);
}

#[test]
fn rnr_timer_table() {
    assert_eq!(rnr_timer(0), Duration::from_micros(655_360));
    assert_eq!(rnr_timer(1), Duration::from_micros(10));
    assert_eq!(rnr_timer(12), Duration::from_micros(640));
    assert_eq!(rnr_timer(31), Duration::from_micros(491_520));
    assert_eq!(rnr_timer(32 + 1), rnr_timer(1));
    assert_eq!(local_ack_timeout(0), None);
    assert_eq!(local_ack_timeout(14), Some(Duration(67_108_864)));
    assert_eq!(local_ack_timeout(1), local_ack_timeout(12));
}
