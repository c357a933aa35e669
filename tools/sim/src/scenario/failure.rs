// SPDX-License-Identifier: GPL-2.0

//! A plane fails under a permutation, and comes back.
//!
//! Every host keeps [`DEPTH`] messages under way, so what is stuck on the plane holds up what would
//! follow, as it does to an application.

use super::permutation::cycle;
use super::{cost, counters, gbps, Params};
use crate::measure::cpu_seconds;
use crate::report::{Curve, Plot, Report, Table};
use crate::time::{us, Ps, MS, US};
use crate::transport::Transport;
use crate::world::{Workload, World};

/// Messages that a host keeps under way, and their size.
const DEPTH: u32 = 2;
const MESSAGE: u32 = 1 << 20;

/// Posts a message for each one that has arrived.
#[derive(Default)]
struct Loop {
    /// Messages of each flow that were posted before the failure.
    posted: Vec<u32>,
    failed: bool,
    /// When the last of those has arrived.
    last: Ps,
}

impl Workload for Loop {
    fn complete(&mut self, world: &mut World, flow: u32, message: u32) {
        world.post(flow, MESSAGE);
        let posted = &mut self.posted[flow as usize];
        if !self.failed {
            *posted += 1;
        } else if message < *posted {
            self.last = world.now();
        }
    }
}

/// How the plane fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The hosts see their links go down.
    Carrier,
    /// Nothing gets through, and nobody is told.
    Blackhole,
    /// Some packets get through, and nobody is told.
    Lossy,
    /// A switch of the middle level dies, on one plane; nobody is told.
    Switch,
}

impl Failure {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Failure::Carrier => "carrier",
            Failure::Blackhole => "blackhole",
            Failure::Lossy => "lossy",
            Failure::Switch => "switch",
        }
    }

    fn apply(self, p: &Params, w: &mut World, on: bool) {
        let plane = p.planes - 1;
        match self {
            Failure::Carrier => w.set_carrier(plane, !on),
            Failure::Blackhole => w.net.fabric.set_plane(plane, !on),
            Failure::Lossy => {
                for h in 0..p.shape.n_hosts() {
                    let link = w.net.fabric.number(plane, crate::fabric::Hop::HostUp(h));
                    w.net.fabric.link_mut(link).loss = if on { 3_000 } else { 0 };
                }
            }
            Failure::Switch => {
                for l in 0..p.shape.pods * p.shape.leafs {
                    let (up, down) = (
                        crate::fabric::Hop::LeafUp(l, 0),
                        crate::fabric::Hop::AggDown(
                            l / p.shape.leafs * p.shape.aggs,
                            l % p.shape.leafs,
                        ),
                    );
                    for hop in [up, down] {
                        let link = w.net.fabric.number(plane, hop);
                        w.net.fabric.link_mut(link).up = !on;
                    }
                }
            }
        }
    }

    /// Share of the planes' capacity that is left.
    fn left(self, p: &Params) -> f64 {
        let planes = f64::from(p.planes);
        match self {
            Failure::Carrier | Failure::Blackhole | Failure::Lossy => (planes - 1.0) / planes,
            Failure::Switch => 1.0 - 1.0 / planes / f64::from(p.shape.aggs),
        }
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Goodput of all hosts before, as a share of the ideal.
    pub before: f64,
    /// From the failure until the first path left its route; 0 where hosts are told.
    pub detected: Option<Ps>,
    /// … until the last path that was on the plane had left, for those that leave at all.
    pub left: Option<Ps>,
    /// From the failure until goodput was, and from then on stayed, at 0.95 of what is left of that
    /// before, in each round trip.
    pub recovered: Option<Ps>,
    /// From the failure until the last message had arrived that was under way then.
    pub stuck: Ps,
    /// Longest time in which less than a tenth of the usual arrived.
    pub gap: Ps,
    /// Goodput at the end of the failure, as a share of what is left.
    pub during: f64,
    /// From the repair until goodput was at 0.95 of that before.
    pub restored: Option<Ps>,
    /// Arrivals of all hosts, bins of [`BIN`].
    pub bins: Vec<u64>,
    /// When it failed.
    pub at: Ps,
    /// For the report.
    pub lines: Vec<String>,
}

impl Recovery {
    /// From the failure until all hosts knew of it: until the last connection had left a plane that
    /// carries nothing, or the first did something where only a part is bad.
    pub fn noticed(&self, failure: Failure) -> Option<Ps> {
        match failure {
            Failure::Blackhole => self.left,
            _ => self.detected,
        }
    }
}

/// Resolution of the curve.
pub const BIN: Ps = US;

/// Lets a plane fail for `down`, and watches for `after` more.
pub fn recovery(p: &Params, failure: Failure, down: Ps, after: Ps) -> Recovery {
    let began = cpu_seconds();
    let transport = Transport::MetaRoce;
    let hosts = p.shape.n_hosts();
    let mut w = p.world(transport);
    for (src, dst) in cycle(hosts, p.seed) {
        w.connect(src, dst);
    }
    w.establish();
    w.series.bin = BIN;
    for f in 0..w.n_flows() {
        for _ in 0..DEPTH {
            w.post(f, MESSAGE);
        }
    }
    let at = (w.now() + p.scaled(MS)) / BIN * BIN;
    let mut load = Loop {
        posted: vec![DEPTH; hosts as usize],
        ..Loop::default()
    };
    w.run(at, &mut load);
    load.failed = true;
    let changes = |w: &World| -> u64 { w.connections().map(|c| c.tx_totals().route_changes).sum() };
    let calm = changes(&w);
    failure.apply(p, &mut w, true);
    let (mut detected, mut left) = (None, None);
    let mut last = calm;
    if changes(&w) > calm {
        detected = Some(0);
        left = Some(0);
        last = changes(&w);
    }
    while w.now() < at + down {
        let until = (w.now() + BIN).min(at + down);
        w.run(until, &mut load);
        let n = changes(&w);
        if n > last {
            let since = w.now() - at;
            detected.get_or_insert(since);
            // Later ones are paths that try their planes again.
            if failure != Failure::Carrier && since < 20 * MS {
                left = Some(since);
            }
            last = n;
        }
    }
    let up_at = w.now();
    failure.apply(p, &mut w, false);
    w.run(up_at + after, &mut load);

    let bins = w.series.groups.first().cloned().unwrap_or_default();
    let width = p.rtt().div_ceil(BIN) as usize;
    let (k, up) = ((at / BIN) as usize, (up_at / BIN) as usize);
    let window = |from: usize, n: usize| -> f64 {
        let bytes: u64 = bins.iter().skip(from).take(n).sum();
        gbps(bytes, n.max(1) as u64 * BIN)
    };
    let calm = k / 2;
    let usual = window(k - calm, calm);
    let left_share = failure.left(p);
    let good = 0.95 * left_share * usual;
    let low = (k..up.saturating_sub(width))
        .rev()
        .find(|i| window(*i, width) < good);
    let recovered = match low {
        Some(i) if i + 2 * width >= up => None,
        Some(i) => Some((i + 1 - k) as u64 * BIN),
        None => Some(0),
    };
    let restored = (up..bins.len().saturating_sub(10 * width))
        .find(|i| window(*i, 10 * width) >= 0.95 * usual)
        .map(|i| (i - up) as u64 * BIN);
    let mut gap = 0;
    let mut run = 0;
    for i in k..up {
        run = if window(i, 1) < 0.1 * usual {
            run + 1
        } else {
            0
        };
        gap = gap.max(run);
    }
    let tail = (up - k) / 4;
    Recovery {
        before: usual / (p.host_gbps(transport) * f64::from(hosts)),
        detected,
        left,
        recovered,
        stuck: load.last.saturating_sub(at),
        gap: gap * BIN,
        during: window(up - tail, tail) / (left_share * usual),
        restored,
        bins,
        at,
        lines: vec![counters(&w), cost(&w, began)],
    }
}

/// Runs the scenario for each kind of failure.
pub fn failure(p: &Params) -> Report {
    let mut report = Report::default();
    report.lines.push(p.describe());
    let mut table = Table::new(
        "failure",
        &[
            "failure",
            "before",
            "detected_us",
            "left_us",
            "recovered_us",
            "beyond_rtt",
            "stuck_us",
            "gap_us",
            "during",
            "restored_us",
        ],
    );
    let mut plot = Plot {
        name: "failure".to_owned(),
        title: format!(
            "One of {} planes fails, {} hosts",
            p.planes,
            p.shape.n_hosts()
        ),
        x: "time since the failure, us".to_owned(),
        y: "goodput, share of the usual".to_owned(),
        curves: Vec::new(),
    };
    let rtt = p.rtt();
    let all = [
        Failure::Carrier,
        Failure::Blackhole,
        Failure::Lossy,
        Failure::Switch,
    ];
    for f in all {
        let r = recovery(p, f, p.scaled(3 * MS), p.scaled(3 * MS));
        let time = |t: Option<Ps>| t.map_or("never".to_owned(), |t| format!("{:.0}", us(t)));
        let beyond = r
            .recovered
            .zip(r.noticed(f))
            .map(|(r, d)| r.saturating_sub(d));
        table.rows.push(vec![
            f.name().to_owned(),
            format!("{:.3}", r.before),
            time(r.detected),
            time(r.left),
            time(r.recovered),
            beyond.map_or("-".to_owned(), |t| format!("{:.1}", us(t) / us(rtt))),
            format!("{:.0}", us(r.stuck)),
            format!("{:.0}", us(r.gap)),
            format!("{:.3}", r.during),
            time(r.restored),
        ]);
        report
            .lines
            .push(format!("{}: {}", f.name(), r.lines.join("; ")));
        let k = (r.at / BIN) as usize;
        let usual =
            r.bins.iter().skip(k / 2).take(k / 2).sum::<u64>() as f64 / (k / 2).max(1) as f64;
        let step = 5;
        let from = k.saturating_sub(100);
        let points = r.bins[from..]
            .chunks(step)
            .take(200)
            .enumerate()
            .map(|(i, c)| {
                let x = (from + i * step) as f64 - k as f64;
                (x, c.iter().sum::<u64>() as f64 / c.len() as f64 / usual)
            });
        plot.curves.push(Curve {
            name: f.name().to_owned(),
            points: points.collect(),
        });
    }
    report.tables.push(table);
    report.plots.push(plot);
    report
}
