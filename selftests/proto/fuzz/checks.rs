// SPDX-License-Identifier: GPL-2.0

//! What must hold for any bytes. The fuzz targets run these on what they invent, the host crate's
//! tests on random bytes and on the test vectors.

#![allow(dead_code)] // Each target uses one.

use proto::connection::{Config, Connection, Intro, NakRecord, Verdict};
use proto::packet::{Opcode, PathId, Qpn, TxDesc};
use proto::path::{Arrival, Path, Rx, TxSlot, SPAN};
use proto::psn::Psn;
use proto::time::{Duration, Instant};
use proto::wire::{self, AckBlock, Body, Features, Gid, InitHeader, Plane, PlaneList, Token};

/// Whatever parses is written again as it was read, reserved fields aside.
pub fn parse(data: &[u8]) {
    let Ok((h, n)) = wire::parse(data) else {
        return;
    };
    assert!(n <= data.len() && n <= wire::MAX_HEADER_LEN);
    let _ = h.check_payload(data.len() - n);
    let (dst, flags) = (h.base.dst_conn, h.base.flags);
    let mut buf = [0xa5; wire::MAX_HEADER_LEN];
    let len = match &h.body {
        Body::Data(p) => p.emit(dst, flags, &mut buf),
        Body::Probe(p) => p.emit(dst, flags, &mut buf),
        Body::Datagram(p) => p.emit(&mut buf),
        Body::Reset(p) => p.emit(dst, flags, &mut buf),
        Body::Init(p) => p.emit(false, dst, flags, &mut buf),
        Body::InitAck(p) => p.emit(true, dst, flags, &mut buf),
        Body::Ack(p) => {
            let blocks: Vec<_> = p.blocks().collect();
            wire::emit_ack(dst, flags, p.rate_hint, &blocks, &mut buf)
        }
    };
    // Only vectors with trailing zero words shrink.
    let len = len.expect("what was read can be written");
    assert!(len <= n);
    let (again, m) = wire::parse(&buf[..len]).expect("what was written can be read");
    assert_eq!(m, len);
    match (&h.body, &again.body) {
        (Body::Data(a), Body::Data(b)) => assert_eq!(a, b),
        (Body::Probe(a), Body::Probe(b)) => assert_eq!(a, b),
        (Body::Datagram(a), Body::Datagram(b)) => assert_eq!(a, b),
        (Body::Reset(a), Body::Reset(b)) => assert_eq!(a, b),
        (Body::Init(a), Body::Init(b)) => assert_eq!(a, b),
        (Body::InitAck(a), Body::InitAck(b)) => assert_eq!(a, b),
        (Body::Ack(a), Body::Ack(b)) => {
            assert_eq!(a.rate_hint, b.rate_hint);
            assert!(a.blocks().eq(b.blocks()));
        }
        _ => panic!("another type"),
    }
}

type Conn = Connection<Vec<TxSlot>, Vec<Path<Vec<TxSlot>>>, Vec<NakRecord>>;

fn planes(host: u8) -> PlaneList {
    let mut list = PlaneList::new();
    for id in 0..2 {
        let gid = Gid::from_v4([10, 0, id, host]);
        let plane = Plane {
            gid,
            speed: 1000,
            id,
            up: true,
        };
        list.push(plane);
    }
    list
}

fn established(now: Instant) -> Conn {
    let mut cfg = Config::new(0x1234_5678, 1, planes(1));
    cfg.paths_per_plane = 2;
    let path = |_| Path::new(vec![TxSlot::default(); SPAN as usize]).expect("slots");
    let paths = (0..cfg.paths()).map(path).collect();
    let mut conn = Connection::new(cfg, paths, vec![NakRecord::default(); 4]).expect("valid");
    conn.start(now, Intro::default());
    let init = InitHeader {
        src_conn: 0x8765_4321,
        src_qpn: Qpn(1),
        dst_qpn: Qpn(2),
        token: Token::default(),
        src_gid: Gid::from_v4([10, 0, 0, 2]),
        dst_gid: Gid::from_v4([10, 0, 0, 1]),
        features: Features(0),
        payload_mtu: 1024,
        paths: 2,
        revision: 0,
        planes: planes(2),
    };
    conn.on_init(now, &init);
    conn
}

/// Operations on a connection in any order, with anything in the packets, break no invariant: each
/// descriptor comes back at most once, the window holds, nothing panics.
pub fn connection(data: &[u8]) {
    let mut now = Instant(1_000_000_000);
    let mut conn = established(now);
    let mut input = data.iter().copied();
    let mut next = move || input.next();
    let (mut sent, mut back) = (0u32, std::collections::HashSet::new());
    let mut pending = Vec::new();
    while let Some(op) = next() {
        let mut byte = || next().unwrap_or(0);
        match op % 16 {
            0..=2 => {
                if let Some(burst) = conn.reserve(now) {
                    for _ in 0..burst.max_packets {
                        let desc = TxDesc {
                            opcode: Opcode::Write,
                            offset: sent,
                            len: 100,
                            ..TxDesc::default()
                        };
                        let tx = conn.assign(now, burst.path, desc, false);
                        assert!(tx.is_some(), "reserved room is there");
                        sent += 1;
                    }
                }
            }
            3 => now = now.after(Duration::from_micros(u64::from(byte()) * 16)),
            4 => conn.on_timeout(now),
            5..=7 => {
                // An ACK near the truth: relative to what the peer may know.
                let path = PathId(u16::from(byte() % 5));
                let first = 0x8765_4321 ^ u32::from(path.0).wrapping_mul(0x9e37_79b9);
                let mut words = [0u32; 8];
                for w in &mut words {
                    *w = u32::from_le_bytes([byte(), byte(), byte(), byte()]);
                }
                let (cum, wild) = (u32::from(byte()), byte());
                let offset = if wild == 0 { u32::MAX / 2 } else { 0 };
                let block = AckBlock {
                    path,
                    route_epoch: byte() % 3,
                    cum: Psn(first.wrapping_add(cum).wrapping_add(offset)),
                    ce_count: u32::from(byte()),
                    stamp: now.after(Duration(u64::from(byte()) * 1000)).stamp(),
                    hold: u32::from(byte()),
                    acked: proto::bits::Bits256::from_words(words),
                    held: proto::bits::Bits256::range(byte(), u32::from(byte())),
                };
                conn.on_ack_block(now, &block);
            }
            8 => {
                while let Some(r) = conn.next_retransmit() {
                    if byte() % 4 == 0 {
                        conn.put_back(r.path, r.psn);
                        break;
                    }
                    conn.retransmit(now, r.path, r.psn);
                }
            }
            9..=11 => {
                // Any packet, and data near the window.
                let mut raw = [0u8; 76];
                for b in raw.iter_mut().take(usize::from(byte() % 76)) {
                    *b = byte();
                }
                let mut d = wire::DataHeader::default();
                if let Ok((h, _)) = wire::parse(&raw) {
                    match h.body {
                        Body::Data(p) => d = p,
                        Body::Probe(p) => conn.on_probe(now, &p, Arrival::default()),
                        Body::Datagram(_) => {}
                        Body::Reset(r) => {
                            let from = conn.peer_planes().get(0).map(|p| p.gid);
                            conn.on_reset(&r, from.unwrap_or_default());
                        }
                        Body::Init(i) => {
                            conn.on_init(now, &i);
                        }
                        Body::InitAck(i) => conn.on_init_ack(now, &i),
                        Body::Ack(a) => conn.on_ack(now, &a),
                    }
                }
                d.fields.opcode = Opcode::Send;
                d.path = PathId(u16::from(byte() % 5));
                let first = 0x1234_5678 ^ u32::from(d.path.0).wrapping_mul(0x9e37_79b9);
                d.psn = Psn(first.wrapping_add(u32::from(byte())));
                let arrival = Arrival {
                    ce: op & 128 != 0,
                    local: op & 64 != 0,
                };
                if conn.rx_check(now, &d, wire::PacketFlags(op >> 4 & 1), arrival) == Rx::New {
                    pending.push((d.path, d.psn));
                }
            }
            12 => {
                let n = usize::from(byte());
                if !pending.is_empty() {
                    let (path, psn) = pending.swap_remove(n % pending.len());
                    match op >> 4 & 3 {
                        0 => conn.rx_abort(path, psn),
                        1 => {
                            let nak = TxDesc {
                                opcode: Opcode::Nak,
                                offset: 1,
                                ..TxDesc::default()
                            };
                            conn.rx_done(path, psn, Verdict::Refuse(nak));
                        }
                        _ => {
                            conn.rx_done(path, psn, Verdict::Accept);
                        }
                    }
                }
            }
            13 => {
                let mut blocks = [AckBlock::default(); 16];
                let mut n = 0;
                while let Some(tx) = conn.poll_ack(now, &mut blocks) {
                    let mut buf = [0; wire::MAX_HEADER_LEN];
                    let blocks = &blocks[..tx.blocks];
                    let len = wire::emit_ack(1, wire::PacketFlags::NONE, 0, blocks, &mut buf);
                    assert!(len.is_some(), "an ACK fits");
                    n += 1;
                    assert!(n < 64, "ACKs without end");
                }
            }
            14 => {
                while conn.poll_nak(now).is_some() {}
                while conn.poll_probe(now).is_some() {}
                while conn.poll_handshake(now).is_some() {}
            }
            _ => {
                let path = PathId(u16::from(byte() % 5));
                match op >> 4 {
                    0..=3 => conn.change_port(now, path),
                    4..=7 => conn.change_planes(now, path),
                    _ => conn.set_local_plane(now, byte() % 3, op & 16 != 0),
                }
            }
        }
        while let Some(acked) = conn.pop_acked() {
            let d = acked.desc;
            assert!(d.offset < sent, "never sent");
            assert!(back.insert(d.offset), "back twice");
        }
        for i in 0..conn.n_paths() {
            let tx = &conn.path(PathId(i)).expect("a path").tx;
            assert!(tx.in_flight() <= SPAN);
        }
        if let Some(t) = conn.poll_timeout() {
            assert!(
                t <= now.after(Duration::from_millis(1_000)),
                "timer too late"
            );
        }
    }
}
