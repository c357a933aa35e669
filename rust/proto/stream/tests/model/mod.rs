// SPDX-License-Identifier: GPL-2.0

//! Both halves over a network that delivers every packet once, in any order, whenever it likes, with
//! a model beside them that knows what each message must do.

mod requester;
mod responder;
mod sim;
mod spec;

use std::collections::{HashMap, HashSet};

use self::sim::{Item, Sim};
use self::spec::{Fault, Spec};
use super::rng::Rng;
use super::*;
use crate::packet::{NakCode, TxDesc};
use crate::time::Duration;

const MTU: u32 = 1024;

/// How a run is set up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub messages: u32,
    pub max_rd_atomic: u32,
    pub responses: usize,
    pub rnr_retry: u8,
    /// Percentage of messages with a fault.
    pub faults: u32,
    /// Request packets that find no connected QP.
    pub not_ready: u32,
    /// Percentage of steps in which a receive is posted.
    pub receives: u32,
    /// Percentage of deliveries that take the oldest packet.
    pub in_order: u32,
    /// Longest message in packets.
    pub packets: u32,
    /// Percentage of NAKs for which there is no room.
    pub naks_dropped: u32,
    /// Whether the last bytes of Writes come last.
    pub last_byte_ordered: bool,
}

/// What happened in simulations, so that tests can see that they test something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub go_backs: u32,
    /// Last packets of Writes that were placed before others.
    pub early: u32,
}

/// Runs `seeds` simulations.
pub(super) fn run(seeds: core::ops::Range<u64>, setup: Setup) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        let result = std::panic::catch_unwind(|| {
            let mut sim = Sim::new(seed, setup);
            sim.run();
            sim.seen
        });
        match result {
            Ok(new) => {
                seen.go_backs += new.go_backs;
                seen.early += new.early;
            }
            Err(panic) => {
                std::eprintln!("seed {seed} of {setup:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    seen
}

pub(super) const PLAIN: Setup = Setup {
    messages: 120,
    max_rd_atomic: 4,
    responses: 8,
    rnr_retry: 7,
    faults: 0,
    not_ready: 0,
    receives: 50,
    in_order: 30,
    packets: 4,
    naks_dropped: 0,
    last_byte_ordered: false,
};

#[test]
fn any_order() {
    run(0..300, PLAIN);
}

#[test]
fn any_order_in_a_long_stream() {
    let setup = Setup {
        messages: 3_000,
        in_order: 80,
        ..PLAIN
    };
    run(0..10, setup);
}

#[test]
fn receiver_often_not_ready() {
    let setup = Setup {
        receives: 4,
        ..PLAIN
    };
    assert!(run(0..400, setup).go_backs > 1_000);
}

#[test]
fn no_room_for_naks() {
    for naks_dropped in [20, 80] {
        let setup = Setup {
            naks_dropped,
            receives: 4,
            ..PLAIN
        };
        assert!(run(0..300, setup).go_backs > 1_000);
        let setup = Setup {
            faults: 4,
            not_ready: 10,
            ..setup
        };
        run(0..300, setup);
    }
}

#[test]
fn few_reads_and_a_full_response_ring() {
    for (max_rd_atomic, responses) in [(1, 1), (1, 2), (2, 2), (4, 4), (16, 32)] {
        let setup = Setup {
            max_rd_atomic,
            responses,
            receives: 10,
            ..PLAIN
        };
        run(0..100, setup);
    }
}

#[test]
fn peer_connects_late() {
    for not_ready in [1, 2, 5, 40, 200] {
        let setup = Setup {
            not_ready,
            receives: 8,
            ..PLAIN
        };
        assert!(run(0..100, setup).go_backs > 100);
    }
}

#[test]
fn fatal_refusals() {
    for receives in [5, 60] {
        let setup = Setup {
            faults: 3,
            receives,
            messages: 60,
            ..PLAIN
        };
        run(0..600, setup);
    }
}

#[test]
fn fatal_refusals_of_a_late_peer() {
    let setup = Setup {
        faults: 5,
        receives: 6,
        messages: 60,
        not_ready: 20,
        in_order: 5,
        ..PLAIN
    };
    run(0..600, setup);
}

#[test]
fn finite_rnr_retries() {
    for rnr_retry in 0..3 {
        let setup = Setup {
            rnr_retry,
            receives: 4,
            messages: 60,
            faults: 1,
            ..PLAIN
        };
        run(0..300, setup);
    }
}

/// Draws the set-up as well. For long runs by hand: `SOAK=1000000 cargo test --release -- --ignored`.
#[test]
#[ignore = "takes as long as one likes"]
fn soak() {
    let runs = std::env::var("SOAK")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(100_000u64);
    for seed in 0..runs {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        rng.below(2);
        let max_rd_atomic = 1 + rng.below(6);
        let setup = Setup {
            messages: 1 + rng.below(200),
            max_rd_atomic,
            responses: 1 << rng.below(5),
            rnr_retry: if rng.chance(80) {
                7
            } else {
                u8::try_from(rng.below(7)).unwrap()
            },
            faults: if rng.chance(50) { 0 } else { rng.below(20) },
            not_ready: if rng.chance(50) { 0 } else { rng.below(100) },
            receives: 1 + rng.below(60),
            in_order: rng.below(101),
            packets: 1 + rng.below(6),
            naks_dropped: if rng.chance(50) { 0 } else { rng.below(90) },
            last_byte_ordered: rng.chance(30),
        };
        run(seed..seed + 1, setup);
    }
}
