// SPDX-License-Identifier: GPL-2.0

use std::vec::Vec;

use super::*;
use crate::packet::{DataFields, Opcode, Qpn, TxDesc};
use crate::path::{Rx, SPAN};
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
    let cfg = Config::new(0x1000_0000 + u32::from(host), 7, planes(host, n_planes));
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
                b.on_reset(&h);
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

#[test]
fn a_connection_is_small() {
    // A kernel stack is 16 KiB; connections and paths are moved into place by value.
    assert!(size_of::<Conn>() <= 1536, "{}", size_of::<Conn>());
    assert!(size_of::<Path<Vec<TxSlot>>>() <= 1024);
    assert!(size_of::<TxSlot>() <= 40);
}

#[test]
fn data_flows_and_is_acknowledged() {
    let (mut a, mut b) = pair(2, 2);
    assert_eq!((a.n_paths(), b.n_paths()), (16, 16));
    let mut now = Instant(1_000_000);
    let mut sent = 0;
    while let Some(burst) = a.reserve(now) {
        for i in 0..burst.max_packets {
            let desc = TxDesc {
                opcode: Opcode::Write,
                offset: sent,
                len: 1024,
                ..TxDesc::default()
            };
            let last = i + 1 == burst.max_packets;
            let tx = a.assign(now, burst.path, desc, last).unwrap();
            assert!(tx.ack_req || !last);
            sent += 1;
            let h = DataHeader {
                path: burst.path,
                route_epoch: tx.route_epoch,
                psn: tx.psn,
                stamp: tx.stamp,
                fields: DataFields {
                    opcode: Opcode::Write,
                    ..DataFields::default()
                },
            };
            let flags = PacketFlags(u8::from(tx.ack_req));
            assert_eq!(b.rx_check(now, &h, flags, false), Rx::New);
            assert_eq!(
                b.rx_done(burst.path, tx.psn, Verdict::Accept),
                crate::path::Done::Acked
            );
            assert_eq!(b.rx_check(now, &h, flags, false), Rx::Duplicate);
        }
        now = now.after(Duration(1000));
    }
    assert_eq!(sent, 16 * 64);
    let (p0, p1) = (a.plane_stats(0).unwrap(), a.plane_stats(1).unwrap());
    assert_eq!(p0.packets, p1.packets);
    let mut blocks = [AckBlock::default(); 16];
    while let Some(tx) = b.poll_ack(now, &mut blocks) {
        let mut buf = [0; 1020];
        let len = wire::emit_ack(
            b.peer_id(),
            PacketFlags::NONE,
            0,
            &blocks[..tx.blocks],
            &mut buf,
        )
        .unwrap();
        let (header, _) = wire::parse(&buf[..len]).unwrap();
        let Body::Ack(ack) = header.body else {
            unreachable!()
        };
        a.on_ack(now, &ack);
    }
    let mut offsets: Vec<u32> = core::iter::from_fn(|| a.pop_acked())
        .map(|d| d.offset)
        .collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..sent).collect::<Vec<_>>());
    assert!(a.is_idle() && a.poll_timeout().is_none());
    assert!(a.next_retransmit().is_none());
}
