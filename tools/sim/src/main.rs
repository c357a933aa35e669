// SPDX-License-Identifier: GPL-2.0

//! The simulator's command line: one command a scenario.

mod draw;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use metaroce_sim::fabric::Shape;
use metaroce_sim::report::Report;
use metaroce_sim::scenario::{self, Params};
use metaroce_sim::time::NS;
use metaroce_sim::transport::Law;

/// MetaRoCE on fat trees of several planes, beside RoCE and the ideal.
#[derive(Parser)]
#[command(max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
    /// Seed of all that is random.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Planes [8 for "planes", else 4].
    #[arg(long, global = true)]
    planes: Option<u8>,
    /// Pods of a plane; 1: leafs and spines only.
    #[arg(long, global = true, default_value_t = 1)]
    pods: u32,
    /// Leaf switches of a pod.
    #[arg(long, global = true, default_value_t = 8)]
    leafs: u32,
    /// Hosts at a leaf.
    #[arg(long, global = true, default_value_t = 8)]
    hosts: u32,
    /// Spines, or aggregation switches of a pod [as many as hosts at a leaf].
    #[arg(long, global = true)]
    aggs: Option<u32>,
    /// Cores that each aggregation switch is joined to [as many as leafs in a pod].
    #[arg(long, global = true)]
    cores: Option<u32>,
    /// Rate of each link, Gbit/s.
    #[arg(long, global = true, default_value_t = 100)]
    rate: u64,
    /// Delay of a link and the switch behind it, ns.
    #[arg(long, global = true, default_value_t = 600)]
    delay: u64,
    /// Delay of a receiving host, ns.
    #[arg(long, global = true, default_value_t = 1000)]
    host_delay: u64,
    /// Payload of a packet, bytes.
    #[arg(long, global = true, default_value_t = 4096)]
    mtu: u32,
    /// Queues: where marking begins, where all is marked, and what fits, in tenths of a link's
    /// bandwidth-delay product.
    #[arg(long, global = true, num_args = 3, default_values_t = [2, 8, 40])]
    queue: Vec<u64>,
    /// Paths per plane of a connection.
    #[arg(long, global = true)]
    paths: Option<u8>,
    /// Most packets of a burst.
    #[arg(long, global = true)]
    burst: Option<u32>,
    /// Law of congestion control.
    #[arg(long, global = true, value_enum)]
    law: Option<LawName>,
    /// Window of the fixed law, packets a path.
    #[arg(long, global = true, default_value_t = 16)]
    window: u32,
    /// Share of the full simulated time or number of messages.
    #[arg(long, global = true, default_value_t = 1.0)]
    effort: f64,
    /// Directory for CSV and SVG files.
    #[arg(long, global = true)]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LawName {
    Ecn,
    Delay,
    Fixed,
}

#[derive(Subcommand)]
enum Scenario {
    /// Throughput by the number of planes, every host to every other.
    Planes {
        /// Hosts that each one sends to.
        #[arg(long, default_value_t = 63)]
        peers: u32,
    },
    /// Every host to one other.
    Permutation,
    /// Several hosts to one, and one that joins later.
    Incast {
        /// Senders.
        #[arg(long, default_value_t = 8)]
        senders: u32,
    },
    /// Rounds of incast at a load: completion times.
    IncastLoad {
        /// Senders.
        #[arg(long, default_value_t = 8)]
        senders: u32,
        /// Load of the receiver's links.
        #[arg(long, default_value_t = 0.7)]
        load: f64,
        /// Size of a message, KiB.
        #[arg(long, default_value_t = 1024)]
        size: u32,
    },
    /// Messages between random hosts at a load: completion times.
    Alltoall {
        /// Load of the hosts' links.
        #[arg(long, default_value_t = 0.7)]
        load: f64,
        /// Size of a message, KiB.
        #[arg(long, default_value_t = 1024)]
        size: u32,
    },
    /// Ring all-reduce.
    Allreduce {
        /// Data of a host, MiB.
        #[arg(long, default_value_t = 64)]
        size: u32,
    },
    /// A plane fails and comes back.
    Failure,
    /// All of the above.
    All,
}

impl Cli {
    fn params(&self) -> Params {
        let mut p = Params::default();
        let all_planes = matches!(self.scenario, Scenario::Planes { .. });
        p.seed = self.seed;
        p.planes = self.planes.unwrap_or(if all_planes { 8 } else { 4 });
        p.shape = Shape {
            pods: self.pods,
            leafs: self.leafs,
            hosts: self.hosts,
            aggs: self.aggs.unwrap_or(self.hosts),
            cores: match self.pods {
                1 => 0,
                _ => self.cores.unwrap_or(self.leafs),
            },
        };
        p.rate = self.rate * 1000;
        p.delay = self.delay * NS;
        p.host_delay = self.host_delay * NS;
        p.mtu = self.mtu;
        if let Ok(queue) = <[u64; 3]>::try_from(self.queue.as_slice()) {
            p.queue = queue;
        }
        p.effort = self.effort;
        if let Some(n) = self.paths {
            p.settings.paths = n;
        }
        if let Some(n) = self.burst {
            p.settings.burst = n;
        }
        match self.law {
            Some(LawName::Ecn) => p.settings.law = Law::Ecn,
            Some(LawName::Delay) => p.settings.law = Law::Delay,
            Some(LawName::Fixed) => p.settings.law = Law::Fixed(self.window),
            None => {}
        }
        p
    }
}

fn run(scenario: &Scenario, p: &Params) -> Report {
    match *scenario {
        Scenario::Planes { peers } => scenario::planes(p, peers),
        Scenario::Permutation => scenario::permutation(p),
        Scenario::Incast { senders } => scenario::incast(p, senders),
        Scenario::IncastLoad {
            senders,
            load,
            size,
        } => scenario::incast_load(p, load, size * 1024, senders).0,
        Scenario::Alltoall { load, size } => scenario::all_to_all(p, load, size * 1024).0,
        Scenario::Allreduce { size } => scenario::allreduce(p, size << 20),
        Scenario::Failure => scenario::failure(p),
        Scenario::All => {
            let mut report = scenario::permutation(p);
            report.append(scenario::incast(p, 8));
            report.append(scenario::incast_load(p, 0.7, 1 << 20, 8).0);
            report.append(scenario::all_to_all(p, 0.7, 1 << 20).0);
            report.append(scenario::allreduce(p, 64 << 20));
            report.append(scenario::failure(p));
            report.append(scenario::planes(&Params { planes: 8, ..*p }, 63));
            report
        }
    }
}

fn write(report: &Report, dir: &PathBuf) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(dir)?;
    for table in &report.tables {
        std::fs::write(dir.join(format!("{}.csv", table.name)), table.csv())?;
    }
    for plot in &report.plots {
        std::fs::write(dir.join(format!("{}.svg", plot.name)), draw::svg(plot)?)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let p = cli.params();
    let report = run(&cli.scenario, &p);
    for line in &report.lines {
        println!("{line}");
    }
    for table in &report.tables {
        println!("\n{}\n{}", table.name, table.text());
    }
    if let Some(dir) = &cli.out {
        if let Err(e) = write(&report, dir) {
            eprintln!("{}: {e}", dir.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
