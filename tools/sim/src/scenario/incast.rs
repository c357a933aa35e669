// SPDX-License-Identifier: GPL-2.0

//! Incast: several hosts send to one, as fast as they can; and one that joins later.

use super::{cost, counters, gbps, Params, BOTH};
use crate::measure::{cpu_seconds, jain, mean, quantile};
use crate::report::{Curve, Plot, Report, Table};
use crate::time::{us, Ps, MS, US};
use crate::transport::Transport;
use crate::world::{Idle, World};

/// Senders of an incast, spread over the leafs, as seen from host 0.
fn senders(p: &Params, n: u32) -> Vec<u32> {
    let hosts = p.shape.n_hosts();
    let step = p.shape.hosts + 1;
    (0..n).map(|k| 1 + k * step % (hosts - 1)).collect()
}

fn connected(p: &Params, transport: Transport, n: u32) -> World {
    let mut w = p.world(transport);
    for src in senders(p, n) {
        w.connect(src, 0);
    }
    w.establish();
    w
}

/// Result of an incast of endless flows.
#[derive(Clone, Debug)]
pub struct Incast {
    /// Goodput of each, Gbit/s.
    pub rates: Vec<f64>,
    /// Share of the receiver's rate in use.
    pub share: f64,
    /// Jain's index.
    pub jain: f64,
    /// Longest queue of a switch while it was measured and before, bytes.
    pub peak: u64,
    /// For the report.
    pub lines: Vec<String>,
}

fn settled(p: &Params, transport: Transport, n: u32) -> Incast {
    let began = cpu_seconds();
    let mut w = connected(p, transport, n);
    for f in 0..n {
        w.set_endless(f, true);
    }
    let warm = w.now() + p.scaled(MS);
    w.run(warm, &mut Idle);
    let before: Vec<u64> = (0..n).map(|f| w.delivered(f)).collect();
    let span = p.scaled(2 * MS);
    w.run(warm + span, &mut Idle);
    let rate = |f| gbps(w.delivered(f) - before[f as usize], span);
    let rates: Vec<f64> = (0..n).map(rate).collect();
    Incast {
        share: rates.iter().sum::<f64>() / p.host_gbps(transport),
        jain: jain(&rates),
        rates,
        peak: w.totals().peak,
        lines: vec![counters(&w), cost(&w, began)],
    }
}

/// An incast of `n` endless flows with MetaRoCE.
pub fn incast_of(p: &Params, n: u32) -> Incast {
    settled(p, Transport::MetaRoce, n)
}

/// Result of a late joiner.
#[derive(Clone, Debug)]
pub struct Joiner {
    /// From its first message until it had its fair share, within a tenth, for one round trip;
    /// `None` if never.
    pub settled: Option<Ps>,
    /// Goodput of the joiner and of all others over time, bins of [`BIN`].
    pub curves: [Vec<u64>; 2],
    /// When it joined.
    pub at: Ps,
}

/// Resolution of the late joiner's curve.
pub const BIN: Ps = US;

/// `n` flows are under way when another one starts.
pub fn joiner(p: &Params, transport: Transport, n: u32) -> Joiner {
    let mut w = connected(p, transport, n + 1);
    w.series.bin = BIN;
    w.set_group(n, 1);
    for f in 0..n {
        w.set_endless(f, true);
    }
    let at = (w.now() + p.scaled(2 * MS)) / BIN * BIN;
    w.run(at, &mut Idle);
    w.set_endless(n, true);
    w.run(at + p.scaled(3 * MS), &mut Idle);
    let mut groups = w.series.groups.clone();
    groups.resize(2, Vec::new());
    let joined = groups.pop().unwrap_or_default();
    let others = groups.pop().unwrap_or_default();
    let fair = p.host_gbps(transport) / f64::from(n + 1);
    let rtt = p.rtt();
    let first = (at / BIN) as usize;
    let width = rtt.div_ceil(BIN) as usize;
    // The bins of one round trip, by the time at which they begin.
    let near = |k: usize| {
        let bytes: u64 = joined.iter().skip(k).take(width).sum();
        gbps(bytes, width as u64 * BIN) >= 0.9 * fair
    };
    let settled = (first..joined.len().saturating_sub(width))
        .find(|k| near(*k))
        .map(|k| (k as u64 * BIN).saturating_sub(at));
    Joiner {
        settled,
        curves: [joined, others],
        at,
    }
}

/// Runs both.
pub fn incast(p: &Params, n: u32) -> Report {
    let mut report = Report::default();
    report.lines.push(p.describe());
    let mut table = Table::new(
        "incast",
        &[
            "transport",
            "senders",
            "share",
            "jain",
            "min_gbps",
            "mean_gbps",
            "max_gbps",
            "queue_peak_kb",
            "joiner_us",
            "joiner_rtt",
        ],
    );
    let rtt = us(p.rtt());
    for transport in BOTH {
        let mut r = settled(p, transport, n);
        let j = joiner(p, transport, n - 1);
        report.lines.push(format!("{}:", transport.name()));
        report.lines.extend(r.lines);
        let joined = |scale: f64| match j.settled {
            Some(t) => format!("{:.1}", us(t) / scale),
            None => "never".to_owned(),
        };
        table.rows.push(vec![
            transport.name().to_owned(),
            n.to_string(),
            format!("{:.3}", r.share),
            format!("{:.4}", r.jain),
            format!("{:.1}", quantile(&mut r.rates, 0.0)),
            format!("{:.1}", mean(&r.rates)),
            format!("{:.1}", quantile(&mut r.rates, 1.0)),
            (r.peak / 1000).to_string(),
            joined(1.0),
            joined(rtt),
        ]);
        let first = (j.at / BIN) as usize;
        let from = first.saturating_sub(50);
        let points = |bins: &[u64]| {
            let span = bins.iter().enumerate().skip(from).take(350);
            span.map(|(k, b)| (k as f64 - first as f64, gbps(*b, BIN)))
                .collect()
        };
        let [joined, others] = &j.curves;
        report.plots.push(Plot {
            name: format!("incast-joiner-{}", transport.name().to_lowercase()),
            title: format!(
                "{}: one joins {} senders to one host",
                transport.name(),
                n - 1
            ),
            x: "time since it joined, us".to_owned(),
            y: "goodput, Gbit/s".to_owned(),
            curves: vec![
                Curve {
                    name: "others".to_owned(),
                    points: points(others),
                },
                Curve {
                    name: "joiner".to_owned(),
                    points: points(joined),
                },
            ],
        });
    }
    report.tables.push(table);
    report
}
