// SPDX-License-Identifier: GPL-2.0

//! What the transport makes of links: rates, loss, marks, planes that fail and come back.

mod sim;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use proto::congestion::Controller;
use proto::connection::Config;
use proto::packet::{DataFields, Opcode, PathId, Qpn, TxDesc};
use proto::path::TxStats;
use proto::psn::Msn;
use proto::time::{Duration, Instant};
use sim::endpoint::{App, Taken};
use sim::net::Plane;
use sim::{connection, intro, planes, Endpoint, Sim};

const LEN: u32 = 4096;
/// Payload, our headers, UDP, IP and Ethernet.
const WIRE: u64 = LEN as u64 + 56 + 66;

/// Sends without end, and notes when packets came.
struct Stream {
    active: bool,
    next: u32,
    /// Arrivals at this side.
    came: Rc<RefCell<Arrivals>>,
}

#[derive(Default)]
struct Arrivals {
    count: u64,
    /// Numbers that came before one that is missing, and the first of those.
    early: BTreeSet<u32>,
    expected: u32,
    /// When all before some number were there, each time that there were more.
    in_order: Vec<u64>,
}

impl Arrivals {
    fn add(&mut self, now: Instant, n: u32) {
        self.count += 1;
        self.early.insert(n);
        let before = self.expected;
        while self.early.remove(&self.expected) {
            self.expected += 1;
        }
        if self.expected > before {
            self.in_order.push(now.0);
        }
    }
}

impl App for Stream {
    fn next(&mut self, _: Instant) -> Option<TxDesc> {
        self.active.then(|| TxDesc {
            opcode: Opcode::Write,
            qpn: Qpn(1),
            peer_qpn: Qpn(2),
            msn: Msn(self.next),
            len: LEN,
            ..TxDesc::default()
        })
    }

    fn committed(&mut self, _: Instant, _: &TxDesc) {
        self.next += 1;
    }

    fn build(&mut self, desc: &TxDesc, payload: &mut Vec<u8>) -> Option<DataFields> {
        payload.resize(LEN as usize, 0);
        Some(DataFields {
            opcode: desc.opcode,
            msn: desc.msn,
            ..DataFields::default()
        })
    }

    fn receive(&mut self, now: Instant, f: &DataFields, _: &[u8]) -> Taken {
        self.came.borrow_mut().add(now, f.msn.0);
        Taken::Accept
    }

    fn acked(&mut self, _: Instant, _: &TxDesc) {}
}

struct Bench {
    sim: Sim,
    nodes: [Endpoint<Stream>; 2],
    came: Rc<RefCell<Arrivals>>,
}

/// A link of `mbits` Mbit/s with a round trip of 200 µs and a deep queue.
fn link(mbits: u64) -> Plane {
    Plane {
        delay: 100_000,
        // bit/ns is a coarse unit: time goes a thousand times slower here, see `Bench::ms`.
        rate: mbits,
        queue: 1_000_000_000_000,
        ..Plane::default()
    }
}

impl Bench {
    fn new(links: Vec<Plane>) -> Self {
        Self::with(links, |_| ())
    }

    fn with(links: Vec<Plane>, set: impl Fn(&mut Config)) -> Self {
        let n = links.len() as u8;
        let lists = [planes(1, n, 10_000), planes(2, n, 10_000)];
        let came = Rc::new(RefCell::new(Arrivals::default()));
        let nodes = [0, 1].map(|i| {
            let mut cfg = Config::new(0x1234_5600 + i as u32, 99 * i as u32 + 7, lists[i]);
            cfg.crc = false;
            set(&mut cfg);
            let app = Stream {
                active: i == 0,
                next: 0,
                came: if i == 1 { came.clone() } else { Rc::default() },
            };
            let mut e = Endpoint::new(connection(cfg, 64), app, i as u64 + 1);
            let intro = intro(&e.conn, &lists[1 - i], i as u32 + 1, 2 - i as u32);
            e.conn.start(Instant(0), intro);
            e
        });
        Bench {
            sim: Sim::new(7, links),
            nodes,
            came,
        }
    }

    fn run(&mut self, ms: u64) {
        let limit = self.sim.now.after(Duration::from_millis(ms));
        self.sim.run(&mut self.nodes, limit, |_, _| false);
        self.sim.now = limit;
    }

    /// Runs for `ms`; returns the packets that came, over those that `mbits` could carry, of 1000.
    fn share(&mut self, ms: u64, mbits: u64) -> u64 {
        let before = self.came.borrow().count;
        self.run(ms);
        let n = self.came.borrow().count - before;
        n * WIRE * 8 * 1000 / (mbits * 1000 * ms)
    }

    /// The longest time since `from`, in µs, without progress of those who need everything in
    /// order, as completions do.
    fn gap(&self, from: Instant) -> u64 {
        let came = self.came.borrow();
        let since = came.in_order.iter().copied().filter(|t| *t >= from.0);
        let all: Vec<_> = since.chain([self.sim.now.0]).collect();
        let gaps = all.windows(2).map(|w| w[1] - w[0]);
        gaps.max().unwrap_or(u64::MAX) / 1000
    }

    fn totals(&self) -> TxStats {
        self.nodes[0].conn.tx_totals()
    }

    fn sent(&self, plane: u8) -> u64 {
        let s = self.nodes[0].conn.plane_stats(plane).expect("a plane");
        s.packets
    }

    #[allow(dead_code)] // For when a test fails.
    fn report(&self) {
        let c = &self.nodes[0].conn;
        println!("{:?} {:?}", c.tx_totals(), c.stats());
        for i in 0..c.n_paths() {
            let p = &c.path(PathId(i)).expect("a path").tx;
            println!(
                "{i} {:?} w {} fl {} rtt {:?} loss {} {:?}",
                p.route(),
                proto::congestion::CongestionControl::window(p.controller()),
                p.in_flight(),
                p.rtt().smoothed(),
                p.loss_share(),
                p.stats().packets,
            );
        }
    }
}

#[test]
fn links_are_filled() {
    for law in ["ecn", "delay"] {
        for n in [1, 2, 4, 8] {
            let mut b = Bench::with(vec![link(1000); n], |cfg| {
                cfg.controller = Controller::by_name(law).expect("a law");
            });
            b.run(100);
            let share = b.share(100, 1000 * n as u64);
            assert!(share >= 970, "{law}, {n} planes: {share}");
            let t = b.totals();
            assert!(t.retransmits() <= 10 * n as u64, "{law} {n} {t:?}");
        }
    }
}

#[test]
fn the_queue_is_bounded_where_nothing_marks() {
    let mut b = Bench::new(vec![link(1000)]);
    b.run(500);
    for i in 0..8 {
        let rtt = b.nodes[0].conn.path(PathId(i)).unwrap().tx.rtt().smoothed();
        assert!(rtt < Some(Duration::from_millis(5)), "{i} {rtt:?}");
    }
}

#[test]
fn random_loss_costs_what_is_lost() {
    for loss in [10, 100, 200, 500, 1000] {
        let mut b = Bench::new(vec![Plane { loss, ..link(1000) }; 2]);
        b.run(200);
        let share = b.share(300, 2000);
        assert!(share + 15 >= 1000 - loss as u64 / 10, "{loss}: {share}");
    }
    // Also on one plane alone: it goes on carrying.
    for loss in [100, 1000] {
        let mut b = Bench::new(vec![Plane { loss, ..link(1000) }, link(1000)]);
        b.run(200);
        let share = b.share(300, 2000);
        assert!(share + 15 >= 1000 - loss as u64 / 20, "{loss}: {share}");
    }
}

#[test]
fn a_fifth_lost_both_ways_is_survived() {
    let mut b = Bench::new(vec![
        Plane {
            loss: 2000,
            ..link(100)
        };
        2
    ]);
    b.run(500);
    let from = b.sim.now;
    let share = b.share(1000, 200);
    assert!(share >= 500, "{share}");
    assert!(b.gap(from) < 100_000, "{}", b.gap(from));
}

#[test]
fn planes_that_are_unequal_share_by_what_they_carry() {
    // Both say that they have 10 Gbit/s.
    let mut b = Bench::new(vec![link(1000), link(100)]);
    b.run(500);
    let before = [b.sent(0), b.sent(1)];
    let share = b.share(1000, 1100);
    let sent = [b.sent(0) - before[0], b.sent(1) - before[1]];
    assert!(share >= 950, "{share}");
    let ratio = sent[0] * 10 / sent[1];
    assert!((85..=120).contains(&ratio), "{sent:?}");
}

#[test]
fn a_blackholed_plane_is_left_and_taken_back() {
    for way in [None, Some(0), Some(1)] {
        let mut b = Bench::new(vec![link(1000); 4]);
        b.run(200);
        let from = b.sim.now;
        match way {
            None => b.sim.planes[2].dead = true,
            from => b.sim.planes[2].dead_from = from,
        }
        b.run(200);
        let gap = b.gap(from);
        assert!(gap <= 50_000, "{way:?}: {gap} us");
        let share = b.share(200, 3000);
        // If only ACKs are lost there, the plane may go on carrying data.
        assert!(share >= 970, "{way:?}: {share}");
        b.sim.planes[2].dead = false;
        b.sim.planes[2].dead_from = None;
        b.run(800);
        let before = b.sent(2);
        let share = b.share(200, 4000);
        assert!(share >= 970, "{way:?}: {share}");
        let on_it = (b.sent(2) - before) * WIRE * 8 / 200;
        assert!(on_it >= 900_000, "{way:?}: {on_it}");
    }
}

#[test]
fn a_plane_that_loses_a_third_gets_little() {
    let mut b = Bench::new(vec![link(1000); 4]);
    b.run(200);
    let from = b.sim.now;
    b.sim.planes[1].loss = 3000;
    b.run(200);
    assert!(b.gap(from) <= 50_000, "{}", b.gap(from));
    let before = b.sent(1);
    let share = b.share(300, 3000);
    assert!(share >= 970, "{share}");
    let on_it = (b.sent(1) - before) * WIRE * 8 / 300;
    assert!(on_it < 50_000, "{on_it}");
    assert!(on_it > 0, "it is looked at now and then");
    b.sim.planes[1].loss = 0;
    b.run(800);
    let share = b.share(200, 4000);
    assert!(share >= 970, "{share}");
}

#[test]
fn an_outage_of_all_planes_is_over_when_it_is() {
    for ms in [5, 50, 400, 1500] {
        let mut b = Bench::new(vec![link(1000); 2]);
        b.run(100);
        for p in &mut b.sim.planes {
            p.dead = true;
        }
        b.run(ms);
        for p in &mut b.sim.planes {
            p.dead = false;
        }
        let from = b.sim.now;
        // Within a try of a queue pair with the usual timeout.
        b.run(67);
        let came = b.came.borrow();
        let resumed = came.in_order.iter().find(|t| **t > from.0 + 200_000);
        assert!(resumed.is_some(), "{ms}");
        drop(came);
        b.run(100);
        let share = b.share(100, 2000);
        assert!(share >= 970, "{ms}: {share}");
    }
}

#[test]
fn marks_keep_the_queue_short() {
    let marking = Plane {
        mark: 400_000,
        queue: 3_000_000,
        ..link(1000)
    };
    let mut b = Bench::new(vec![marking]);
    b.run(200);
    let share = b.share(300, 1000);
    assert!(share >= 970, "{share}");
    assert_eq!(b.sim.dropped, 0);
    assert!(b.totals().marks > 0);
    let rtt = b.nodes[0].conn.path(PathId(0)).unwrap().tx.rtt().smoothed();
    assert!(rtt < Some(Duration::from_micros(1_000)), "{rtt:?}");
}

#[test]
fn a_long_round_trip_is_filled() {
    let mut b = Bench::new(vec![Plane {
        delay: 20_000_000,
        ..link(1000)
    }]);
    b.run(600);
    let share = b.share(500, 1000);
    assert!(share >= 970, "{share}");
    let t = b.totals();
    assert_eq!(
        (t.spurious, t.timeouts, t.retransmits()),
        (0, 0, 0),
        "{t:?}"
    );
}

#[test]
fn reordering_and_jitter_cost_little() {
    for (jitter, reorder) in [(1_000_000, 0), (0, 2500)] {
        let mut b = Bench::new(vec![Plane {
            jitter,
            reorder,
            ..link(1000)
        }]);
        b.run(200);
        let share = b.share(300, 1000);
        println!("{jitter} {reorder} {share} {:?}", b.totals());
        assert!(share >= 900, "{jitter} {reorder}: {share}");
        assert_eq!(b.totals().spurious > 0, reorder > 0);
    }
}
