// SPDX-License-Identifier: GPL-2.0

//! Completion times of messages at a given load, against the ideal.

use super::{cost, counters, Params, BOTH};
use crate::ideal::{capacity, latency, transfer_times, Job};
use crate::measure::{cpu_seconds, mean, quantile};
use crate::report::{Curve, Plot, Report, Table};
use crate::rng::Rng;
use crate::time::{us, Ps, MS, US};
use crate::transport::Transport;
use crate::world::{Workload, World};

/// Completion times of one run, in microseconds, sorted.
#[derive(Clone, Debug)]
pub struct Completion {
    /// As simulated.
    pub times: Vec<f64>,
    /// Of the same messages in the ideal.
    pub ideal: Vec<f64>,
    /// Messages that did not arrive.
    pub missing: usize,
    /// For the report.
    pub lines: Vec<String>,
}

impl Completion {
    /// A quantile of the times over the same of the ideal.
    pub fn ratio(&self, q: f64) -> f64 {
        quantile(&mut self.times.clone(), q) / quantile(&mut self.ideal.clone(), q)
    }
}

/// Messages with the times at which they are posted.
struct Posting<'a> {
    jobs: &'a [Job],
    began: Ps,
    /// Index of each message among the jobs, by flow.
    sent: Vec<Vec<u32>>,
    times: Vec<Option<Ps>>,
}

impl Workload for Posting<'_> {
    fn complete(&mut self, world: &mut World, flow: u32, message: u32) {
        let i = self.sent[flow as usize][message as usize] as usize;
        let at = self.began + self.jobs[i].at;
        self.times[i] = Some(world.now() - at);
    }

    fn script(&mut self, world: &mut World, what: u32) {
        let job = self.jobs[what as usize];
        self.sent[job.flow as usize].push(what);
        world.post(job.flow, job.len);
        if let Some(next) = self.jobs.get(what as usize + 1) {
            world.script(self.began + next.at, what + 1);
        }
    }
}

/// Runs `jobs`; flow k is the k-th of `pairs`.
fn run(p: &Params, transport: Transport, pairs: &[(u32, u32)], jobs: &[Job]) -> Completion {
    let began = cpu_seconds();
    let mut w = p.world(transport);
    for (src, dst) in pairs {
        w.connect(*src, *dst);
    }
    w.establish();
    let mut posting = Posting {
        jobs,
        began: w.now() + US,
        sent: vec![Vec::new(); pairs.len()],
        times: vec![None; jobs.len()],
    };
    w.script(posting.began + jobs.first().map_or(0, |j| j.at), 0);
    let end = posting.began + jobs.last().map_or(0, |j| j.at);
    w.run(end, &mut posting);
    for _ in 0..100 {
        if posting.times.iter().all(Option::is_some) {
            break;
        }
        let until = w.now() + MS;
        w.run(until, &mut posting);
    }
    let fabric = p.fabric();
    let rate = capacity(&fabric, p.mtu, Transport::MetaRoce);
    let base = latency(&fabric, p.mtu);
    let transfers = transfer_times(jobs, p.shape.n_hosts(), rate);
    let mut times: Vec<f64> = posting.times.iter().flatten().map(|t| us(*t)).collect();
    let mut ideal: Vec<f64> = transfers.iter().map(|t| us(t + base)).collect();
    times.sort_by(f64::total_cmp);
    ideal.sort_by(f64::total_cmp);
    Completion {
        missing: jobs.len() - times.len(),
        times,
        ideal,
        lines: vec![counters(&w), cost(&w, began)],
    }
}

/// Messages of `len` bytes from every host to random others, as a Poisson process of load `load`
/// on every link of a host.
fn poisson(p: &Params, load: f64, len: u32, n: usize) -> (Vec<(u32, u32)>, Vec<Job>) {
    let hosts = p.shape.n_hosts();
    let mut rng = Rng::new(p.seed ^ 0x10ad);
    let rate = capacity(&p.fabric(), p.mtu, Transport::MetaRoce);
    let mean = f64::from(len) / (load * rate * f64::from(hosts));
    let mut at = 0.0;
    let mut pairs = Vec::new();
    for src in 0..hosts {
        pairs.extend((0..hosts).filter(|d| *d != src).map(|dst| (src, dst)));
    }
    let jobs = (0..n).map(|_| {
        at += rng.exponential(mean);
        let flow = rng.below(pairs.len() as u64) as u32;
        let (src, dst) = pairs[flow as usize];
        Job {
            at: at as Ps,
            flow,
            src,
            dst,
            len,
        }
    });
    let jobs = jobs.collect();
    (pairs, jobs)
}

/// Rounds in which `n` hosts send `len` bytes each to one at the same time, as a Poisson process of
/// load `load` on the receiver's links.
fn rounds(p: &Params, load: f64, len: u32, n: u32, count: usize) -> (Vec<(u32, u32)>, Vec<Job>) {
    let hosts = p.shape.n_hosts();
    let mut rng = Rng::new(p.seed ^ 0x1ca5);
    let rate = capacity(&p.fabric(), p.mtu, Transport::MetaRoce);
    let mean = f64::from(len) * f64::from(n) / (load * rate);
    let step = p.shape.hosts + 1;
    let pairs: Vec<(u32, u32)> = (0..n).map(|k| (1 + k * step % (hosts - 1), 0)).collect();
    let mut at = 0.0;
    let mut jobs = Vec::new();
    for _ in 0..count {
        at += rng.exponential(mean);
        for (flow, (src, dst)) in pairs.iter().enumerate() {
            jobs.push(Job {
                at: at as Ps,
                flow: flow as u32,
                src: *src,
                dst: *dst,
                len,
            });
        }
    }
    (pairs, jobs)
}

fn report(
    p: &Params,
    name: &str,
    title: String,
    (pairs, jobs): (Vec<(u32, u32)>, Vec<Job>),
) -> (Report, Vec<Completion>) {
    let mut table = Table::new(
        name,
        &[
            "transport",
            "messages",
            "missing",
            "p50_us",
            "p99_us",
            "p999_us",
            "mean_us",
            "p50_over_ideal",
            "p99_over_ideal",
            "mean_over_ideal",
        ],
    );
    let mut report = Report::default();
    report.lines.push(p.describe());
    let mut plot = Plot {
        name: name.to_owned(),
        title,
        x: "completion time, us".to_owned(),
        y: "share of the messages".to_owned(),
        curves: Vec::new(),
    };
    let mut all = Vec::new();
    let row = |name: &str, c: &Completion, times: &[f64]| {
        let mut times = times.to_vec();
        let mut ideal = c.ideal.clone();
        let (t_mean, i_mean) = (mean(&times), mean(&ideal));
        let mut q = |q| (quantile(&mut times, q), quantile(&mut ideal, q));
        let (p50, p99, p999) = (q(0.5), q(0.99), q(0.999));
        vec![
            name.to_owned(),
            c.ideal.len().to_string(),
            c.missing.to_string(),
            format!("{:.1}", p50.0),
            format!("{:.1}", p99.0),
            format!("{:.1}", p999.0),
            format!("{t_mean:.1}"),
            format!("{:.3}", p50.0 / p50.1),
            format!("{:.3}", p99.0 / p99.1),
            format!("{:.3}", t_mean / i_mean),
        ]
    };
    for transport in BOTH {
        let c = run(p, transport, &pairs, &jobs);
        if transport == Transport::MetaRoce {
            table.rows.push(row(
                "ideal",
                &Completion {
                    missing: 0,
                    ..c.clone()
                },
                &c.ideal,
            ));
            plot.curves.push(distribution("ideal", &c.ideal));
        }
        table.rows.push(row(transport.name(), &c, &c.times));
        plot.curves.push(distribution(transport.name(), &c.times));
        report
            .lines
            .push(format!("{}: {}", transport.name(), c.lines.join("; ")));
        all.push(c);
    }
    report.tables.push(table);
    report.plots.push(plot);
    (report, all)
}

/// The distribution of sorted samples in at most 200 points, up to the 99.9th percentile.
fn distribution(name: &str, samples: &[f64]) -> Curve {
    let n = samples.len();
    let upto = (n as f64 * 0.999) as usize;
    let step = (upto / 200).max(1);
    let points = (0..upto).step_by(step);
    Curve {
        name: name.to_owned(),
        points: points
            .map(|i| (samples[i], (i + 1) as f64 / n as f64))
            .collect(),
    }
}

/// All to all at load `load`, messages of `len` bytes: the report, and MetaRoCE's times.
pub fn all_to_all(p: &Params, load: f64, len: u32) -> (Report, Vec<Completion>) {
    let n = (10_000.0 * p.effort) as usize;
    let title = format!(
        "All to all, {} hosts, {} planes, messages of {} KiB, load {load}",
        p.shape.n_hosts(),
        p.planes,
        len / 1024
    );
    report(p, "alltoall", title, poisson(p, load, len, n))
}

/// Incast of `n` senders at load `load`, messages of `len` bytes: the report, and MetaRoCE's times.
pub fn incast_load(p: &Params, load: f64, len: u32, n: u32) -> (Report, Vec<Completion>) {
    let count = (500.0 * p.effort) as usize;
    let title = format!(
        "Incast of {n}, {} planes, messages of {} KiB, load {load}",
        p.planes,
        len / 1024
    );
    report(p, "incast-load", title, rounds(p, load, len, n, count))
}
