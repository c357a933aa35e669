// SPDX-License-Identifier: GPL-2.0

//! Connections under trouble: every packet is delivered exactly once and acknowledged in the end.

mod sim;

use std::collections::HashMap;

use proto::connection::Event;
use proto::packet::{DataFields, NakCode, Opcode, Qpn, TxDesc};
use proto::psn::Msn;
use proto::stream::Nak;
use proto::time::{Duration, Instant};
use sim::endpoint::{App, Taken};
use sim::net::Plane;
use sim::{ends, seeds, Endpoint, Ends, Rng, Sim, Trouble};

/// Sends numbered packets, and keeps account of those that the peer sends.
struct Counter {
    to_send: u32,
    sent: u32,
    len: u32,
    rng: Rng,
    /// Packets refused and aborted by this side, 1/10,000.
    refuse: u32,
    abort: u32,
    /// By number: how often it came, and whether it was refused.
    received: HashMap<u32, bool>,
    refused: u32,
    /// Numbers whose descriptor came back.
    acked: HashMap<u32, ()>,
    /// Numbers that the peer refused.
    naks: HashMap<u32, ()>,
}

impl Counter {
    fn new(to_send: u32, seed: u64) -> Self {
        Counter {
            to_send,
            sent: 0,
            len: 512,
            rng: Rng::new(seed),
            refuse: 0,
            abort: 0,
            received: HashMap::new(),
            refused: 0,
            acked: HashMap::new(),
            naks: HashMap::new(),
        }
    }

    fn done(&self, peer: &Counter) -> bool {
        self.acked.len() as u32 == self.to_send
            && peer.received.len() as u32 == self.to_send
            && self.naks.len() as u32 == peer.refused
    }
}

impl App for Counter {
    fn next(&mut self, _: Instant) -> Option<TxDesc> {
        (self.sent < self.to_send).then(|| TxDesc {
            opcode: Opcode::Write,
            qpn: Qpn(1),
            peer_qpn: Qpn(2),
            msn: Msn(self.sent),
            len: self.len,
            ..TxDesc::default()
        })
    }

    fn committed(&mut self, _: Instant, desc: &TxDesc) {
        assert_eq!(desc.msn.0, self.sent);
        self.sent += 1;
    }

    fn build(&mut self, desc: &TxDesc, payload: &mut Vec<u8>) -> Option<DataFields> {
        let fields = DataFields {
            opcode: desc.opcode,
            msn: desc.msn,
            src_qpn: desc.qpn,
            dst_qpn: desc.peer_qpn,
            ..DataFields::default()
        };
        payload.resize(desc.len as usize, desc.msn.0 as u8);
        Some(fields)
    }

    fn receive(&mut self, _: Instant, f: &DataFields, payload: &[u8]) -> Taken {
        if f.opcode == Opcode::Nak {
            assert!(
                !self.acked.contains_key(&f.msn.0),
                "acknowledged before the NAK came"
            );
            assert!(self.naks.insert(f.msn.0, ()).is_none(), "NAK twice");
            return Taken::Accept;
        }
        assert!(payload.iter().all(|b| *b == f.msn.0 as u8));
        if self.rng.chance(self.abort) {
            return Taken::Abort;
        }
        let refuse = self.rng.chance(self.refuse);
        let before = self.received.insert(f.msn.0, refuse);
        assert!(before.is_none(), "packet {} delivered twice", f.msn.0);
        if !refuse {
            return Taken::Accept;
        }
        self.refused += 1;
        Taken::Refuse(
            Nak {
                code: NakCode::Rnr,
                msn: f.msn,
                qpn: f.dst_qpn,
                peer_qpn: f.src_qpn,
                ..Nak::default()
            }
            .to_desc(),
        )
    }

    fn acked(&mut self, _: Instant, desc: &TxDesc) {
        assert!(
            self.acked.insert(desc.msn.0, ()).is_none(),
            "acknowledged twice"
        );
    }
}

struct Setup {
    planes: [u8; 2],
    packets: [u32; 2],
    window: u32,
    naks: usize,
    refuse: u32,
    abort: u32,
    trouble: Trouble,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            planes: [2, 2],
            packets: [3000, 3000],
            window: 64,
            naks: 256,
            refuse: 0,
            abort: 0,
            trouble: Trouble::default(),
        }
    }
}

fn pair(seed: u64, s: &Setup) -> [Endpoint<Counter>; 2] {
    let setup = Ends {
        planes: s.planes,
        window: s.window,
        naks: s.naks,
        trouble: s.trouble,
        qpns: [1, 2],
    };
    ends(&mut Rng::new(seed ^ 0xabcd), setup, |i, rng| Counter {
        refuse: s.refuse,
        abort: s.abort,
        ..Counter::new(s.packets[i], rng.next())
    })
}

/// The two, and the links between them.
fn start(seed: u64, links: Vec<Plane>, s: &Setup) -> (Sim, [Endpoint<Counter>; 2]) {
    (Sim::new(seed, links), pair(seed, s))
}

fn finished(nodes: &[Endpoint<Counter>; 2]) -> bool {
    let [a, b] = nodes;
    a.app.done(&b.app) && b.app.done(&a.app) && a.conn.is_idle() && b.conn.is_idle()
}

fn run(sim: &mut Sim, nodes: &mut [Endpoint<Counter>; 2], secs: u64) {
    let limit = sim.now.after(Duration::from_millis(secs * 1000));
    let ok = sim.run(nodes, limit, |_, nodes| finished(nodes));
    let report = |e: &Endpoint<Counter>| {
        format!(
            "sent {} acked {} received {} naks {} tx {:?} rx {:?} {:?}",
            e.app.sent,
            e.app.acked.len(),
            e.app.received.len(),
            e.app.naks.len(),
            e.conn.tx_totals(),
            e.conn.rx_totals(),
            e.conn.stats(),
        )
    };
    assert!(
        ok,
        "stuck at {:?}\n{}\n{}",
        sim.now,
        report(&nodes[0]),
        report(&nodes[1])
    );
}

#[test]
fn a_fifo_network_without_loss_needs_no_retransmission() {
    seeds(1, 20, |seed| {
        let mut rng = Rng::new(seed);
        let plane = Plane {
            delay: 5_000,
            jitter: 20_000,
            ..Plane::default()
        };
        let setup = Setup {
            planes: [1 + rng.below(3) as u8, 1 + rng.below(3) as u8],
            window: 1 + rng.below(256) as u32,
            refuse: [0, 30][rng.below(2) as usize],
            trouble: Trouble {
                slow: [0, 300, 5_000][rng.below(3) as usize],
                put_back: 0,
            },
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 3], &setup);
        // What overtakes the INIT_ACK is dropped, and that would be a loss.
        let packets = nodes.each_mut().map(|e| std::mem::take(&mut e.app.to_send));
        let limit = sim.now.after(Duration::from_millis(1_000));
        assert!(sim.run(&mut nodes, limit, |_, n| n
            .iter()
            .all(|e| e.conn.established())));
        for (e, n) in nodes.iter_mut().zip(packets) {
            e.app.to_send = n;
        }
        run(&mut sim, &mut nodes, 60);
        for e in &nodes {
            let (tx, rx) = (e.conn.tx_totals(), e.conn.rx_totals());
            assert_eq!(tx.retransmits(), 0, "{tx:?} {:?}", e.conn.stats());
            assert_eq!(tx.timeouts, 0);
            assert_eq!((rx.duplicates, rx.outside, rx.gaps), (0, 0, 0));
        }
    });
}

#[test]
fn loss_is_repaired() {
    seeds(2, 20, |seed| {
        let mut rng = Rng::new(seed);
        let loss = [10, 100, 1_000, 3_000][rng.below(4) as usize];
        let plane = Plane {
            jitter: 10_000,
            loss,
            ..Plane::default()
        };
        let setup = Setup {
            window: 1 + rng.below(256) as u32,
            refuse: 50,
            abort: 50,
            trouble: Trouble {
                slow: 300,
                put_back: 500,
            },
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        run(&mut sim, &mut nodes, 600);
    });
}

/// Evidence is exact: on a FIFO network what is sent again was lost, but for packets whose
/// acknowledgement took longer than the timers allow.
#[test]
fn only_what_was_lost_is_sent_again() {
    seeds(3, 6, |seed| {
        let plane = Plane {
            loss: 100,
            ..Plane::default()
        };
        let setup = Setup {
            packets: [20_000, 0],
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        run(&mut sim, &mut nodes, 600);
        let tx = nodes[0].conn.tx_totals();
        let rx = nodes[1].conn.rx_totals();
        assert!(tx.retransmits_gap > 100, "{tx:?}");
        // Timeouts may guess wrong, evidence may not.
        assert!(rx.duplicates <= tx.retransmits_timeout, "{tx:?} {rx:?}");
    });
}

#[test]
fn any_disorder_is_survived() {
    seeds(4, 16, |seed| {
        let mut rng = Rng::new(seed);
        let mut plane = || Plane {
            delay: 1_000 + rng.below(200_000),
            jitter: rng.below(1_000_000),
            loss: rng.below(1_000) as u32,
            duplicate: rng.below(1_000) as u32,
            reorder: rng.below(2_000) as u32,
            ..Plane::default()
        };
        let links = vec![plane(), plane(), plane()];
        let setup = Setup {
            planes: [1 + rng.below(3) as u8, 1 + rng.below(3) as u8],
            window: 1 + rng.below(256) as u32,
            naks: 1 + rng.below(8) as usize,
            refuse: rng.below(500) as u32,
            abort: rng.below(500) as u32,
            trouble: Trouble {
                slow: rng.below(3_000) as u32,
                put_back: rng.below(3_000) as u32,
            },
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, links, &setup);
        run(&mut sim, &mut nodes, 600);
    });
}

/// Both sides refuse everything: the NAKs must get through all the same.
#[test]
fn refusals_do_not_block_each_other() {
    seeds(5, 10, |seed| {
        let plane = Plane {
            loss: 100,
            ..Plane::default()
        };
        let setup = Setup {
            window: 256,
            naks: 16 + Rng::new(seed).below(2_000) as usize,
            refuse: 10_000,
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        run(&mut sim, &mut nodes, 600);
    });
}

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

#[test]
fn marks_are_counted_once() {
    let plane = Plane {
        rate: 1_000,
        mark: 100_000,
        ..Plane::default()
    };
    let setup = Setup {
        planes: [1, 1],
        ..Setup::default()
    };
    let (mut sim, mut nodes) = start(11, vec![plane], &setup);
    run(&mut sim, &mut nodes, 60);
    let [a, b] = &nodes;
    assert!(a.conn.tx_totals().marks > 100);
    assert_eq!(a.conn.tx_totals().marks, b.conn.rx_totals().marks);
}

#[test]
fn connecting_survives_loss() {
    seeds(10, 50, |seed| {
        let plane = Plane {
            loss: 5_000,
            ..Plane::default()
        };
        let setup = Setup {
            planes: [1, 1],
            packets: [0, 0],
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane], &setup);
        let limit = sim.now.after(Duration::from_millis(20_000));
        let up = sim.run(&mut nodes, limit, |_, n| {
            n.iter().all(|e| e.conn.established())
        });
        assert!(up);
        let [a, b] = &nodes;
        assert_eq!(a.conn.peer_id(), b.conn.local_id());
        assert_eq!(b.conn.peer_id(), a.conn.local_id());
    });
}
