// SPDX-License-Identifier: GPL-2.0

//! How two become one connection, and how it ends.

use super::*;

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
