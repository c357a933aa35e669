// SPDX-License-Identifier: GPL-2.0

//! Throughput by the number of planes: every host sends to every other, as fast as it can.

use super::{cost, counters, gbps, Params, BOTH};
use crate::measure::{cpu_seconds, resident};
use crate::report::{Curve, Plot, Report, Table};
use crate::time::US;
use crate::transport::Transport;
use crate::world::Idle;

/// One run.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Connections.
    pub connections: u32,
    /// Payload delivered by all hosts together, Gbit/s.
    pub gbps: f64,
    /// What the hosts' links allow.
    pub ideal_gbps: f64,
    /// Bytes of memory that a connection takes at each end, by the sizes of its parts.
    pub bytes_per_end: usize,
    /// Resident memory of the process at the end, per connection (both ends).
    pub resident_per_connection: u64,
    /// For the report.
    pub lines: Vec<String>,
}

/// Lets every host send to `peers` others on `p.planes` planes.
pub fn linear(p: &Params, transport: Transport, peers: u32) -> Linear {
    let began = cpu_seconds();
    let hosts = p.shape.n_hosts();
    let mut w = p.world(transport);
    for src in 0..hosts {
        for k in 1..=peers.min(hosts - 1) {
            w.connect(src, (src + k) % hosts);
        }
    }
    w.establish();
    for f in 0..w.n_flows() {
        w.set_endless(f, true);
    }
    let warm = w.now() + p.scaled(300 * US);
    w.run(warm, &mut Idle);
    let before = w.delivered_total();
    let span = p.scaled(500 * US);
    w.run(warm + span, &mut Idle);
    Linear {
        connections: w.n_flows(),
        gbps: gbps(w.delivered_total() - before, span),
        ideal_gbps: p.host_gbps(transport) * f64::from(hosts),
        bytes_per_end: w.bytes_per_end(),
        resident_per_connection: resident() / u64::from(w.n_flows().max(1)),
        lines: vec![counters(&w), cost(&w, began)],
    }
}

/// Runs the scenario on 1, 2, 4, … up to `p.planes` planes.
pub fn planes(p: &Params, peers: u32) -> Report {
    let mut table = Table::new(
        "planes",
        &[
            "transport",
            "planes",
            "connections",
            "gbps",
            "ideal_gbps",
            "share",
            "linear",
            "bytes_per_end",
            "resident_per_connection",
        ],
    );
    let mut plot = Plot {
        name: "planes".to_owned(),
        title: format!("All to all, {} hosts", p.shape.n_hosts()),
        x: "planes".to_owned(),
        y: "goodput of all hosts, Tbit/s".to_owned(),
        curves: Vec::new(),
    };
    let mut report = Report::default();
    for transport in BOTH {
        let mut one = None;
        let mut points = Vec::new();
        let mut ideal = Vec::new();
        for n in [1u8, 2, 4, 8].into_iter().filter(|n| *n <= p.planes) {
            let params = Params { planes: n, ..*p };
            let r = linear(&params, transport, peers);
            let one = *one.get_or_insert(r.gbps);
            report
                .lines
                .push(format!("{}, {}", transport.name(), params.describe()));
            report.lines.extend(r.lines);
            table.rows.push(vec![
                transport.name().to_owned(),
                n.to_string(),
                r.connections.to_string(),
                format!("{:.0}", r.gbps),
                format!("{:.0}", r.ideal_gbps),
                format!("{:.3}", r.gbps / r.ideal_gbps),
                format!("{:.3}", r.gbps / one / f64::from(n)),
                r.bytes_per_end.to_string(),
                r.resident_per_connection.to_string(),
            ]);
            points.push((f64::from(n), r.gbps / 1000.0));
            ideal.push((f64::from(n), r.ideal_gbps / 1000.0));
        }
        if transport == Transport::MetaRoce {
            plot.curves.push(Curve {
                name: "ideal".to_owned(),
                points: ideal,
            });
        }
        plot.curves.push(Curve {
            name: transport.name().to_owned(),
            points,
        });
    }
    report.tables.push(table);
    report.plots.push(plot);
    report
}
