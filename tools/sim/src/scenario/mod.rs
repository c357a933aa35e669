// SPDX-License-Identifier: GPL-2.0

//! What is simulated and measured, one scenario a file.

mod allreduce;
mod failure;
mod incast;
mod load;
mod permutation;
mod planes;

pub use allreduce::allreduce;
pub use failure::{failure, recovery, Failure, Recovery};
pub use incast::{incast, incast_of, joiner, Incast, Joiner};
pub use load::{all_to_all, incast_load, Completion};
pub use permutation::permutation;
pub use planes::{linear, planes, Linear};

use crate::fabric::{FabricConfig, Queueing, Shape};
use crate::measure::cpu_seconds;
use crate::time::{Ps, NS, US};
use crate::transport::{Settings, Transport};
use crate::world::{World, WorldConfig};

/// What all scenarios have in common.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Shape of a plane.
    pub shape: Shape,
    /// Planes.
    pub planes: u8,
    /// Rate of a link, Mbit/s.
    pub rate: u64,
    /// Delay of a link and the switch behind it.
    pub delay: Ps,
    /// Delay of a receiving host.
    pub host_delay: Ps,
    /// Payload of a packet.
    pub mtu: u32,
    /// Where marking begins, where all is marked, and how much a queue holds, in tenths of the
    /// bandwidth-delay product of a link. By default 0.2, 0.8 and 4, as the Ultra Ethernet
    /// specification 1.0 advises.
    pub queue: [u64; 3],
    /// How MetaRoCE is set.
    pub settings: Settings,
    /// Seed.
    pub seed: u64,
    /// Share of a full run's simulated time or repetitions, 1 for all.
    pub effort: f64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            shape: Shape::leaf_spine(8, 8),
            planes: 4,
            rate: 100_000,
            delay: 600 * NS,
            host_delay: US,
            mtu: 4096,
            queue: [2, 8, 40],
            settings: Settings::default(),
            seed: 1,
            effort: 1.0,
        }
    }
}

impl Params {
    /// The network.
    pub fn fabric(&self) -> FabricConfig {
        let mut fabric = FabricConfig {
            shape: self.shape,
            planes: self.planes,
            rate: self.rate,
            delay: self.delay,
            host_delay: self.host_delay,
            queueing: Queueing::UNBOUNDED,
        };
        let bdp = fabric.rtt(u64::from(self.mtu)) / fabric.per_byte();
        fabric.queueing = Queueing {
            mark_min: bdp * self.queue[0] / 10,
            mark_max: bdp * self.queue[1] / 10,
            limit: bdp * self.queue[2] / 10,
        };
        fabric
    }

    /// Round trip of a full packet, without queues.
    pub fn rtt(&self) -> Ps {
        self.fabric().rtt(u64::from(self.mtu))
    }

    /// A world without connections.
    pub fn world(&self, transport: Transport) -> World {
        World::new(WorldConfig {
            fabric: self.fabric(),
            transport,
            settings: self.settings,
            mtu: self.mtu,
            device: 2 * u64::from(self.mtu),
            seed: self.seed,
        })
    }

    /// Payload rate of a host over all planes, Gbit/s.
    pub fn host_gbps(&self, transport: Transport) -> f64 {
        crate::ideal::capacity(&self.fabric(), self.mtu, transport) * 8_000.0
    }

    fn scaled(&self, t: Ps) -> Ps {
        (t as f64 * self.effort) as Ps
    }

    /// What the run is of, for its report.
    pub fn describe(&self) -> String {
        let s = &self.shape;
        format!(
            "seed {}: {} hosts, {} planes of {} Gbit/s ({} pods x {} leafs x {} hosts, {} up), \
             RTT {:.1} us, {} paths a plane, {:?}",
            self.seed,
            s.n_hosts(),
            self.planes,
            self.rate / 1_000,
            s.pods,
            s.leafs,
            s.hosts,
            s.aggs,
            crate::time::us(self.rtt()),
            self.settings.paths,
            self.settings.law,
        )
    }
}

/// Bytes in a span of time as Gbit/s.
fn gbps(bytes: u64, span: Ps) -> f64 {
    bytes as f64 * 8_000.0 / span as f64
}

/// Both transports.
const BOTH: [Transport; 2] = [Transport::MetaRoce, Transport::Rc];

/// What a run cost the machine.
fn cost(world: &World, began: f64) -> String {
    let secs = cpu_seconds() - began;
    format!(
        "{:.1} M events in {secs:.1} s of CPU time, {:.2} ms simulated",
        world.events as f64 / 1e6,
        world.now() as f64 / crate::time::MS as f64
    )
}

fn counters(world: &World) -> String {
    let t = world.totals();
    match world.cfg.transport {
        Transport::MetaRoce => format!(
            "packets {}, acks {}, retransmits gap {} probe {} timeout {}, spurious {}, marks {}, \
             drops {}, lost {}, longest queue {} KB",
            t.tx.packets,
            t.acks,
            t.tx.retransmits_gap,
            t.tx.retransmits_probe,
            t.tx.retransmits_timeout,
            t.rx.duplicates,
            t.marks,
            t.drops,
            t.lost,
            t.peak / 1000
        ),
        Transport::Rc => format!(
            "retransmits {}, timeouts {}, discarded {}, marks {}, drops {}, longest queue {} KB",
            t.rc_retransmits,
            t.rc_timeouts,
            t.rc_discarded,
            t.marks,
            t.drops,
            t.peak / 1000
        ),
    }
}
