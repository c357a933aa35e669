// SPDX-License-Identifier: GPL-2.0

//! Ring all-reduce: 2 (N - 1) steps, in each of which every host sends a chunk to the next one,
//! and goes on when it has got the one from the host before.

use super::{cost, counters, Params, BOTH};
use crate::ideal::{capacity, latency};
use crate::measure::cpu_seconds;
use crate::report::{Report, Table};
use crate::rng::Rng;
use crate::time::{us, Ps, MS};
use crate::world::{Workload, World};

struct Ring {
    /// Flow k is from the k-th host of the ring to the next.
    hosts: u32,
    chunk: u32,
    steps: u32,
    done: u32,
    finished: Ps,
}

impl Workload for Ring {
    fn complete(&mut self, world: &mut World, flow: u32, message: u32) {
        let receiver = (flow + 1) % self.hosts;
        if message + 1 < self.steps {
            world.post(receiver, self.chunk);
        } else {
            self.done += 1;
            self.finished = world.now();
        }
    }
}

/// Reduces `bytes` over all hosts, `jobs` rings of different order one after the other.
pub fn allreduce(p: &Params, bytes: u32) -> Report {
    let hosts = p.shape.n_hosts();
    let steps = 2 * (hosts - 1);
    let chunk = bytes.div_ceil(hosts);
    let mut table = Table::new(
        "allreduce",
        &[
            "transport",
            "hosts",
            "bytes",
            "time_us",
            "ideal_us",
            "over_ideal",
        ],
    );
    let mut report = Report::default();
    report.lines.push(p.describe());
    let mut order: Vec<u32> = (0..hosts).collect();
    Rng::new(p.seed).shuffle(&mut order);
    for transport in BOTH {
        let began = cpu_seconds();
        let mut w = p.world(transport);
        for k in 0..hosts as usize {
            w.connect(order[k], order[(k + 1) % hosts as usize]);
        }
        w.establish();
        let start = w.now();
        let mut ring = Ring {
            hosts,
            chunk,
            steps,
            done: 0,
            finished: 0,
        };
        for f in 0..hosts {
            w.post(f, chunk);
        }
        while ring.done < hosts && w.now() < start + 1000 * MS {
            let until = w.now() + MS / 10;
            w.run(until, &mut ring);
        }
        let fabric = p.fabric();
        let step = f64::from(chunk) / capacity(&fabric, p.mtu, transport);
        let ideal = f64::from(steps) * (us(step as Ps) + us(latency(&fabric, p.mtu)));
        let time = us(ring.finished.saturating_sub(start));
        let (time, ratio) = if ring.done == hosts {
            (format!("{time:.0}"), format!("{:.3}", time / ideal))
        } else {
            ("unfinished".to_owned(), "-".to_owned())
        };
        table.rows.push(vec![
            transport.name().to_owned(),
            hosts.to_string(),
            bytes.to_string(),
            time,
            format!("{ideal:.0}"),
            ratio,
        ]);
        report
            .lines
            .push(format!("{}: {}", transport.name(), counters(&w)));
        report.lines.push(cost(&w, began));
    }
    report.tables.push(table);
    report
}
