// SPDX-License-Identifier: GPL-2.0

//! Connections: two of them, and what one hands over is given to the other.

mod data;
mod handshake;
mod planes;

use std::vec::Vec;

use super::*;
use crate::packet::{DataFields, Opcode, Qpn, TxDesc};
use crate::path::{Arrival, Rx, SPAN};
use crate::time::Duration;
use crate::wire::{self, AckBlock, Body, DataHeader, Gid, PacketFlags, Plane};

type Conn = Connection<Vec<TxSlot>, Vec<Path<Vec<TxSlot>>>, Vec<NakRecord>>;

fn planes(host: u8, n: u8) -> PlaneList {
    let mut list = PlaneList::new();
    for id in 0..n {
        let gid = Gid::from_v4([10, 0, id, host]);
        let plane = Plane {
            gid,
            speed: 1000,
            id,
            up: true,
        };
        list.push(plane).unwrap();
    }
    list
}

fn conn(host: u8, n_planes: u8) -> Conn {
    let mut cfg = Config::new(0x1000_0000 + u32::from(host), 7, planes(host, n_planes));
    cfg.controller = crate::congestion::Controller::by_name("fixed").unwrap();
    conn_with(cfg)
}

fn conn_with(cfg: Config) -> Conn {
    let slots = || std::vec![TxSlot::default(); SPAN as usize];
    let paths = (0..cfg.paths())
        .map(|_| Path::new(slots()).unwrap())
        .collect();
    Connection::new(cfg, paths, std::vec![NakRecord::default(); 64]).unwrap()
}

fn intro(a: &Conn, b: &Conn) -> Intro {
    Intro {
        local_qpn: Qpn(a.local_id() & 0xff),
        peer_qpn: Qpn(b.local_id() & 0xff),
        token: wire::Token {
            psn: a.local_id() >> 8,
            expected: a.local_id() & 1 == 0,
        },
        local_gid: a.local_planes().get(0).unwrap().gid,
        peer_gid: b.local_planes().get(0).unwrap().gid,
    }
}

/// Delivers all handshake packets of `a` to `b`.
fn shake(now: Instant, a: &mut Conn, b: &mut Conn) -> usize {
    let mut n = 0;
    while let Some(tx) = a.poll_handshake(now) {
        n += 1;
        let mut buf = [0; 512];
        let len = a.emit_handshake(&tx, &mut buf).unwrap();
        let (header, header_len) = wire::parse(&buf[..len]).unwrap();
        assert_eq!(header_len, len);
        match header.body {
            Body::Init(h) => {
                b.on_init(now, &h);
            }
            Body::InitAck(h) => {
                assert_eq!(header.base.dst_conn, b.local_id());
                b.on_init_ack(now, &h);
            }
            Body::Reset(h) => {
                b.on_reset(&h, a.local_planes().get(0).unwrap().gid);
            }
            _ => unreachable!(),
        }
    }
    n
}

fn pair(n: u8, m: u8) -> (Conn, Conn) {
    let (mut a, mut b) = (conn(1, n), conn(2, m));
    let i = intro(&a, &b);
    a.start(Instant(0), i);
    shake(Instant(0), &mut a, &mut b);
    shake(Instant(0), &mut b, &mut a);
    assert!(a.established() && b.established());
    assert_eq!(a.poll_event(), Some(Event::Established));
    (a, b)
}

fn request(conn: &Conn, path: u16, n: u32) -> DataHeader {
    let first = conn.path(PathId(path)).unwrap().rx.cum();
    DataHeader {
        path: PathId(path),
        psn: first.add(n),
        fields: DataFields {
            opcode: Opcode::Send,
            ..DataFields::default()
        },
        ..DataHeader::default()
    }
}

/// Delivers the probes of `a` and the ACKs to them.
fn answer_probes(now: Instant, a: &mut Conn, b: &mut Conn) -> usize {
    let mut n = 0;
    while let Some(p) = a.poll_probe(now) {
        n += 1;
        b.on_probe(now, &p.header, Arrival::default());
    }
    let mut blocks = [AckBlock::default(); 16];
    while let Some(ack) = b.poll_ack(now, &mut blocks) {
        for block in &blocks[..ack.blocks] {
            a.on_ack_block(now, block);
        }
    }
    n
}

fn homes(c: &Conn) -> Vec<(u8, u8)> {
    let routes = (0..c.n_paths()).map(|i| c.route(PathId(i)).unwrap());
    routes.map(|r| (r.local_plane, r.remote_plane)).collect()
}

#[test]
fn a_connection_is_small() {
    // A kernel stack is 16 KiB; connections and paths are moved into place by value.
    assert!(size_of::<Conn>() <= 1536, "{}", size_of::<Conn>());
    assert!(size_of::<Path<Vec<TxSlot>>>() <= 1024);
}

#[test]
fn a_configuration_without_sense_is_refused() {
    let cfg = Config::new(1, 7, planes(1, 2));
    let none: Vec<Path<Vec<TxSlot>>> = Vec::new();
    let naks = || Vec::<NakRecord>::new();
    let e = Connection::new(cfg, none, naks()).err();
    assert_eq!(e, Some(ConfigError::Storage));
    let e = Conn::new(Config::new(0, 7, planes(1, 2)), Vec::new(), naks()).err();
    assert_eq!(e, Some(ConfigError::BadId));
    let e = Conn::new(Config::new(1, 7, planes(1, 0)), Vec::new(), naks()).err();
    assert_eq!(e, Some(ConfigError::NoPath));
}
