// SPDX-License-Identifier: GPL-2.0

//! Packets, their acknowledgements and NAKs, and how much goes out.

use super::*;

#[test]
fn data_flows_and_is_acknowledged() {
    let (mut a, mut b) = pair(2, 2);
    assert_eq!((a.n_paths(), b.n_paths()), (16, 16));
    let mut now = Instant(1_000_000);
    let mut sent = 0;
    while let Some(burst) = a.reserve(now) {
        for i in 0..burst.max_packets {
            let desc = TxDesc {
                opcode: Opcode::Write,
                offset: sent,
                len: 1024,
                ..TxDesc::default()
            };
            let last = i + 1 == burst.max_packets;
            let tx = a.assign(now, burst.path, desc, last).unwrap();
            assert!(tx.ack_req || !last);
            sent += 1;
            let h = DataHeader {
                path: burst.path,
                route_epoch: tx.route_epoch,
                psn: tx.psn,
                stamp: tx.stamp,
                fields: DataFields {
                    opcode: Opcode::Write,
                    ..DataFields::default()
                },
            };
            let flags = PacketFlags(u8::from(tx.ack_req));
            assert_eq!(b.rx_check(now, &h, flags, Arrival::default()), Rx::New);
            assert_eq!(
                b.rx_done(burst.path, tx.psn, Verdict::Accept),
                crate::path::Done::Acked
            );
            assert_eq!(
                b.rx_check(now, &h, flags, Arrival::default()),
                Rx::Duplicate
            );
        }
        now = now.after(Duration(1000));
    }
    assert_eq!(sent, 16 * 64);
    let (p0, p1) = (a.plane_stats(0).unwrap(), a.plane_stats(1).unwrap());
    assert_eq!(p0.packets, p1.packets);
    let mut blocks = [AckBlock::default(); 16];
    while let Some(tx) = b.poll_ack(now, &mut blocks) {
        let mut buf = [0; 1020];
        let len = wire::emit_ack(
            b.peer_id(),
            PacketFlags::NONE,
            0,
            &blocks[..tx.blocks],
            &mut buf,
        )
        .unwrap();
        let (header, _) = wire::parse(&buf[..len]).unwrap();
        let Body::Ack(ack) = header.body else {
            unreachable!()
        };
        a.on_ack(now, &ack);
    }
    let mut offsets: Vec<u32> = core::iter::from_fn(|| a.pop_acked())
        .map(|acked| acked.desc.offset)
        .collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..sent).collect::<Vec<_>>());
    assert!(a.is_idle() && a.poll_timeout().is_none());
    assert!(a.next_retransmit().is_none());
}

#[test]
fn speeds_weigh_the_planes() {
    let mut list = planes(1, 2);
    list.get_mut(1).unwrap().speed = 3000;
    let mut peer = planes(2, 2);
    peer.get_mut(1).unwrap().speed = 3000;
    let mut cfg = Config::new(1, 7, list);
    cfg.controller = crate::congestion::Controller::Fixed(crate::congestion::FixedWindow::new(240));
    let mut a = conn_with(cfg);
    let mut b = conn_with(Config::new(2, 7, peer));
    let i = intro(&a, &b);
    a.start(Instant(0), i);
    shake(Instant(0), &mut a, &mut b);
    shake(Instant(0), &mut b, &mut a);
    for _ in 0..1_600 {
        let burst = a.reserve(Instant(0)).unwrap();
        let desc = TxDesc {
            opcode: Opcode::Send,
            len: 1000,
            ..TxDesc::default()
        };
        a.assign(Instant(0), burst.path, desc, true).unwrap();
    }
    let sent = [0, 1].map(|p| a.plane_stats(p).unwrap().packets);
    assert!(sent[0].abs_diff(400) < 5, "{sent:?}");
}

#[test]
fn a_refusal_always_finds_its_place() {
    let cfg = Config::new(0x1000_0001, 7, planes(1, 1));
    let slots = || std::vec![TxSlot::default(); SPAN as usize];
    let paths = (0..8).map(|_| Path::new(slots()).unwrap()).collect();
    let mut a = Conn::new(cfg, paths, std::vec![NakRecord::default(); 3]).unwrap();
    let mut b = conn(2, 1);
    let i = intro(&a, &b);
    a.start(Instant(0), i);
    shake(Instant(0), &mut a, &mut b);
    shake(Instant(0), &mut b, &mut a);
    let now = Instant(10_000);
    let check =
        |a: &mut Conn, h: &DataHeader| a.rx_check(now, h, PacketFlags::NONE, Arrival::default());
    let h: Vec<_> = (0..6).map(|n| request(&a, 0, n)).collect();
    let nak = TxDesc {
        opcode: Opcode::Nak,
        offset: 1,
        ..TxDesc::default()
    };
    for h in &h[..3] {
        assert_eq!(check(&mut a, h), Rx::New);
    }
    // Three are in processing, and any of them may be refused.
    assert_eq!(check(&mut a, &h[3]), Rx::Busy);
    assert_eq!(check(&mut a, &h[0]), Rx::Duplicate);
    assert!(!a.queue_nak(nak));
    // NAKs and responses are not requests, and must get through.
    let mut other = h[4];
    other.fields.opcode = Opcode::Nak;
    assert_eq!(check(&mut a, &other), Rx::New);
    use crate::path::Done;
    assert_eq!(
        a.rx_done(PathId(0), h[4].psn, Verdict::Refuse(nak)),
        Done::Acked
    );
    for h in &h[..3] {
        assert_eq!(
            a.rx_done(PathId(0), h.psn, Verdict::Refuse(nak)),
            Done::Held
        );
    }
    assert_eq!(check(&mut a, &h[3]), Rx::Busy);
    // The NAK for the lowest PSN goes first; its acknowledgement releases the packet.
    let tx = a.poll_nak(now).unwrap();
    assert!(tx.tx.ack_req);
    let block = AckBlock {
        path: tx.path,
        cum: tx.tx.psn.add(1),
        stamp: tx.tx.stamp,
        ..AckBlock::default()
    };
    assert_eq!(a.path(PathId(0)).unwrap().rx.cum(), h[0].psn);
    a.on_ack_block(now, &block);
    assert_eq!(a.path(PathId(0)).unwrap().rx.cum(), h[1].psn);
    assert!(a.pop_acked().is_none(), "the connection's own");
    assert_eq!(check(&mut a, &h[3]), Rx::New);
    a.rx_abort(PathId(0), h[3].psn);
    assert!(a.queue_nak(nak));
    assert_eq!(check(&mut a, &h[3]), Rx::Busy);
    while a.poll_nak(now).is_some() {}
    assert_eq!(a.stats().naks_sent, 4);
}

#[test]
fn one_ack_covers_what_is_new_on_all_paths() {
    let (mut a, _) = pair(2, 2);
    let now = Instant(10_000);
    for path in 0..16 {
        let h = request(&a, path, 0);
        let flags = if path == 3 {
            PacketFlags::ACK_REQ
        } else {
            PacketFlags::NONE
        };
        let mut blocks = [AckBlock::default(); 16];
        assert_eq!(a.rx_check(now, &h, flags, Arrival::default()), Rx::New);
        a.rx_done(PathId(path), h.psn, Verdict::Accept);
        let tx = a.poll_ack(now, &mut blocks);
        assert_eq!(tx.map(|t| t.blocks), (path == 3).then_some(4), "{path}");
    }
    let mut blocks = [AckBlock::default(); 16];
    let h = request(&a, 5, 0);
    a.rx_check(now, &h, PacketFlags::ACK_REQ, Arrival::default());
    a.rx_done(PathId(5), h.psn, Verdict::Accept);
    assert_eq!(a.poll_ack(now, &mut blocks).unwrap().blocks, 12);
    assert!(a.poll_ack(now, &mut blocks).is_none());
}

#[test]
fn the_longest_acks_fit() {
    let (mut a, _) = pair(2, 2);
    let now = Instant(10_000);
    for path in 0..16 {
        let mut first = request(&a, path, 0);
        // No request: there are not that many places for NAKs.
        first.fields.opcode = Opcode::ReadResponse;
        for n in (1..256).step_by(2) {
            let h = DataHeader {
                psn: first.psn.add(n),
                ..first
            };
            a.rx_check(now, &h, PacketFlags::NONE, Arrival::default());
            if n % 4 == 1 {
                a.rx_done(PathId(path), h.psn, Verdict::Accept);
            }
        }
    }
    let mut seen = 0;
    let mut blocks = [AckBlock::default(); 16];
    while let Some(tx) = a.poll_ack(now, &mut blocks) {
        let mut buf = [0; wire::MAX_HEADER_LEN];
        let blocks = &blocks[..tx.blocks];
        assert!(wire::emit_ack(1, PacketFlags::NONE, 0, blocks, &mut buf).is_some());
        seen += blocks.len();
    }
    assert!(seen >= 16, "{seen}");
}

/// Sends as much as `a` lets go, acknowledged at once; returns Mbit/s with headers.
fn rate_under_hint(hint: u32, ms: u64) -> u64 {
    let (mut a, b) = pair(1, 1);
    let mut now = Instant(1 << 40);
    let end = now.after(Duration::from_millis(ms));
    let mut packets = 0u64;
    let mut buf = [0; 1020];
    let desc = TxDesc {
        opcode: Opcode::Write,
        len: 4096,
        ..TxDesc::default()
    };
    while now < end {
        let mut last = Vec::new();
        while let Some(burst) = a.reserve(now) {
            for _ in 0..burst.max_packets {
                let tx = a.assign(now, burst.path, desc, false).unwrap();
                packets += 1;
                last.push((burst.path, tx));
            }
        }
        // A timer that the caller is told of is all that brings it back.
        let blocks: Vec<_> = last
            .iter()
            .map(|(path, tx)| AckBlock {
                path: *path,
                cum: tx.psn.add(1),
                stamp: tx.stamp,
                ..AckBlock::default()
            })
            .collect();
        let soon = now.after(Duration(10_000));
        if let Some(at) = a.paced_until {
            assert!(a.poll_timeout().is_some_and(|t| t <= at));
        }
        now = a.paced_until.unwrap_or(soon).max(soon);
        for blocks in blocks.chunks(16) {
            let n = wire::emit_ack(b.peer_id(), PacketFlags::NONE, hint, blocks, &mut buf);
            let (header, _) = wire::parse(&buf[..n.unwrap()]).unwrap();
            let Body::Ack(ack) = header.body else {
                unreachable!()
            };
            a.on_ack(now, &ack);
        }
        while a.pop_acked().is_some() {}
        a.on_timeout(now);
    }
    packets * (4096 + 122) * 8 / (1000 * ms)
}

#[test]
fn a_hint_limits_the_rate_and_no_hint_does_not() {
    for hint in [50, 400, 5_000] {
        let rate = rate_under_hint(hint * 1000, 100);
        let hint = u64::from(hint);
        // The first window goes out before there is a hint.
        assert!(
            rate * 100 >= hint * 95 && rate <= hint + 200,
            "{rate} under {hint}"
        );
    }
    assert!(rate_under_hint(0, 1) > 20_000);
}
