// SPDX-License-Identifier: GPL-2.0

//! Planes that go, come back or come later.

use super::*;

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
