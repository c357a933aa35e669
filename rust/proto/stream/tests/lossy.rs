// SPDX-License-Identifier: GPL-2.0

//! Unreliable streams: by example, then both halves over a network that delivers every packet once,
//! in any order, with refusals and silence.

use std::collections::HashMap;

use super::rng::Rng;
use super::*;
use crate::packet::TxDesc;

fn pair() -> (Sender, Receiver) {
    let send = SendConfig {
        max_rd_atomic: 0,
        unreliable: true,
        ..send_config()
    };
    let recv = RecvConfig {
        unreliable: true,
        ..recv_config()
    };
    (sender(send), receiver(recv))
}

fn post(s: &mut Sender, op: SendOp, len: u32, cookie: u32) {
    s.post(T0, &work(op, len, cookie)).unwrap();
}

/// Sends everything that may be sent.
fn pump(s: &mut Sender) -> Vec<(TxDesc, DataFields)> {
    let mut sent = Vec::new();
    while let Some(desc) = s.next_segment(T0) {
        let packet = s.packet(&desc).unwrap();
        assert!(s.commit(T0, &desc));
        s.assert_invariants();
        sent.push((desc, packet.fields));
    }
    sent
}

/// Gives a packet to the receiver, who has `posted` receives, and its answer to the sender.
fn carry(s: &mut Sender, r: &mut Receiver, desc: &TxDesc, f: &DataFields, posted: u32) -> bool {
    r.begin(f);
    match r.on_packet(f, desc.len, Rsn(posted)) {
        Verdict::Place(_) => r.placed(f, desc.len),
        Verdict::Discard => {}
        Verdict::Refuse(why) => {
            if let Some(nak) = r.refuse(f, why) {
                s.on_nak(T0, &Nak::fields(&nak.to_desc()).unwrap());
                return false;
            }
        }
    }
    s.on_acked(T0, desc);
    true
}

fn received(r: &mut Receiver) -> Vec<(Rsn, u32)> {
    core::iter::from_fn(|| r.pop_delivery())
        .filter_map(|d| match d {
            Delivery::Receive(got) => Some((got.rsn, got.byte_len)),
            Delivery::Write { .. } => None,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn begins_alone() {
    let (mut s, mut r) = pair();
    post(&mut s, SendOp::Send, 2_000, 1);
    post(&mut s, SendOp::Send, 5, 2);
    let first = pump(&mut s);
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|(d, _)| d.flags.has(StreamFlags::START)));
    for (desc, f) in first.iter().rev() {
        assert!(carry(&mut s, &mut r, desc, f, 8));
    }
    let second = pump(&mut s);
    assert_eq!(second.len(), 1);
    assert!(!second[0].0.flags.has(StreamFlags::START));
    assert!(carry(&mut s, &mut r, &second[0].0, &second[0].1, 8));
    assert_eq!(received(&mut r), [(Rsn(0), 2_000), (Rsn(1), 5)]);
    let success = WcStatus::Success;
    assert_eq!(completed(&mut s), [(1, success), (2, success)]);
}

#[test]
fn drops_what_is_refused() {
    let (mut s, mut r) = pair();
    post(&mut s, SendOp::Send, 5, 1);
    post(&mut s, SendOp::Send, 6, 2);
    post(&mut s, SendOp::Send, 7, 3);
    let sent = pump(&mut s);
    // No receive: the message is lost, and the sender content.
    assert!(!carry(&mut s, &mut r, &sent[0].0, &sent[0].1, 0));
    assert_eq!(completed(&mut s), [(1, WcStatus::Success)]);
    let sent = pump(&mut s);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].0.flags.has(StreamFlags::START));
    assert!(carry(&mut s, &mut r, &sent[0].0, &sent[0].1, 1));
    assert_eq!(received(&mut r), [(Rsn(0), 6)]);
    // What the peer refuses for other reasons does not end the streams either.
    let sent = pump(&mut s);
    let nak = r.refuse(&sent[0].1, Refusal::ReceiveTooShort).unwrap();
    s.on_nak(T0, &Nak::fields(&nak.to_desc()).unwrap());
    assert_eq!(received(&mut r), []);
    assert!(r.is_ready());
    let success = WcStatus::Success;
    assert_eq!(completed(&mut s), [(2, success), (3, success)]);
    assert!(!s.is_flushing());
}

#[test]
fn a_bad_receive_ends_the_peer() {
    let (mut s, mut r) = pair();
    post(&mut s, SendOp::Send, 5, 1);
    let sent = pump(&mut s);
    r.begin(&sent[0].1);
    assert!(r.refuse(&sent[0].1, Refusal::ReceiveProtection).is_some());
    assert!(matches!(
        r.pop_delivery(),
        Some(Delivery::Failed {
            receive: Some((Rsn(0), WcStatus::LocalProtection)),
            ..
        })
    ));
}

#[test]
fn takes_only_its_own_kind() {
    let (mut s, mut r) = pair();
    // Nothing has begun.
    let plain = DataFields {
        opcode: Opcode::Write,
        flags: StreamFlags::LAST,
        dst_qpn: B,
        src_qpn: A,
        msn: Msn(0xffff_fff0),
        ..DataFields::default()
    };
    let refused = Verdict::Refuse(Refusal::InvalidRequest);
    assert!(!r.begin(&plain));
    assert_eq!(r.on_packet(&plain, 0, Rsn(0)), refused);
    // No reads, no atomics, no remote invalidation.
    let begun = DataFields {
        flags: StreamFlags::LAST.with(StreamFlags::START),
        ..plain
    };
    assert!(r.begin(&begun));
    for opcode in [
        Opcode::ReadRequest,
        Opcode::FetchAdd,
        Opcode::SendInv,
        Opcode::AtomicWrite,
        Opcode::Flush,
    ] {
        let f = DataFields { opcode, ..begun };
        assert_eq!(r.on_packet(&f, 0, Rsn(9)), refused, "{opcode:?}");
    }
    // A reliable stream has no beginning that is said.
    let mut reliable = receiver(recv_config());
    assert!(!reliable.begin(&begun));
    assert_eq!(reliable.on_packet(&begun, 0, Rsn(9)), refused);

    post(&mut s, SendOp::Read, 5, 1);
    assert_eq!(completed(&mut s), [(1, WcStatus::LocalQpOperation)]);
}

#[test]
fn gives_up_in_silence() {
    let (mut s, mut r) = pair();
    post(&mut s, SendOp::Send, 5, 1);
    post(&mut s, SendOp::Write, 5, 2);
    post(&mut s, SendOp::Local, 0, 3);
    let sent = pump(&mut s);
    let mut now = T0;
    while let Some(at) = s.poll_timeout() {
        now = at;
        s.on_timeout(now, T0);
    }
    let success = WcStatus::Success;
    assert_eq!(completed(&mut s), [(1, success), (2, success)]);
    assert_eq!(s.next_local(), Some(3));
    s.local_done(now, Ok(()));
    assert_eq!(completed(&mut s), [(3, success)]);
    // The first one had arrived after all; then there is a next one.
    assert!(carry(&mut s, &mut r, &sent[0].0, &sent[0].1, 2));
    assert_eq!(received(&mut r), [(Rsn(0), 5)]);
    post(&mut s, SendOp::Send, 6, 4);
    let sent = pump(&mut s);
    assert!(sent[0].0.flags.has(StreamFlags::START));
    assert!(r.begin(&sent[0].1));
    assert!(carry(&mut s, &mut r, &sent[0].0, &sent[0].1, 1));
    // Counted from what is left.
    assert_eq!(received(&mut r), [(Rsn(0), 6)]);
    assert_eq!(completed(&mut s), [(4, success)]);
}

#[test]
fn goes_on_after_a_local_error() {
    let (mut s, mut r) = pair();
    post(&mut s, SendOp::Send, 5, 1);
    s.post_broken(T0, &work(SendOp::Send, 5, 2), WcStatus::LocalProtection)
        .unwrap();
    post(&mut s, SendOp::Send, 5, 3);
    let sent = pump(&mut s);
    assert_eq!(sent.len(), 1);
    assert!(carry(&mut s, &mut r, &sent[0].0, &sent[0].1, 8));
    assert_eq!(
        completed(&mut s),
        [
            (1, WcStatus::Success),
            (2, WcStatus::LocalProtection),
            (3, WcStatus::Flushed)
        ]
    );
    assert!(s.is_flushing());
    s.resume();
    assert!(!s.is_flushing());
    assert_eq!(received(&mut r).len(), 1);
    post(&mut s, SendOp::Send, 6, 4);
    let sent = pump(&mut s);
    assert!(r.begin(&sent[0].1));
    assert!(carry(&mut s, &mut r, &sent[0].0, &sent[0].1, 7));
    assert_eq!(received(&mut r), [(Rsn(0), 6)]);
    assert_eq!(completed(&mut s), [(4, WcStatus::Success)]);
}

/// One run: what arrives is what was sent, whole, in order and at most once, in receives that are
/// consumed in order; the sender learns of nothing.
fn run(seed: u64) {
    const MESSAGES: u32 = 300;
    let mut rng = Rng(seed * 2 + 1);
    let (mut s, mut r) = pair();
    // (desc, fields) on their way.
    let mut net: Vec<(TxDesc, DataFields)> = Vec::new();
    let mut acks: Vec<TxDesc> = Vec::new();
    let mut naks: Vec<DataFields> = Vec::new();
    let mut posted = 0;
    let mut done = 0;
    // Receives: how many were posted, how many completed, and the one that has RSN 0.
    let (mut receives, mut consumed, mut base) = (0u32, 0u32, 0u32);
    let mut last = None;
    let mut refusals = 0;
    // What lies in each receive: its message, and how many bytes.
    let mut held: HashMap<u32, HashMap<u32, Msn>> = HashMap::new();
    let len_of = |i: u32| [0, 100, 1_024, 3_000][(i % 4) as usize];
    for _ in 0..200_000 {
        if done == MESSAGES {
            break;
        }
        match rng.below(12) {
            0 | 1 if posted < MESSAGES && s.can_post() => {
                let op = [SendOp::Send, SendOp::Write, SendOp::WriteImm][rng.index(3)];
                post(&mut s, op, len_of(posted), posted);
                posted += 1;
            }
            2 => receives += u32::from(receives - consumed < 20),
            3 | 4 => {
                if let Some(desc) = s.next_segment(T0) {
                    let packet = s.packet(&desc).unwrap();
                    assert!(s.commit(T0, &desc));
                    net.push((desc, packet.fields));
                }
            }
            5 if rng.below(60) == 0 => s.lose(),
            6 if !acks.is_empty() => {
                let desc = acks.swap_remove(rng.index(acks.len()));
                s.on_acked(T0, &desc);
            }
            7 if !naks.is_empty() => {
                let f = naks.swap_remove(rng.index(naks.len()));
                s.on_nak(T0, &f);
            }
            _ if !net.is_empty() => {
                let (desc, f) = net.swap_remove(rng.index(net.len()));
                if r.begin(&f) {
                    base = consumed;
                    held.clear();
                }
                let verdict = r.on_packet(&f, desc.len, Rsn(receives.wrapping_sub(base)));
                let bad = rng.below(40) == 0;
                let refused = match verdict {
                    Verdict::Place(Target::Memory(_)) if bad => Some(Refusal::RemoteAccess),
                    Verdict::Place(Target::Recv { .. }) if bad => Some(Refusal::ReceiveTooShort),
                    Verdict::Refuse(why) => Some(why),
                    Verdict::Place(target) => {
                        if let Target::Recv { rsn, offset } = target {
                            let slot = held.entry(rsn.0).or_default();
                            // Of an attempt that is over, all is overwritten.
                            slot.insert(offset, f.msn);
                        }
                        r.placed(&f, desc.len);
                        None
                    }
                    Verdict::Discard => None,
                };
                match refused.and_then(|why| r.refuse(&f, why)) {
                    Some(nak) => {
                        refusals += 1;
                        naks.push(Nak::fields(&nak.to_desc()).unwrap());
                    }
                    None => acks.push(desc),
                }
                while let Some(delivery) = r.pop_delivery() {
                    let Delivery::Receive(got) = delivery else {
                        assert!(matches!(delivery, Delivery::Write { .. }), "{delivery:?}");
                        continue;
                    };
                    assert_eq!(base + got.rsn.0, consumed, "receives in order");
                    assert!(consumed < receives);
                    consumed += 1;
                    if got.opcode == Opcode::Send {
                        // One message filled it.
                        let parts = &held[&got.rsn.0];
                        let packets = got.byte_len.div_ceil(1_024).max(1);
                        let msn = parts[&0];
                        for i in 0..packets {
                            assert_eq!(parts[&(i * 1_024)], msn);
                        }
                        let index = msn.ahead_of(Msn(send_config().sq_psn));
                        assert_eq!(got.byte_len, len_of(index));
                        assert!(last < Some(index), "in order, once");
                        last = Some(index);
                    }
                }
            }
            _ => {}
        }
        s.assert_invariants();
        for (cookie, status) in completed(&mut s) {
            assert_eq!((cookie, status), (done, WcStatus::Success), "seed {seed}");
            done += 1;
        }
    }
    assert_eq!(done, MESSAGES, "seed {seed}: stuck");
    assert!(refusals != 0 && consumed != 0);
}

#[test]
fn any_order() {
    for seed in 0..300 {
        run(seed);
    }
}
