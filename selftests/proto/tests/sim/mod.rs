// SPDX-License-Identifier: GPL-2.0

//! Simulation of two endpoints.

#![allow(dead_code, unused_imports)] // Every test binary uses a part of it.

pub mod host;
pub mod net;

pub use metaroce_sim::endpoint::{self, connection, Conn, Endpoint, Trouble};
pub use metaroce_sim::rng::{seeds, Rng};

use proto::connection::Intro;
use proto::packet::Qpn;
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
