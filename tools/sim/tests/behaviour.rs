// SPDX-License-Identifier: GPL-2.0

//! What small networks must show, on fixed seeds. Times are simulated times.

use metaroce_sim::fabric::{Queueing, Shape};
use metaroce_sim::rng::{seeds, Rng};
use metaroce_sim::scenario::{incast_of, joiner, linear, recovery, Failure, Params};
use metaroce_sim::time::{MS, US};
use metaroce_sim::transport::Transport;
use metaroce_sim::world::{Idle, Workload, World, WorldConfig};

fn small(seed: u64) -> Params {
    Params {
        shape: Shape::leaf_spine(4, 4),
        planes: 2,
        seed,
        ..Params::default()
    }
}

/// Counts what arrives.
#[derive(Default)]
struct Count(usize);

impl Workload for Count {
    fn complete(&mut self, _: &mut World, _: u32, _: u32) {
        self.0 += 1;
    }
}

/// Messages of all sizes through short queues, and links that lose: each packet must be delivered
/// once (the receiver checks), and each message.
#[test]
fn everything_is_delivered_once() {
    seeds(1, 4, |seed| {
        let mut rng = Rng::new(seed);
        let p = small(seed);
        let mut fabric = p.fabric();
        fabric.queueing = Queueing {
            mark_min: 10_000,
            mark_max: 20_000,
            limit: 40_000,
        };
        let mut w = World::new(WorldConfig {
            fabric,
            transport: Transport::MetaRoce,
            settings: p.settings,
            mtu: p.mtu,
            device: 8192,
            seed,
        });
        let hosts = p.shape.n_hosts();
        for src in 0..hosts {
            for _ in 0..3 {
                w.connect(
                    src,
                    (src + 1 + rng.below(u64::from(hosts) - 1) as u32) % hosts,
                );
            }
        }
        w.establish();
        for link in 0..2 * p.shape.n_links() {
            w.net.fabric.link_mut(link).loss = rng.below(100) as u32;
        }
        let mut count = Count::default();
        let mut posted = 0;
        for _ in 0..20 {
            for f in 0..w.n_flows() {
                let len = 1 << rng.below(18);
                w.post(f, len + rng.below(u64::from(len)) as u32);
                posted += 1;
            }
            let until = w.now() + rng.below(200) * US;
            w.run(until, &mut count);
        }
        let until = w.now() + 2_000 * MS;
        w.run(until, &mut count);
        assert_eq!(count.0, posted);
        assert_eq!(w.outstanding(), 0);
        assert_eq!(w.net.misrouted, 0);
        assert!(w.connections().all(|c| c.is_idle()));
        let t = w.totals();
        assert!(t.drops > 0 && t.lost > 0 && t.marks > 0, "{t:?}");
    });
}

/// Two runs of the same seed are the same run, and of another are not.
#[test]
fn a_seed_is_all_it_takes() {
    let run = |seed| {
        let p = small(seed);
        let mut w = p.world(Transport::MetaRoce);
        for src in 1..8 {
            w.connect(src, 0);
        }
        w.establish();
        for f in 0..7 {
            w.set_endless(f, true);
        }
        let until = w.now() + 300 * US;
        w.run(until, &mut Idle);
        let delivered: Vec<u64> = (0..7).map(|f| w.delivered(f)).collect();
        (w.events, delivered, format!("{:?}", w.totals()))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn throughput_is_linear_in_planes() {
    let of = |planes| {
        let p = Params {
            planes,
            effort: 0.5,
            ..small(3)
        };
        linear(&p, Transport::MetaRoce, 15).gbps
    };
    let one = of(1);
    for planes in [2, 4] {
        let gbps = of(planes);
        let share = gbps / one / f64::from(planes);
        assert!(share >= 0.98, "{planes} planes: {share:.3}");
    }
}

/// A plane dies: what was on it gets through on the others, whether hosts are told or not, and
/// goodput is back within three round trips once they know.
#[test]
fn a_dead_plane_is_left() {
    let p = Params {
        planes: 4,
        effort: 0.3,
        ..small(4)
    };
    for failure in [Failure::Carrier, Failure::Blackhole] {
        let r = recovery(&p, failure, 500 * US, 100 * US);
        let noticed = r.noticed(failure).expect("hosts leave the plane");
        let recovered = r.recovered.expect("goodput recovers");
        let rtts = recovered.saturating_sub(noticed) as f64 / p.rtt() as f64;
        assert!(rtts <= 3.0, "{failure:?}: {rtts:.1} round trips");
        assert!(r.during >= 0.95, "{failure:?}: {:.3}", r.during);
    }
}

#[test]
fn incast_is_fair_and_full() {
    let p = Params {
        effort: 0.5,
        ..small(5)
    };
    let r = incast_of(&p, 8);
    assert!(r.jain >= 0.98, "{r:?}");
    assert!(r.share >= 0.95, "{r:?}");
    let joined = joiner(&p, Transport::MetaRoce, 7).settled;
    let joined = joined.expect("the joiner gets its share") as f64 / p.rtt() as f64;
    assert!(joined <= 2.0, "{joined:.1} round trips");
}
