// SPDX-License-Identifier: GPL-2.0

//! Connections under trouble: every packet is delivered exactly once and acknowledged in the end.

mod counter;
mod network;
mod planes;
#[path = "../sim/mod.rs"]
mod sim;

use std::collections::HashMap;

use counter::Counter;
use proto::connection::Event;
use proto::packet::{DataFields, NakCode, Opcode, Qpn, TxDesc};
use proto::psn::Msn;
use proto::stream::Nak;
use proto::time::{Duration, Instant};
use sim::endpoint::{App, Taken};
use sim::net::Plane;
use sim::{ends, seeds, Endpoint, Ends, Rng, Sim, Trouble};

struct Setup {
    planes: [u8; 2],
    packets: [u32; 2],
    window: u32,
    naks: usize,
    refuse: u32,
    abort: u32,
    trouble: Trouble,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            planes: [2, 2],
            packets: [3000, 3000],
            window: 64,
            naks: 256,
            refuse: 0,
            abort: 0,
            trouble: Trouble::default(),
        }
    }
}

fn pair(seed: u64, s: &Setup) -> [Endpoint<Counter>; 2] {
    let setup = Ends {
        planes: s.planes,
        window: s.window,
        naks: s.naks,
        trouble: s.trouble,
        qpns: [1, 2],
    };
    ends(&mut Rng::new(seed ^ 0xabcd), setup, |i, rng| Counter {
        refuse: s.refuse,
        abort: s.abort,
        ..Counter::new(s.packets[i], rng.next())
    })
}

/// The two, and the links between them.
fn start(seed: u64, links: Vec<Plane>, s: &Setup) -> (Sim, [Endpoint<Counter>; 2]) {
    (Sim::new(seed, links), pair(seed, s))
}

fn finished(nodes: &[Endpoint<Counter>; 2]) -> bool {
    let [a, b] = nodes;
    a.app.done(&b.app) && b.app.done(&a.app) && a.conn.is_idle() && b.conn.is_idle()
}

fn run(sim: &mut Sim, nodes: &mut [Endpoint<Counter>; 2], secs: u64) {
    let limit = sim.now.after(Duration::from_millis(secs * 1000));
    let ok = sim.run(nodes, limit, |_, nodes| finished(nodes));
    let report = |e: &Endpoint<Counter>| {
        format!(
            "sent {} acked {} received {} naks {} tx {:?} rx {:?} {:?}",
            e.app.sent,
            e.app.acked.len(),
            e.app.received.len(),
            e.app.naks.len(),
            e.conn.tx_totals(),
            e.conn.rx_totals(),
            e.conn.stats(),
        )
    };
    assert!(
        ok,
        "stuck at {:?}\n{}\n{}",
        sim.now,
        report(&nodes[0]),
        report(&nodes[1])
    );
}
