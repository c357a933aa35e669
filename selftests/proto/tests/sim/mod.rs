// SPDX-License-Identifier: GPL-2.0

//! Simulation of two endpoints.

#![allow(dead_code, unused_imports)] // Every test binary uses a part of it.

pub mod host;
pub mod net;

pub use metaroce_sim::endpoint::{self, connection, Conn, Endpoint, Trouble};
pub use metaroce_sim::rng::{seeds, Rng};

use proto::congestion::{Controller, FixedWindow};
use proto::connection::{Config, Intro};
use proto::packet::Qpn;
use proto::time::Instant;
use proto::wire::{Gid, Plane, PlaneList, Token};

pub use net::Sim;

/// `n` planes of host `host`, all up.
pub fn planes(host: u8, n: u8, speed: u32) -> PlaneList {
    let mut list = PlaneList::new();
    for id in 0..n {
        let gid = Gid::from_v4([10, 0, id, host]);
        let plane = Plane {
            gid,
            speed,
            id,
            up: true,
        };
        list.push(plane).expect("few enough planes");
    }
    list
}

/// Introduces `a` to `b` by their first planes and these QPs.
pub fn intro(a: &Conn, b_planes: &PlaneList, local_qpn: u32, peer_qpn: u32) -> Intro {
    Intro {
        local_qpn: Qpn(local_qpn),
        peer_qpn: Qpn(peer_qpn),
        token: Token::default(),
        local_gid: a.local_planes().get(0).expect("a plane").gid,
        peer_gid: b_planes.get(0).expect("a plane").gid,
    }
}

/// How two endpoints are set up, but for what they do.
#[derive(Clone, Copy)]
pub struct Ends {
    pub planes: [u8; 2],
    /// Fixed window of a path, packets.
    pub window: u32,
    /// Places for NAKs.
    pub naks: usize,
    pub trouble: Trouble,
    /// Numbers of the queue pairs that are introduced.
    pub qpns: [u32; 2],
}

/// Makes two endpoints with what `app` makes for either, each about to connect to the other.
pub fn ends<A: endpoint::App>(
    rng: &mut Rng,
    s: Ends,
    mut app: impl FnMut(usize, &mut Rng) -> A,
) -> [Endpoint<A>; 2] {
    let lists = [
        planes(1, s.planes[0], 10_000),
        planes(2, s.planes[1], 10_000),
    ];
    [0, 1].map(|i| {
        let mut cfg = Config::new(rng.next() as u32 | 1, rng.next() as u32, lists[i]);
        cfg.controller = Controller::Fixed(FixedWindow::new(s.window));
        let app = app(i, rng);
        let mut e = Endpoint::new(connection(cfg, s.naks), app, rng.next());
        e.trouble = s.trouble;
        let intro = intro(&e.conn, &lists[1 - i], s.qpns[i], s.qpns[1 - i]);
        e.conn.start(Instant(0), intro);
        e
    })
}
