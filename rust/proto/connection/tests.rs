// SPDX-License-Identifier: GPL-2.0

use std::vec::Vec;

use super::*;
use crate::packet::{DataFields, Opcode, Qpn, TxDesc};
use crate::path::{Arrival, Rx, SPAN};
use crate::time::Duration;
use crate::wire::{self, AckBlock, Body, DataHeader, Gid, PacketFlags, Plane};

type Conn = Connection<Vec<TxSlot>, Vec<Path<Vec<TxSlot>>>, Vec<NakRecord>>;

fn planes(host: u8, n: u8) -> PlaneList {
    let mut list = PlaneList::new();
    for id in 0..n {
        let gid = Gid::from_v4([10, 0, id, host]);
        let plane = Plane {
            gid,
            speed: 1000,
            id,
            up: true,
        };
        list.push(plane).unwrap();
    }
    list
}

fn conn(host: u8, n_planes: u8) -> Conn {
    let mut cfg = Config::new(0x1000_0000 + u32::from(host), 7, planes(host, n_planes));
    cfg.controller = crate::congestion::Controller::by_name("fixed").unwrap();
    conn_with(cfg)
}

fn conn_with(cfg: Config) -> Conn {
    let slots = || std::vec![TxSlot::default(); SPAN as usize];
    let paths = (0..cfg.paths())
        .map(|_| Path::new(slots()).unwrap())
        .collect();
    Connection::new(cfg, paths, std::vec![NakRecord::default(); 64]).unwrap()
}

fn intro(a: &Conn, b: &Conn) -> Intro {
    Intro {
        local_qpn: Qpn(a.local_id() & 0xff),
        peer_qpn: Qpn(b.local_id() & 0xff),
        token: wire::Token {
            psn: a.local_id() >> 8,
            expected: a.local_id() & 1 == 0,
        },
        local_gid: a.local_planes().get(0).unwrap().gid,
        peer_gid: b.local_planes().get(0).unwrap().gid,
    }
}

/// Delivers all handshake packets of `a` to `b`.
fn shake(now: Instant, a: &mut Conn, b: &mut Conn) -> usize {
    let mut n = 0;
    while let Some(tx) = a.poll_handshake(now) {
        n += 1;
        let mut buf = [0; 512];
        let len = a.emit_handshake(&tx, &mut buf).unwrap();
        let (header, header_len) = wire::parse(&buf[..len]).unwrap();
        assert_eq!(header_len, len);
        match header.body {
            Body::Init(h) => {
                b.on_init(now, &h);
            }
            Body::InitAck(h) => {
                assert_eq!(header.base.dst_conn, b.local_id());
                b.on_init_ack(now, &h);
            }
            Body::Reset(h) => {
                b.on_reset(&h, a.local_planes().get(0).unwrap().gid);
            }
            _ => unreachable!(),
        }
    }
    n
}

fn pair(n: u8, m: u8) -> (Conn, Conn) {
    let (mut a, mut b) = (conn(1, n), conn(2, m));
    let i = intro(&a, &b);
    a.start(Instant(0), i);
    shake(Instant(0), &mut a, &mut b);
    shake(Instant(0), &mut b, &mut a);
    assert!(a.established() && b.established());
    assert_eq!(a.poll_event(), Some(Event::Established));
    (a, b)
}

#[test]
fn a_connection_is_small() {
    // A kernel stack is 16 KiB; connections and paths are moved into place by value.
    assert!(size_of::<Conn>() <= 1536, "{}", size_of::<Conn>());
    assert!(size_of::<Path<Vec<TxSlot>>>() <= 1024);
}

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
fn a_configuration_without_sense_is_refused() {
    let cfg = Config::new(1, 7, planes(1, 2));
    let none: Vec<Path<Vec<TxSlot>>> = Vec::new();
    let naks = || Vec::<NakRecord>::new();
    let e = Connection::new(cfg, none, naks()).err();
    assert_eq!(e, Some(ConfigError::Storage));
    let e = Conn::new(Config::new(0, 7, planes(1, 2)), Vec::new(), naks()).err();
    assert_eq!(e, Some(ConfigError::BadId));
    let e = Conn::new(Config::new(1, 7, planes(1, 0)), Vec::new(), naks()).err();
    assert_eq!(e, Some(ConfigError::NoPath));
}

#[test]
fn init_is_repeated_with_back_off() {
    let (mut a, b) = (conn(1, 1), conn(2, 1));
    let i = intro(&a, &b);
    assert_eq!(a.poll_timeout(), None);
    a.start(Instant(0), i);
    let mut now = Instant(0);
    let mut waits = Vec::new();
    for _ in 0..10 {
        assert!(a.poll_handshake(now).is_some());
        assert!(a.poll_handshake(now).is_none());
        let next = a.poll_timeout().unwrap();
        waits.push(next.since(now).0 / 1_000_000);
        now = next;
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 200, 200, 200]);
    assert_eq!(a.stats().inits_sent, 10);
}

#[test]
fn both_may_connect_at_once() {
    let (mut a, mut b) = (conn(1, 2), conn(2, 2));
    let (i, j) = (intro(&a, &b), intro(&b, &a));
    a.start(Instant(0), i);
    b.start(Instant(0), j);
    // INITs cross; then INIT_ACKs do.
    shake(Instant(0), &mut a, &mut b);
    shake(Instant(0), &mut b, &mut a);
    shake(Instant(0), &mut a, &mut b);
    for (x, y) in [(&a, &b), (&b, &a)] {
        assert!(x.established());
        assert_eq!(x.peer_id(), y.local_id());
        assert_eq!(x.poll_timeout(), None);
    }
}

#[test]
fn a_lost_init_ack_is_repeated() {
    let (mut a, mut b) = (conn(1, 1), conn(2, 1));
    let i = intro(&a, &b);
    a.start(Instant(0), i);
    shake(Instant(0), &mut a, &mut b);
    assert!(b.poll_handshake(Instant(0)).is_some());
    let now = a.poll_timeout().unwrap();
    shake(now, &mut a, &mut b);
    shake(now, &mut b, &mut a);
    assert!(a.established());
}

#[test]
fn terms_are_the_smaller_of_both() {
    let mut cfg = Config::new(1, 7, planes(1, 3));
    cfg.payload_mtu = 1024;
    cfg.crc = false;
    cfg.paths_per_plane = 4;
    let mut a = conn_with(cfg);
    let mut b = conn(2, 2);
    let i = intro(&a, &b);
    a.start(Instant(0), i);
    shake(Instant(0), &mut a, &mut b);
    shake(Instant(0), &mut b, &mut a);
    for c in [&a, &b] {
        assert_eq!((c.n_paths(), c.payload_mtu(), c.crc()), (12, 1024, true));
    }
}

#[test]
fn planes_are_joined_alike_by_both() {
    for (n, m) in [(1, 1), (2, 2), (8, 8), (1, 2), (2, 1), (2, 3), (3, 5)] {
        let (a, b) = pair(n, m);
        let mut used = [[0; 8]; 2];
        for i in 0..a.n_paths() {
            let (r, s) = (a.route(PathId(i)).unwrap(), b.route(PathId(i)).unwrap());
            assert_eq!(r.local_plane, s.remote_plane);
            assert_eq!(r.remote_plane, s.local_plane);
            used[0][usize::from(r.local_plane)] += 1;
            used[1][usize::from(r.remote_plane)] += 1;
            if n == m {
                assert_eq!(r.local_plane, r.remote_plane);
            }
            assert!(r.src_port >= 49_152);
        }
        // Every plane of both sides carries its share.
        for (used, n) in used.iter().zip([n, m]) {
            let used = &used[..usize::from(n)];
            let (min, max) = (used.iter().min().unwrap(), used.iter().max().unwrap());
            assert!(max - min <= 1 && *min > 0, "{n} {m} {used:?}");
        }
    }
}

#[test]
fn a_foreign_init_only_brings_a_probe() {
    let (mut a, mut b) = pair(1, 1);
    let now = Instant(1_000);
    // The peer's host has restarted: same addresses, another id.
    let mut cfg = Config::new(0x7777_7777, 7, planes(1, 1));
    cfg.paths_per_plane = 8;
    let mut restarted = conn_with(cfg);
    let i = intro(&restarted, &b);
    restarted.start(now, i);
    assert_eq!(shake(now, &mut restarted, &mut b), 1);
    assert!(b.established());
    assert_eq!(b.stats().challenges, 1);
    assert!(
        b.poll_handshake(now).is_none(),
        "no INIT_ACK for a stranger"
    );
    let probe = b.poll_probe(now).unwrap();
    // The old incarnation would have answered; the new one does not know the id.
    a.on_probe(now, &probe.header, Arrival::default());
    let mut blocks = [AckBlock::default(); 1];
    assert!(a.poll_ack(now, &mut blocks).is_some());
    let reset = |conn| wire::ResetHeader {
        conn,
        reason: wire::ResetReason::UnknownId,
    };
    let address = b.peer_planes().get(0).unwrap().gid;
    assert!(!b.on_reset(&reset(1), address), "a guess");
    let peer = b.peer_id();
    let elsewhere = Gid::from_v4([203, 0, 113, 1]);
    assert!(!b.on_reset(&reset(peer), elsewhere), "not from the peer");
    assert!(b.established());
    assert!(b.on_reset(&reset(peer), address));
    assert_eq!(b.state(), State::Closed);
    let events: Vec<_> = core::iter::from_fn(|| b.poll_event()).collect();
    assert!(events.contains(&Event::PeerRestarted));
    assert!(b.reserve(now).is_none() && b.poll_timeout().is_none());
}

fn own(host: u8) -> Conn {
    let mut cfg = Config::new(0x2000_0000 + u32::from(host), 7, planes(host, 1));
    cfg.own = true;
    conn_with(cfg)
}

#[test]
fn connections_of_one_pair_find_each_other() {
    let (mut a, mut b) = (own(1), own(2));
    let i = intro(&a, &b);
    a.start(Instant(0), i);
    shake(Instant(0), &mut a, &mut b);
    shake(Instant(0), &mut b, &mut a);
    assert!(a.established() && b.established());
}

#[test]
fn a_shared_connection_is_none_for_one_pair() {
    // The shared one has a peer already, or has none yet.
    for known in [true, false] {
        let (mut shared, _peer) = if known {
            pair(1, 1)
        } else {
            (conn(1, 1), conn(2, 1))
        };
        let mut alone = own(2);
        let now = Instant(0);
        let i = intro(&shared, &alone);
        shared.start(now, i);
        let i = intro(&alone, &shared);
        alone.start(now, i);

        // Whoever begins, neither takes the other for its peer.
        shake(now, &mut shared, &mut alone);
        assert!(!alone.established());
        let mut buf = [0; 512];
        let tx = alone.poll_handshake(now).unwrap();
        let len = alone.emit_handshake(&tx, &mut buf).unwrap();
        let Body::Init(h) = wire::parse(&buf[..len]).unwrap().0.body else {
            unreachable!();
        };
        assert_eq!(shared.on_init(now, &h), InitOutcome::Apart);
        assert_eq!(shared.established(), known);
        let peer = shared.peer_id();
        shared.on_init_ack(now, &h);
        assert_eq!(shared.peer_id(), peer);
    }
}

#[test]
fn who_is_alone_answers_at_once() {
    let (mut shared, mut alone) = (conn(1, 1), own(2));
    let i = intro(&alone, &shared);
    alone.start(Instant(0), i);
    assert!(alone.poll_handshake(Instant(0)).is_some());
    assert!(alone.poll_handshake(Instant(1000)).is_none());
    let i = intro(&shared, &alone);
    shared.start(Instant(1000), i);
    shake(Instant(1000), &mut shared, &mut alone);
    assert!(alone.poll_handshake(Instant(1000)).is_some());
}

#[test]
fn closing_tells_the_peer() {
    let (mut a, mut b) = pair(2, 2);
    while b.poll_event().is_some() {}
    a.close();
    assert_eq!(shake(Instant(1), &mut a, &mut b), 1);
    assert_eq!(b.poll_event(), Some(Event::PeerClosed));
    assert_eq!((a.state(), b.state()), (State::Closed, State::Closed));
    assert!(a.poll_handshake(Instant(1)).is_none());
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

fn request(conn: &Conn, path: u16, n: u32) -> DataHeader {
    let first = conn.path(PathId(path)).unwrap().rx.cum();
    DataHeader {
        path: PathId(path),
        psn: first.add(n),
        fields: DataFields {
            opcode: Opcode::Send,
            ..DataFields::default()
        },
        ..DataHeader::default()
    }
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

#[test]
fn a_plane_down_moves_its_paths_and_a_plane_up_brings_them_back() {
    let (mut a, mut b) = pair(4, 4);
    let now = Instant(10_000);
    a.set_local_plane(now, 2, false);
    let mut used = [0; 4];
    for i in 0..a.n_paths() {
        let r = a.route(PathId(i)).unwrap();
        assert_eq!(r.local_plane, r.remote_plane);
        used[usize::from(r.local_plane)] += 1;
        assert!(a.is_usable(PathId(i)));
    }
    assert_eq!(used[2], 0);
    assert!(
        used.iter().all(|n| *n == 0 || (10..=11).contains(n)),
        "{used:?}"
    );
    // The peer hears of it, and answers.
    shake(now, &mut a, &mut b);
    assert_eq!(b.poll_event(), Some(Event::Established));
    assert_eq!(b.poll_event(), Some(Event::PathsChanged));
    assert_eq!(b.poll_event(), Some(Event::Migrated));
    assert!((0..b.n_paths()).all(|i| b.route(PathId(i)).unwrap().local_plane != 2));
    shake(now, &mut b, &mut a);
    assert!(a.poll_timeout().is_none());
    assert!(core::iter::from_fn(|| a.poll_event()).any(|e| e == Event::Migrated));
    // Not before a probe has been answered there.
    a.set_local_plane(now, 2, true);
    assert_ne!(a.route(PathId(2)).unwrap().local_plane, 2);
    shake(now, &mut a, &mut b);
    assert_eq!(a.poll_timeout(), Some(now));
    a.on_timeout(now);
    assert!(answer_probes(now, &mut a, &mut b) > 0);
    assert_eq!(a.route(PathId(2)).unwrap().local_plane, 2);
    assert_eq!(a.plane_stats(2).unwrap().downs, 1);
    // The way home is no flight from anything.
    assert!(!core::iter::from_fn(|| a.poll_event()).any(|e| e == Event::Migrated));
    // With all planes down nothing is sent, and nothing breaks.
    for p in 0..4 {
        a.set_local_plane(now, p, false);
    }
    assert!(a.reserve(now).is_none() && a.poll_nak(now).is_none());
    a.set_local_plane(now, 0, true);
    assert!(a.reserve(now).is_some());
}

#[test]
fn what_is_outstanding_on_a_dead_plane_is_sent_on_another() {
    let (mut a, _) = pair(2, 2);
    let now = Instant(10_000);
    let mut n = 0;
    while let Some(b) = a.reserve(now) {
        for _ in 0..b.max_packets {
            a.assign(now, b.path, TxDesc::default(), false).unwrap();
            n += 1;
        }
    }
    assert_eq!(n, 16 * 64);
    a.set_local_plane(now, 1, false);
    // A probe goes out on the new route of each path that moved. Its answer is not waited for.
    let mut probes = 0;
    while let Some(p) = a.poll_probe(now) {
        probes += 1;
        assert_eq!(p.route.local_plane, 0);
    }
    assert_eq!(probes, 8);
    let mut n = 0;
    while let Some(r) = a.next_retransmit() {
        assert_eq!(a.route(r.path).unwrap().local_plane, 0);
        assert!(a.retransmit(now, r.path, r.psn).is_some());
        n += 1;
    }
    assert_eq!(n, 8 * 64);
    assert_eq!(a.plane_stats(0).unwrap().retransmits, n);
    assert_eq!(a.tx_totals().retransmits_timeout, n);
}

/// Delivers the probes of `a` and the ACKs to them.
fn answer_probes(now: Instant, a: &mut Conn, b: &mut Conn) -> usize {
    let mut n = 0;
    while let Some(p) = a.poll_probe(now) {
        n += 1;
        b.on_probe(now, &p.header, Arrival::default());
    }
    let mut blocks = [AckBlock::default(); 16];
    while let Some(ack) = b.poll_ack(now, &mut blocks) {
        for block in &blocks[..ack.blocks] {
            a.on_ack_block(now, block);
        }
    }
    n
}

fn homes(c: &Conn) -> Vec<(u8, u8)> {
    let routes = (0..c.n_paths()).map(|i| c.route(PathId(i)).unwrap());
    routes.map(|r| (r.local_plane, r.remote_plane)).collect()
}

#[test]
fn planes_that_come_later_are_used() {
    let (mut a, mut b) = pair(1, 1);
    let now = Instant(10_000);
    a.set_local_planes(now, &planes(1, 2));
    shake(now, &mut a, &mut b);
    shake(now, &mut b, &mut a);
    assert_eq!(b.peer_planes().len(), 2);
    // Nobody knows whether the new plane reaches the peer's only one: it is tried out.
    assert_eq!(homes(&a), [(0, 0); 8]);
    a.on_timeout(now);
    // By one path; the others follow.
    assert_eq!(answer_probes(now, &mut a, &mut b), 1);
    assert_eq!(homes(&a)[..4], [(0, 0), (1, 0), (0, 0), (0, 0)]);
    assert_eq!(answer_probes(now, &mut a, &mut b), 3);
    assert_eq!(homes(&a)[..4], [(0, 0), (1, 0), (0, 0), (1, 0)]);
    b.set_local_planes(now, &planes(2, 2));
    shake(now, &mut b, &mut a);
    shake(now, &mut a, &mut b);
    for now in [now, now.after(Duration::from_millis(1_000))] {
        a.on_timeout(now);
        b.on_timeout(now);
        while answer_probes(now, &mut a, &mut b) + answer_probes(now, &mut b, &mut a) > 0 {}
    }
    for c in [&a, &b] {
        assert_eq!(homes(c)[..4], [(0, 0), (1, 1), (0, 0), (1, 1)]);
        assert_eq!(c.n_paths(), 8);
        assert!(c.poll_timeout().is_none(), "nobody is away");
    }
}

#[test]
fn a_plane_that_takes_the_place_of_another_is_used() {
    let (mut a, mut b) = pair(2, 2);
    let now = Instant(10_000);
    let mut list = planes(1, 2);
    *list.get_mut(1).unwrap() = Plane {
        gid: Gid::from_v4([10, 0, 77, 1]),
        ..*list.get(1).unwrap()
    };
    a.set_local_planes(now, &list);
    shake(now, &mut a, &mut b);
    assert_eq!(*b.peer_planes(), list);
    while b.poll_event() == Some(Event::Established) {}
    assert_eq!(a.stats().inits_sent, 2);
    a.set_local_planes(now, &PlaneList::new());
    assert_eq!(*a.local_planes(), list);
}

#[test]
fn late_news_of_planes_are_no_news() {
    let (mut a, mut b) = pair(2, 2);
    let now = Instant(10_000);
    let mut old = [0; 512];
    a.set_local_plane(now, 1, false);
    let tx = a.poll_handshake(now).unwrap();
    let len = a.emit_handshake(&tx, &mut old).unwrap();
    a.set_local_plane(now, 1, true);
    shake(now, &mut a, &mut b);
    assert!(b.peer_planes().get(1).unwrap().up);
    let (header, _) = wire::parse(&old[..len]).unwrap();
    let Body::Init(init) = header.body else {
        panic!("{header:?}");
    };
    assert_eq!(b.on_init(now, &init), InitOutcome::Known);
    assert!(b.peer_planes().get(1).unwrap().up);
    // It is answered nevertheless, with the planes of now.
    shake(now, &mut b, &mut a);
    assert!(a.established());
}

/// The planes by which `c` sends its first handshake packets.
fn ways(c: &mut Conn, n: usize) -> Vec<u8> {
    let mut ways = Vec::new();
    while ways.len() < n {
        let now = c.poll_timeout().unwrap();
        ways.push(c.poll_handshake(now).unwrap().local_plane);
    }
    ways
}

#[test]
fn init_tries_all_planes() {
    let mut a = conn(1, 3);
    let b = conn(2, 3);
    let i = intro(&a, &b);
    a.start(Instant(0), i);
    assert_eq!(ways(&mut a, 6), [0, 1, 0, 2, 0, 1]);
    // The GID's own plane is down.
    let mut a = conn(1, 3);
    a.set_local_plane(Instant(0), 0, false);
    a.start(Instant(0), i);
    assert_eq!(ways(&mut a, 4), [1, 1, 2, 2]);
    // Nothing is up: something must go out all the same, for that may not be true any more.
    a.set_local_plane(Instant(0), 1, false);
    a.set_local_plane(Instant(0), 2, false);
    assert_eq!(ways(&mut a, 2), [0, 0]);
}

#[test]
fn planes_are_announced_by_those_that_are_up() {
    let (mut a, mut b) = pair(3, 3);
    let now = Instant(10_000);
    a.set_local_plane(now, 0, false);
    let tx = a.poll_handshake(now).unwrap();
    assert_ne!(tx.local_plane, 0);
    let gid = b.local_planes().get(tx.local_plane).unwrap().gid;
    assert_eq!(tx.remote, gid, "plane to plane");
    a.set_local_plane(now, 0, true);
    shake(now, &mut a, &mut b);
    // The answer to one that goes astray takes another way.
    let ways: Vec<_> = (0..4)
        .map(|_| {
            let mut buf = [0; 512];
            a.set_local_plane(now, 2, false);
            a.set_local_plane(now, 2, true);
            let tx = a.poll_handshake(now).unwrap();
            let len = a.emit_handshake(&tx, &mut buf).unwrap();
            let (header, _) = wire::parse(&buf[..len]).unwrap();
            if let Body::Init(init) = header.body {
                b.on_init(now, &init);
            }
            b.poll_handshake(now).unwrap().local_plane
        })
        .collect();
    assert!(
        ways.contains(&0) && ways.iter().any(|w| *w != 0),
        "{ways:?}"
    );
}

#[test]
fn the_number_of_paths_is_settled_once() {
    // Planes that come before the peer answers make no more paths than there is room for.
    let (mut a, mut b) = (conn(1, 1), conn(2, 2));
    let i = intro(&a, &b);
    a.start(Instant(0), i);
    a.set_local_planes(Instant(0), &planes(1, 2));
    shake(Instant(0), &mut a, &mut b);
    shake(Instant(0), &mut b, &mut a);
    assert_eq!((a.n_paths(), b.n_paths()), (8, 8));
    assert_eq!(homes(&a)[..2], [(0, 0), (1, 1)]);
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

/// A queue pair does not wait for a peer that never answers.
#[test]
fn a_peer_that_has_not_answered_is_no_progress() {
    let (mut a, mut b) = (conn(1, 1), conn(2, 1));
    assert!(a.stalled_since().is_some());
    a.start(Instant(1_000), intro(&a, &b));
    let mut now = Instant(1_000);
    for _ in 0..20 {
        now = now.after(Duration::from_millis(100));
        while a.poll_handshake(now).is_some() {}
        assert!(a
            .stalled_since()
            .is_some_and(|since| since < Instant(1_000)));
    }
    // The next INIT is due.
    now = now.after(Duration::from_millis(60_000));
    shake(now, &mut a, &mut b);
    shake(now, &mut b, &mut a);
    assert!(a.established());
    assert_eq!(a.stalled_since(), None);
}
