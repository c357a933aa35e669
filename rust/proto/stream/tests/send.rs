// SPDX-License-Identifier: GPL-2.0

use std::vec::Vec;

use super::*;
use crate::packet::{DataFields, NakCode, Opcode, StreamFlags, TxDesc};
use crate::psn::{Msn, Rsn};
use crate::time::{Duration, Instant};

const T0: Instant = Instant(1_000_000);
const START: Msn = Msn(0xffff_fff0);

/// Sends everything that may be sent.
fn pump(s: &mut Sender, now: Instant) -> Vec<TxDesc> {
    let mut sent = Vec::new();
    while let Some(desc) = s.next_segment(now) {
        assert!(s.packet(&desc).is_some(), "cannot build {desc:?}");
        assert!(s.commit(now, &desc));
        s.assert_invariants();
        assert!(s.packet(&desc).is_some(), "cannot rebuild {desc:?}");
        sent.push(desc);
    }
    sent
}

fn ack_all(s: &mut Sender, now: Instant, descs: &[TxDesc]) {
    for desc in descs {
        s.on_acked(now, desc);
        s.assert_invariants();
    }
}

fn nak(code: NakCode, msn: Msn, epoch: u16) -> DataFields {
    DataFields {
        opcode: Opcode::Nak,
        dst_qpn: A,
        src_qpn: B,
        msn,
        epoch,
        code,
        rnr_timer: 1,
        ..DataFields::default()
    }
}

fn completed(s: &mut Sender) -> Vec<(u32, WcStatus)> {
    core::iter::from_fn(|| s.pop_completed())
        .map(|c| (c.cookie, c.status))
        .collect()
}

#[test]
fn segments_by_mtu() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 2_500, 1)).unwrap();
    s.post(T0, &work(SendOp::Send, 0, 2)).unwrap();
    let sent = pump(&mut s, T0);
    let shape: Vec<_> = sent
        .iter()
        .map(|d| (d.msn, d.offset, d.len, d.flags.has(StreamFlags::LAST)))
        .collect();
    assert_eq!(
        shape,
        [
            (START, 0, 1024, false),
            (START, 1024, 1024, false),
            (START, 2048, 452, true),
            (START.add(1), 0, 0, true)
        ]
    );
    // Any order of acknowledgement, completions in order.
    ack_all(&mut s, T0, &sent[3..]);
    assert_eq!(completed(&mut s), []);
    ack_all(&mut s, T0, &[sent[2], sent[0]]);
    assert_eq!(completed(&mut s), []);
    ack_all(&mut s, T0, &sent[1..2]);
    assert_eq!(
        completed(&mut s),
        [(1, WcStatus::Success), (2, WcStatus::Success)]
    );
    assert!(s.is_empty());
    assert_eq!(s.poll_timeout(), None);
}

#[test]
fn exact_multiple_of_mtu_has_no_empty_packet() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 2_048, 1)).unwrap();
    let sent = pump(&mut s, T0);
    assert_eq!(sent.len(), 2);
    assert!(sent[1].flags.has(StreamFlags::LAST));
}

#[test]
fn peek_without_commit_changes_nothing() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 2_048, 1)).unwrap();
    let first = s.next_segment(T0).unwrap();
    assert_eq!(s.next_segment(T0), Some(first));
    assert!(s.commit(T0, &first));
    assert!(!s.commit(T0, &first), "a packet is taken once");
    assert_eq!(s.next_segment(T0).unwrap().offset, 1024);
}

#[test]
fn fields_carry_what_the_opcode_needs() {
    let mut s = sender(send_config());
    let ops = [
        SendOp::Send,
        SendOp::SendImm,
        SendOp::SendInv,
        SendOp::Write,
        SendOp::WriteImm,
        SendOp::Read,
        SendOp::CmpSwap,
        SendOp::FetchAdd,
    ];
    for (i, op) in ops.iter().enumerate() {
        let w = SendWork {
            imm_or_inv: 0xabcd,
            compare_add: 11,
            swap: 12,
            solicited: true,
            ..work(*op, 8, u32::try_from(i).unwrap())
        };
        s.post(T0, &w).unwrap();
    }
    let fields: Vec<_> = pump(&mut s, T0)
        .iter()
        .map(|d| s.packet(d).unwrap().fields)
        .collect();
    assert!(fields
        .iter()
        .all(|f| f.dst_qpn == B && f.src_qpn == A && f.flags.has(StreamFlags::SOLICITED)));
    let rsns: Vec<_> = fields.iter().map(|f| f.rsn).collect();
    // Receives are numbered over the messages that consume one.
    assert_eq!(rsns[..3], [Rsn(0), Rsn(1), Rsn(2)]);
    assert_eq!(rsns[4], Rsn(3));
    assert_eq!((fields[1].imm, fields[1].rkey), (0xabcd, 0));
    assert_eq!((fields[2].imm, fields[2].rkey), (0, 0xabcd));
    assert_eq!((fields[3].va, fields[3].rkey), (0x1_0000, 7));
    assert_eq!((fields[4].imm, fields[4].rkey), (0xabcd, 7));
    assert_eq!((fields[5].length, fields[5].va), (8, 0x1_0000));
    assert_eq!((fields[6].compare_add, fields[6].swap), (11, 12));
    assert_eq!(fields[7].opcode, Opcode::FetchAdd);
}

#[test]
fn ring_bounds_what_is_outstanding() {
    let mut s = sender(send_config());
    for i in 0..MSG_WINDOW {
        assert!(s.can_post());
        s.post(T0, &work(SendOp::Write, 1, i)).unwrap();
    }
    assert!(!s.can_post());
    assert_eq!(s.post(T0, &work(SendOp::Write, 1, 0)), Err(QueueFull));
    let sent = pump(&mut s, T0);
    ack_all(&mut s, T0, &sent);
    assert!(!s.can_post(), "room comes when the completion is taken");
    assert_eq!(completed(&mut s).len(), 128);
    assert!(s.can_post());
}

#[test]
fn empty_storage_takes_nothing() {
    let mut s = SendStream::new(Vec::<SendMsg>::new(), send_config());
    assert!(!s.can_post());
    assert_eq!(s.post(T0, &work(SendOp::Write, 1, 0)), Err(QueueFull));
    assert_eq!(s.next_segment(T0), None);
    assert_eq!(s.pop_completed(), None);
}

#[test]
fn fence_waits_for_reads() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Read, 8, 1)).unwrap();
    s.post(
        T0,
        &SendWork {
            fence: true,
            ..work(SendOp::Send, 8, 2)
        },
    )
    .unwrap();
    let sent = pump(&mut s, T0);
    assert_eq!(sent.len(), 1);
    s.on_acked(T0, &sent[0]);
    assert_eq!(s.next_segment(T0), None, "the ack of the request is not it");
    respond(&mut s, START, 8);
    assert_eq!(pump(&mut s, T0).len(), 1);
}

fn respond(s: &mut Sender, msn: Msn, len: u32) {
    let f = DataFields {
        opcode: Opcode::ReadResponse,
        flags: StreamFlags::LAST,
        dst_qpn: A,
        src_qpn: B,
        msn,
        ..DataFields::default()
    };
    assert!(matches!(
        s.on_response(&f, len),
        ResponseTarget::Place { offset: 0, .. }
    ));
    s.response_placed(T0, &f);
    s.assert_invariants();
}

#[test]
fn reads_are_limited() {
    let mut s = sender(SendConfig {
        max_rd_atomic: 2,
        ..send_config()
    });
    for i in 0..3 {
        s.post(T0, &work(SendOp::Read, 8, i)).unwrap();
    }
    s.post(T0, &work(SendOp::Send, 8, 3)).unwrap();
    assert_eq!(pump(&mut s, T0).len(), 2, "and nothing passes the third");
    respond(&mut s, START.add(1), 8);
    assert_eq!(pump(&mut s, T0).len(), 2);
    assert_eq!(completed(&mut s), []);
    respond(&mut s, START, 8);
    assert_eq!(
        completed(&mut s),
        [(0, WcStatus::Success), (1, WcStatus::Success)]
    );
}

#[test]
fn invalid_requests_fail_in_their_turn() {
    let cases = [
        (work(SendOp::Read, 8, 2), WcStatus::LocalQpOperation),
        (
            work(SendOp::Write, MAX_MSG_LEN + 1, 2),
            WcStatus::LocalLength,
        ),
    ];
    for (bad, status) in cases {
        let mut s = sender(SendConfig {
            max_rd_atomic: 0,
            ..send_config()
        });
        s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
        s.post(T0, &bad).unwrap();
        s.post(T0, &work(SendOp::Send, 8, 3)).unwrap();
        let sent = pump(&mut s, T0);
        assert_eq!(sent.len(), 1);
        assert_eq!(completed(&mut s), []);
        ack_all(&mut s, T0, &sent);
        assert_eq!(
            completed(&mut s),
            [(1, WcStatus::Success), (2, status), (3, WcStatus::Flushed)]
        );
        assert!(s.is_flushing());
        s.post(T0, &work(SendOp::Send, 8, 4)).unwrap();
        assert_eq!(s.next_segment(T0), None);
        assert_eq!(completed(&mut s), [(4, WcStatus::Flushed)]);
        assert_eq!(s.poll_timeout(), None);
    }
}

#[test]
fn broken_work_ends_with_the_callers_status() {
    let mut s = sender(send_config());
    s.post_broken(T0, &work(SendOp::Send, 8, 1), WcStatus::LocalProtection)
        .unwrap();
    assert_eq!(completed(&mut s), [(1, WcStatus::LocalProtection)]);
}

#[test]
fn a_restart_sends_everything_again() {
    let mut s = sender(send_config());
    for cookie in 1..=3 {
        s.post(T0, &work(SendOp::Write, 1500, cookie)).unwrap();
    }
    let sent = pump(&mut s, T0);
    assert!(s.is_untouched());
    s.on_nak(T0, &nak(NakCode::NotReady, START, sent[0].epoch));
    assert!(pump(&mut s, T0).is_empty());
    s.restart(T0);
    s.assert_invariants();
    let again = pump(&mut s, T0);
    assert_eq!(again.len(), sent.len());
    assert!(again[0].epoch != sent[0].epoch);
    // What the other connection acknowledges late does not count.
    ack_all(&mut s, T0, &sent);
    assert!(s.is_untouched());
    assert!(completed(&mut s).is_empty());
    ack_all(&mut s, T0, &again[..1]);
    assert!(!s.is_untouched());
    ack_all(&mut s, T0, &again[1..]);
    assert!(!s.is_untouched());
    assert_eq!(completed(&mut s).len(), 3);
}

#[test]
fn rnr_retries_are_exact() {
    for retries in 0..7u8 {
        let mut s = sender(SendConfig {
            rnr_retry: retries,
            ..send_config()
        });
        s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
        let mut now = T0;
        let mut attempts = 0;
        while completed(&mut s).is_empty() {
            let sent = pump(&mut s, now);
            assert_eq!(sent.len(), 1);
            attempts += 1;
            s.on_nak(now, &nak(NakCode::Rnr, START, sent[0].epoch));
            if let Some(at) = s.poll_timeout() {
                assert_eq!(at, now.after(Duration::from_micros(10)));
                assert_eq!(s.next_segment(now), None);
                now = at;
                s.on_timeout(now, T0);
            }
        }
        assert_eq!(attempts, u32::from(retries) + 1);
    }
}

#[test]
fn rnr_status_and_infinite_retry() {
    let mut s = sender(SendConfig {
        rnr_retry: 0,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
    pump(&mut s, T0);
    s.on_nak(T0, &nak(NakCode::Rnr, START, 0));
    assert_eq!(completed(&mut s), [(1, WcStatus::RnrRetryExceeded)]);

    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
    let mut now = T0;
    for _ in 0..70_000 {
        // Past the wrap of the epoch.
        let sent = pump(&mut s, now);
        s.on_nak(now, &nak(NakCode::Rnr, START, sent[0].epoch));
        now = s.poll_timeout().unwrap();
        s.on_timeout(now, T0);
    }
    let sent = pump(&mut s, now);
    ack_all(&mut s, now, &sent);
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
}

#[test]
fn rnr_count_starts_again_with_progress() {
    let mut s = sender(SendConfig {
        rnr_retry: 1,
        ..send_config()
    });
    let mut now = T0;
    for i in 0..5 {
        s.post(now, &work(SendOp::Send, 8, i)).unwrap();
        let sent = pump(&mut s, now);
        s.on_nak(now, &nak(NakCode::Rnr, START.add(i), sent[0].epoch));
        now = s.poll_timeout().unwrap();
        s.on_timeout(now, T0);
        let sent = pump(&mut s, now);
        ack_all(&mut s, now, &sent);
        assert_eq!(completed(&mut s), [(i, WcStatus::Success)]);
    }
}

#[test]
fn a_refused_message_waits_for_those_before_it() {
    let mut s = sender(SendConfig {
        rnr_retry: 0,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    s.post(T0, &work(SendOp::Send, 8, 2)).unwrap();
    let sent = pump(&mut s, T0);
    s.on_nak(T0, &nak(NakCode::Rnr, START.add(1), 0));
    assert_eq!(completed(&mut s), [], "it overtook, so it does not count");
    let later = T0.after(Duration::from_millis(1));
    s.on_timeout(later, T0);
    assert_eq!(s.next_segment(later), None);
    ack_all(&mut s, later, &sent[..1]);
    let wait_over = later.after(Duration::from_millis(1));
    s.on_timeout(wait_over, T0);
    let again = pump(&mut s, wait_over);
    assert_eq!((again[0].msn, again[0].epoch), (START.add(1), 1));
    s.on_nak(wait_over, &nak(NakCode::Rnr, START.add(1), 1));
    assert_eq!(
        completed(&mut s),
        [(1, WcStatus::Success), (2, WcStatus::RnrRetryExceeded)]
    );
}

#[test]
fn go_back_discounts_the_earlier_attempt() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    s.post(T0, &work(SendOp::Send, 2_000, 2)).unwrap();
    s.post(T0, &work(SendOp::Write, 8, 3)).unwrap();
    let first = pump(&mut s, T0);
    // The Write behind is acknowledged because it was discarded.
    ack_all(&mut s, T0, &first[3..]);
    s.on_nak(T0, &nak(NakCode::Rnr, START.add(1), 0));
    s.assert_invariants();
    // What was in flight becomes Void, and its acknowledgements count for nothing.
    assert!(s.packet(&first[0]).is_some());
    assert!(s.packet(&first[1]).is_none() && s.packet(&first[3]).is_none());
    ack_all(&mut s, T0, &first);
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
    // The same NAK again, and one from before, say nothing new.
    let deadline = s.poll_timeout();
    s.on_nak(T0.after(Duration(5)), &nak(NakCode::Rnr, START.add(1), 0));
    assert_eq!(s.poll_timeout(), deadline);
    let now = deadline.unwrap();
    s.on_timeout(now, T0);
    let second = pump(&mut s, now);
    assert_eq!(second.len(), 3);
    assert!(second.iter().all(|d| d.epoch == 1));
    s.on_nak(now, &nak(NakCode::InvalidRequest, START.add(2), 0));
    ack_all(&mut s, now, &second);
    assert_eq!(
        completed(&mut s),
        [(2, WcStatus::Success), (3, WcStatus::Success)]
    );
}

#[test]
fn two_refusals_in_either_order() {
    // The responder refuses message 2, then message 1, both of the first attempt.
    let late = nak(NakCode::Rnr, START.add(2), 0);
    let early = nak(NakCode::Rnr, START.add(1), 0);
    for (order, epoch) in [([late, early], 2), ([early, late], 1)] {
        let mut s = sender(send_config());
        for i in 0..4 {
            s.post(T0, &work(SendOp::Send, 8, i)).unwrap();
        }
        let first = pump(&mut s, T0);
        for f in &order {
            s.on_nak(T0, f);
            s.assert_invariants();
        }
        ack_all(&mut s, T0, &first);
        assert_eq!(completed(&mut s), [(0, WcStatus::Success)]);
        let now = s.poll_timeout().unwrap();
        s.on_timeout(now, T0);
        let second = pump(&mut s, now);
        assert_eq!(second.len(), 3);
        assert!(second.iter().all(|d| d.epoch == epoch), "{second:?}");
        ack_all(&mut s, now, &second);
        assert_eq!(completed(&mut s).len(), 3);
    }
}

#[test]
fn fatal_naks_let_earlier_messages_complete() {
    let cases = [
        (NakCode::InvalidRequest, WcStatus::RemoteInvalidRequest, 9),
        (NakCode::RemoteAccess, WcStatus::RemoteAccess, 10),
        (NakCode::RemoteOperation, WcStatus::RemoteOperation, 11),
    ];
    for (code, status, ib) in cases {
        assert_eq!(status.to_ib(), ib);
        let mut s = sender(send_config());
        for i in 0..4 {
            s.post(T0, &work(SendOp::Write, 8, i)).unwrap();
        }
        let sent = pump(&mut s, T0);
        s.on_nak(T0, &nak(code, START.add(2), 0));
        assert_eq!(completed(&mut s), []);
        assert!(s.packet(&sent[1]).is_some());
        assert!(s.packet(&sent[2]).is_none() && s.packet(&sent[3]).is_none());
        ack_all(&mut s, T0, &sent);
        assert_eq!(
            completed(&mut s),
            [
                (0, WcStatus::Success),
                (1, WcStatus::Success),
                (2, status),
                (3, WcStatus::Flushed)
            ]
        );
    }
}

#[test]
fn an_earlier_go_back_supersedes_a_fatal_nak() {
    let fatal = nak(NakCode::RemoteAccess, START.add(2), 0);
    let retry = nak(NakCode::Rnr, START.add(1), 0);
    for order in [[fatal, retry], [retry, fatal]] {
        let mut s = sender(send_config());
        for i in 0..3 {
            s.post(T0, &work(SendOp::Send, 8, i)).unwrap();
        }
        let first = pump(&mut s, T0);
        for f in &order {
            s.on_nak(T0, f);
        }
        ack_all(&mut s, T0, &first);
        let now = s.poll_timeout().unwrap();
        s.on_timeout(now, T0);
        assert_eq!(pump(&mut s, now).len(), 2);
    }
}

#[test]
fn naks_of_strangers_and_for_nothing_are_ignored() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Send, 8, 1)).unwrap();
    s.on_nak(T0, &nak(NakCode::RemoteAccess, START, 0));
    let sent = pump(&mut s, T0);
    let stranger = DataFields {
        src_qpn: Qpn(0x33),
        ..nak(NakCode::RemoteAccess, START, 0)
    };
    s.on_nak(T0, &stranger);
    s.on_nak(T0, &nak(NakCode::RemoteAccess, START.add(1), 0));
    s.on_nak(T0, &nak(NakCode::RemoteAccess, START.sub(1), 0));
    let anonymous = DataFields {
        src_qpn: Qpn(0),
        ..nak(NakCode::RemoteAccess, START, 0)
    };
    s.on_nak(T0, &anonymous);
    ack_all(&mut s, T0, &sent);
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
}

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
        now = s.poll_timeout().unwrap();
        s.on_timeout(now, T0);
    }
    assert_eq!(completed(&mut s), []);
}

#[test]
fn moving_to_error_flushes_in_order() {
    let mut s = sender(send_config());
    for i in 0..4 {
        s.post(T0, &work(SendOp::Write, 8, i)).unwrap();
    }
    let sent = pump(&mut s, T0);
    ack_all(&mut s, T0, &[sent[0], sent[2]]);
    s.fail(WcStatus::Flushed);
    assert!(sent.iter().all(|d| s.packet(d).is_none()));
    ack_all(&mut s, T0, &sent[1..2]);
    assert_eq!(
        completed(&mut s),
        [
            (0, WcStatus::Success),
            (1, WcStatus::Flushed),
            (2, WcStatus::Flushed),
            (3, WcStatus::Flushed)
        ]
    );

    // With nothing posted, what is posted later is flushed.
    let mut s = sender(send_config());
    s.fail(WcStatus::RetryExceeded);
    assert!(s.is_flushing());
    s.post(T0, &work(SendOp::Write, 8, 9)).unwrap();
    assert_eq!(completed(&mut s), [(9, WcStatus::Flushed)]);

    // Likewise with everything done but not taken.
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    let sent = pump(&mut s, T0);
    ack_all(&mut s, T0, &sent);
    s.fail(WcStatus::RetryExceeded);
    s.post(T0, &work(SendOp::Write, 8, 2)).unwrap();
    assert_eq!(
        completed(&mut s),
        [(1, WcStatus::Success), (2, WcStatus::Flushed)]
    );
    assert!(s.is_flushing());
}

#[test]
fn flushing_goes_on_past_the_ring() {
    let mut s = sender(send_config());
    s.fail(WcStatus::Flushed);
    for round in 0..3 {
        for i in 0..MSG_WINDOW {
            s.post(T0, &work(SendOp::Send, 8, i)).unwrap();
        }
        assert!(!s.can_post());
        assert_eq!(s.next_segment(T0), None);
        assert_eq!(completed(&mut s).len(), 128, "round {round}");
        s.assert_invariants();
    }
}

#[test]
fn draining_finishes_what_is_started() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Send, 2_000, 1)).unwrap();
    s.post(T0, &work(SendOp::Write, 8, 2)).unwrap();
    let first = s.next_segment(T0).unwrap();
    s.commit(T0, &first);
    s.set_draining(true);
    assert!(!s.is_drained());
    let rest = pump(&mut s, T0);
    assert_eq!(rest.len(), 1, "the second packet, not the second message");
    // A refusal does not make it a new message.
    s.on_nak(T0, &nak(NakCode::Rnr, START, 0));
    let now = s.poll_timeout().unwrap();
    s.on_timeout(now, T0);
    let again = pump(&mut s, now);
    assert_eq!(again.len(), 2);
    ack_all(&mut s, now, &again);
    assert!(s.is_drained());
    assert_eq!(s.poll_timeout(), None);
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
    s.set_draining(false);
    assert_eq!(pump(&mut s, now).len(), 1);
}

#[test]
fn local_operations_keep_their_place() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Read, 8, 1)).unwrap();
    s.post(
        T0,
        &SendWork {
            fence: true,
            ..work(SendOp::Local, 0, 2)
        },
    )
    .unwrap();
    s.post(T0, &work(SendOp::Send, 8, 3)).unwrap();
    assert_eq!(pump(&mut s, T0).len(), 1);
    assert_eq!(s.next_local(), None, "fenced");
    respond(&mut s, START, 8);
    assert_eq!(s.next_local(), Some(2));
    assert_eq!(s.next_segment(T0), None);
    s.local_done(T0, Ok(()));
    s.assert_invariants();
    let sent = pump(&mut s, T0);
    assert_eq!(sent[0].msn, START.add(1), "it has no message number");
    // A go-back does not execute it again.
    s.on_nak(T0, &nak(NakCode::Rnr, START.add(1), 0));
    assert_eq!(s.next_local(), None);
    let now = s.poll_timeout().unwrap();
    s.on_timeout(now, T0);
    let sent = pump(&mut s, now);
    ack_all(&mut s, now, &sent);
    assert_eq!(completed(&mut s).len(), 3);

    s.post(T0, &work(SendOp::Local, 0, 4)).unwrap();
    s.post(T0, &work(SendOp::Send, 0, 5)).unwrap();
    s.local_done(T0, Err(WcStatus::MwBind));
    assert_eq!(
        completed(&mut s),
        [(4, WcStatus::MwBind), (5, WcStatus::Flushed)]
    );
}

#[test]
fn a_flush_takes_one_packet_and_one_answer_whatever_it_covers() {
    let mut s = sender(send_config());
    s.post(
        T0,
        &SendWork {
            va: 0x1003,
            imm_or_inv: 0x101,
            ..work(SendOp::Flush, 1 << 20, 1)
        },
    )
    .unwrap();
    s.post(
        T0,
        &SendWork {
            swap: 9,
            ..work(SendOp::AtomicWrite, 0, 2)
        },
    )
    .unwrap();
    let sent = pump(&mut s, T0);
    assert_eq!(sent.len(), 2);
    let f = s.packet(&sent[0]).unwrap().fields;
    assert_eq!(
        (f.opcode, f.length, f.imm, f.va),
        (Opcode::Flush, 1 << 20, 0x101, 0x1003)
    );
    let f = s.packet(&sent[1]).unwrap().fields;
    assert_eq!((f.opcode, f.swap), (Opcode::AtomicWrite, 9));
    ack_all(&mut s, T0, &sent);
    assert_eq!(completed(&mut s), [], "the answers count");
    for msn in 0..2 {
        let answer = DataFields {
            opcode: Opcode::AtomicResponse,
            flags: StreamFlags::LAST,
            src_qpn: send_config().peer_qpn,
            msn: START.add(msn),
            ..DataFields::default()
        };
        assert_eq!(s.on_response(&answer, 0), ResponseTarget::Nothing);
        s.response_placed(T0, &answer);
        s.assert_invariants();
    }
    assert_eq!(completed(&mut s).len(), 2);
}

#[test]
fn a_local_operation_can_wait_for_all_before_it() {
    let mut s = sender(send_config());
    let invalidate = SendWork {
        after_all: true,
        ..work(SendOp::Local, 0, 3)
    };
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    s.post(T0, &work(SendOp::Send, 8, 2)).unwrap();
    s.post(T0, &invalidate).unwrap();
    s.post(T0, &work(SendOp::Send, 8, 4)).unwrap();
    let sent = pump(&mut s, T0);
    assert_eq!(sent.len(), 2, "what follows waits as well");
    ack_all(&mut s, T0, &sent[1..]);
    assert_eq!(s.next_local(), None, "the first is outstanding");
    ack_all(&mut s, T0, &sent[..1]);
    assert_eq!(s.next_local(), Some(3));
    s.local_done(T0, Ok(()));
    s.assert_invariants();
    let sent = pump(&mut s, T0);
    ack_all(&mut s, T0, &sent);
    assert_eq!(completed(&mut s).len(), 4);
    // With nothing before it, it need not wait.
    s.post(T0, &invalidate).unwrap();
    assert_eq!(s.next_local(), Some(3));
}

#[test]
fn many_local_operations_between_messages() {
    let mut s = sender(send_config());
    let mut cookie = 0;
    let mut expected = Vec::new();
    let mut seen = Vec::new();
    for round in 0..500u32 {
        while s.can_post() {
            let op = if cookie % (1 + round % 7) == 0 {
                SendOp::Write
            } else {
                SendOp::Local
            };
            s.post(T0, &work(op, 8, cookie)).unwrap();
            expected.push((cookie, WcStatus::Success));
            cookie += 1;
        }
        loop {
            let sent = pump(&mut s, T0);
            ack_all(&mut s, T0, &sent);
            if s.next_local().is_none() && sent.is_empty() {
                break;
            }
            s.local_done(T0, Ok(()));
        }
        seen.append(&mut completed(&mut s));
    }
    assert_eq!(seen, expected);
}

#[test]
fn responses_are_checked() {
    let response = |offset: u32, last: bool| DataFields {
        opcode: Opcode::ReadResponse,
        flags: if last {
            StreamFlags::LAST
        } else {
            StreamFlags::default()
        },
        dst_qpn: A,
        src_qpn: B,
        msn: START,
        offset,
        ..DataFields::default()
    };
    let fresh = || {
        let mut s = sender(send_config());
        s.post(T0, &work(SendOp::Read, 2_500, 1)).unwrap();
        pump(&mut s, T0);
        s
    };
    // (offset, last, length, status)
    let bad = [
        (2048, true, 453, WcStatus::LocalLength),
        (3072, true, 0, WcStatus::LocalLength),
        (u32::MAX, true, 1, WcStatus::LocalLength),
        (2048, true, 451, WcStatus::BadResponse),
        (0, false, 1023, WcStatus::BadResponse),
        (0, true, 1024, WcStatus::BadResponse),
        (1, false, 1024, WcStatus::BadResponse),
        (2048, false, 452, WcStatus::BadResponse),
    ];
    for (offset, last, len, status) in bad {
        let mut s = fresh();
        assert_eq!(
            s.on_response(&response(offset, last), len),
            ResponseTarget::Mismatch(status),
            "{offset} {last} {len}"
        );
        assert_eq!(completed(&mut s), [(1, status)]);
    }
    let mut s = fresh();
    let atomic = DataFields {
        opcode: Opcode::AtomicResponse,
        ..response(0, true)
    };
    assert_eq!(
        s.on_response(&atomic, 0),
        ResponseTarget::Mismatch(WcStatus::BadResponse)
    );

    let mut s = fresh();
    for (offset, last, len) in [(2048, true, 452), (0, false, 1024), (1024, false, 1024)] {
        let f = response(offset, last);
        assert_eq!(completed(&mut s), []);
        assert_eq!(
            s.on_response(&f, len),
            ResponseTarget::Place { cookie: 1, offset }
        );
        s.response_placed(T0, &f);
    }
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
    assert_eq!(
        s.on_response(&response(0, false), 1024),
        ResponseTarget::Ignore
    );
    // Nothing was asked for yet.
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Read, 2_500, 1)).unwrap();
    assert_eq!(
        s.on_response(&response(0, false), 1024),
        ResponseTarget::Ignore
    );
}

#[test]
fn mtu_can_be_learned_before_the_first_packet() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 1_000, 1)).unwrap();
    assert!(s.set_mtu(512));
    assert_eq!(pump(&mut s, T0).len(), 2);
    assert!(!s.set_mtu(256));
    assert!(s.set_mtu(512));
    s.reset(SendConfig {
        mtu: 256,
        ..send_config()
    });
    s.post(T0, &work(SendOp::Write, 1_000, 1)).unwrap();
    assert_eq!(pump(&mut s, T0).len(), 4);
}

#[test]
fn the_longest_message_is_allowed() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, MAX_MSG_LEN, 1)).unwrap();
    assert_eq!(s.next_segment(T0).map(|d| d.len), Some(1_024));
}

#[test]
fn reset_forgets_the_earlier_life() {
    let mut s = sender(send_config());
    s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
    let old = pump(&mut s, T0);
    s.reset(SendConfig {
        sq_psn: 5,
        ..send_config()
    });
    assert!(s.is_empty());
    assert!(s.packet(&old[0]).is_none());
    s.post(T0, &work(SendOp::Write, 8, 2)).unwrap();
    pump(&mut s, T0);
    ack_all(&mut s, T0, &old);
    s.on_nak(T0, &nak(NakCode::RemoteAccess, START, 0));
    assert_eq!(completed(&mut s), []);
}

#[test]
fn lives_with_the_same_numbers_are_told_apart() {
    let mut s = sender(send_config());
    for life in 0..40_000u32 {
        s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
        s.post(T0, &work(SendOp::Read, 8, 2)).unwrap();
        let old = pump(&mut s, T0);
        assert!(old[0].epoch < 1 << 15, "a new receive stream takes it");
        s.reset(send_config());
        s.reset(send_config());
        s.post(T0, &work(SendOp::Write, 8, 1)).unwrap();
        s.post(T0, &work(SendOp::Read, 8, 2)).unwrap();
        let new = pump(&mut s, T0);
        assert_ne!(new[0].epoch, old[0].epoch, "life {life}");
        assert!(old.iter().all(|d| s.packet(d).is_none()));
        ack_all(&mut s, T0, &old);
        assert_eq!(completed(&mut s), []);
        if new[0].epoch != 0 {
            s.on_nak(T0, &nak(NakCode::RemoteAccess, START, old[0].epoch));
            let stale = DataFields {
                opcode: Opcode::ReadResponse,
                flags: StreamFlags::LAST,
                src_qpn: B,
                msn: START.add(1),
                epoch: old[1].epoch,
                ..DataFields::default()
            };
            assert_eq!(s.on_response(&stale, 8), ResponseTarget::Ignore);
        }
        ack_all(&mut s, T0, &new);
        assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
        s.reset(send_config());
    }
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
