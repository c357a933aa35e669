// SPDX-License-Identifier: GPL-2.0

//! Permutation: every host sends to one other, as fast as it can.

use super::{cost, counters, gbps, Params, BOTH};
use crate::measure::{cpu_seconds, jain, mean, quantile};
use crate::report::{Curve, Plot, Report, Table};
use crate::rng::Rng;
use crate::time::{MS, US};
use crate::world::Idle;

/// A random order of the hosts in which nobody sends to itself: a cycle.
pub fn cycle(hosts: u32, seed: u64) -> Vec<(u32, u32)> {
    let mut order: Vec<u32> = (0..hosts).collect();
    Rng::new(seed).shuffle(&mut order);
    let next = order.iter().cycle().skip(1);
    order.iter().copied().zip(next.copied()).collect()
}

/// Runs the scenario.
pub fn permutation(p: &Params) -> Report {
    let mut table = Table::new(
        "permutation",
        &[
            "transport",
            "mean_gbps",
            "min_gbps",
            "p10_gbps",
            "ideal_gbps",
            "share",
            "jain",
        ],
    );
    let mut plot = Plot {
        name: "permutation".to_owned(),
        title: format!(
            "Permutation, {} hosts, {} planes",
            p.shape.n_hosts(),
            p.planes
        ),
        x: "host, by rank".to_owned(),
        y: "goodput, share of the ideal".to_owned(),
        curves: Vec::new(),
    };
    let mut report = Report::default();
    report.lines.push(p.describe());
    for transport in BOTH {
        let began = cpu_seconds();
        let mut w = p.world(transport);
        for (src, dst) in cycle(p.shape.n_hosts(), p.seed) {
            w.connect(src, dst);
        }
        w.establish();
        for f in 0..w.n_flows() {
            w.set_endless(f, true);
        }
        let warm = w.now() + p.scaled(500 * US);
        w.run(warm, &mut Idle);
        let before: Vec<u64> = (0..w.n_flows()).map(|f| w.delivered(f)).collect();
        let span = p.scaled(2 * MS);
        w.run(warm + span, &mut Idle);
        let rate = |f| gbps(w.delivered(f) - before[f as usize], span);
        let mut rates: Vec<f64> = (0..w.n_flows()).map(rate).collect();
        let ideal = p.host_gbps(transport);
        let least = quantile(&mut rates, 0.0);
        table.rows.push(vec![
            transport.name().to_owned(),
            format!("{:.1}", mean(&rates)),
            format!("{least:.1}"),
            format!("{:.1}", quantile(&mut rates, 0.1)),
            format!("{ideal:.1}"),
            format!("{:.3}", mean(&rates) / ideal),
            format!("{:.3}", jain(&rates)),
        ]);
        let point = |(i, r): (usize, &f64)| (i as f64, r / ideal);
        plot.curves.push(Curve {
            name: transport.name().to_owned(),
            points: rates.iter().enumerate().map(point).collect(),
        });
        report
            .lines
            .push(format!("{}: {}", transport.name(), counters(&w)));
        report.lines.push(cost(&w, began));
    }
    report.tables.push(table);
    report.plots.push(plot);
    report
}
