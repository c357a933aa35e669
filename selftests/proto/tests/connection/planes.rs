// SPDX-License-Identifier: GPL-2.0

//! Planes that fail, with and without saying so, and routes that change.

use super::*;

#[test]
fn equal_planes_share_evenly() {
    seeds(6, 4, |seed| {
        let plane = Plane {
            rate: 10_000,
            ..Plane::default()
        };
        let setup = Setup {
            packets: [20_000, 20_000],
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        run(&mut sim, &mut nodes, 60);
        for e in &nodes {
            let bytes = [0, 1].map(|p| e.conn.plane_stats(p).expect("a plane").bytes);
            let (min, max) = (bytes[0].min(bytes[1]), bytes[0].max(bytes[1]));
            assert!(max * 100 <= min * 105, "{bytes:?}");
        }
    });
}

#[test]
fn a_plane_that_goes_down_is_left_at_once() {
    seeds(7, 6, |seed| {
        let plane = Plane {
            rate: 1_000,
            ..Plane::default()
        };
        let setup = Setup {
            packets: [20_000, 20_000],
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        let at = Instant(1_020_000_000);
        sim.run(&mut nodes, at, |_, _| false);
        // One side sees its link go, the other learns it from the announcement, also if the plane
        // is that by which they met.
        let dead = (seed % 2) as u8;
        sim.planes[usize::from(dead)].dead = true;
        sim.now = at;
        nodes[0].conn.set_local_plane(at, dead, false);
        let before = sim.now;
        let limit = at.after(Duration::from_millis(20));
        sim.run(&mut nodes, limit, |_, _| false);
        for e in &nodes {
            assert!(!e.app.done(&e.app));
            for p in 0..e.conn.n_paths() {
                let route = e.conn.route(proto::packet::PathId(p)).expect("a path");
                assert_ne!(route.local_plane, dead);
            }
            // No path waits: progress within the last few round trips.
            let stalled = e.conn.stalled_since().expect("busy");
            assert!(
                sim.now.since(stalled) < Duration::from_millis(5),
                "{before:?}"
            );
        }
        sim.planes[usize::from(dead)].dead = false;
        nodes[0].conn.set_local_plane(sim.now, dead, true);
        run(&mut sim, &mut nodes, 60);
        // The data may be through before a path has tried its own planes again.
        let limit = sim.now.after(Duration::from_millis(1_000));
        sim.run(&mut nodes, limit, |_, _| false);
        for e in &nodes {
            let path = proto::packet::PathId(u16::from(dead));
            let route = e.conn.route(path).expect("a path");
            assert_eq!(route.local_plane, dead);
            assert!(e.events.contains(&Event::PathsChanged));
        }
    });
}

/// Nobody tells that the plane is dead.
#[test]
fn a_dead_plane_is_left_by_timeouts() {
    seeds(8, 8, |seed| {
        // Also with data in one direction only: the ACKs must find another way by themselves.
        let back = if seed % 2 == 0 { 20_000 } else { 0 };
        let plane = Plane {
            rate: 1_000,
            ..Plane::default()
        };
        let setup = Setup {
            packets: [20_000, back],
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        sim.run(&mut nodes, Instant(1_020_000_000), |_, _| false);
        sim.planes[1].dead = true;
        run(&mut sim, &mut nodes, 10);
        assert!(nodes[0].conn.stats().reroutes_timeout > 0);
    });
}

/// … nor that it works again: the paths find out.
#[test]
fn a_plane_that_works_again_is_used_again() {
    seeds(12, 4, |seed| {
        let plane = Plane {
            rate: 1_000,
            delay: 1_000_000,
            loss: 50,
            ..Plane::default()
        };
        let setup = Setup {
            packets: [1_000_000, 0],
            // Fixed, so one plane must bear all of it.
            window: 4,
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        let run_for = |sim: &mut Sim, nodes: &mut [Endpoint<Counter>; 2], ms| {
            let until = sim.now.after(Duration::from_millis(ms));
            sim.run(nodes, until, |_, _| false);
        };
        run_for(&mut sim, &mut nodes, 20);
        sim.planes[1].dead = true;
        run_for(&mut sim, &mut nodes, 1_000);
        let on_home = |nodes: &[Endpoint<Counter>; 2]| {
            let routes = (0..16).map(|i| nodes[0].conn.route(proto::packet::PathId(i)));
            let planes: Vec<_> = routes.map(|r| r.expect("a path").local_plane).collect();
            planes.iter().filter(|p| **p == 1).count()
        };
        assert_eq!(on_home(&nodes), 0);
        sim.planes[1].dead = false;
        run_for(&mut sim, &mut nodes, 1_200);
        assert!(on_home(&nodes) >= 6, "{}", on_home(&nodes));
        assert!(nodes[0].conn.stats().returns > 0);
        nodes[0].app.to_send = nodes[0].app.sent;
        let limit = sim.now.after(Duration::from_millis(10_000));
        let idle = sim.run(&mut nodes, limit, |_, n| n[0].conn.is_idle());
        assert!(idle);
    });
}

#[test]
fn routes_may_change_at_any_time() {
    seeds(9, 10, |seed| {
        let mut rng = Rng::new(seed);
        let plane = |delay| Plane {
            delay,
            jitter: 5_000,
            loss: 100,
            rate: 1_000,
            ..Plane::default()
        };
        let (mut sim, mut nodes) = start(
            seed,
            vec![plane(10_000), plane(1_000_000)],
            &Setup::default(),
        );
        for _ in 0..200 {
            let until = sim.now.after(Duration(rng.below(500_000)));
            if sim.run(&mut nodes, until, |_, nodes| finished(nodes)) {
                break;
            }
            let path = proto::packet::PathId(rng.below(16) as u16);
            let conn = &mut nodes[rng.below(2) as usize].conn;
            if rng.chance(5_000) {
                conn.change_port(sim.now, path);
            } else {
                conn.change_planes(sim.now, path);
            }
        }
        run(&mut sim, &mut nodes, 60);
    });
}
