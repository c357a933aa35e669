// SPDX-License-Identifier: GPL-2.0

//! A host: a connection, driven as a datapath does it, with an application on top.

use proto::connection::{Config, Connection, NakRecord, Verdict};
use proto::packet::{DataFields, Opcode, TxDesc};
use proto::path::{Path, Route, Rx, TxSlot, SPAN};
use proto::stream::Nak;
use proto::time::Instant;
use proto::wire::{self, crc, AckBlock, Body, DataHeader, PacketFlags};

use super::net::Node;
use super::rng::Rng;

pub type Conn = Connection<Vec<TxSlot>, Vec<Path<Vec<TxSlot>>>, Vec<NakRecord>>;

pub fn connection(cfg: Config, naks: usize) -> Conn {
    let slots = || vec![TxSlot::default(); SPAN as usize];
    let paths = (0..cfg.paths())
        .map(|_| Path::new(slots()).expect("enough slots"))
        .collect();
    Connection::new(cfg, paths, vec![NakRecord::default(); naks]).expect("a valid configuration")
}

/// What the application makes of a packet.
pub enum Taken {
    Accept,
    Refuse(TxDesc),
    /// No memory just now.
    Abort,
}

pub trait App {
    /// The next new packet, if there is one to send now.
    fn next(&mut self, now: Instant) -> Option<TxDesc>;
    /// The packet from `next` got its place.
    fn committed(&mut self, now: Instant, desc: &TxDesc);
    /// Fields and payload of a packet, also a second time; `None` if it no longer exists.
    fn build(&mut self, desc: &TxDesc) -> Option<(DataFields, Vec<u8>)>;
    fn receive(&mut self, now: Instant, f: &DataFields, payload: &[u8]) -> Taken;
    fn acked(&mut self, now: Instant, desc: &TxDesc);
    /// NAKs for which no packet is held.
    fn pop_nak(&mut self) -> Option<TxDesc> {
        None
    }
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn on_timeout(&mut self, _now: Instant, _progress: Instant) {}
    /// The connection came up; packets carry at most so many bytes.
    fn established(&mut self, _payload_mtu: u16) {}
    /// The connection is gone.
    fn broken(&mut self) {}
}

/// Bad luck of a host, in 1/10,000 of the packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// `rx_done` comes only after the batch is acknowledged, as if another CPU did it.
    pub slow: u32,
    /// A packet for retransmission cannot be built now.
    pub put_back: u32,
}

pub struct Endpoint<A> {
    pub conn: Conn,
    pub app: A,
    pub trouble: Trouble,
    rng: Rng,
    /// Processed, but not yet reported to the connection.
    slow: Vec<(DataHeader, Verdict)>,
    /// Packets put back in this pump.
    pub events: Vec<proto::connection::Event>,
    retry_at: Option<Instant>,
    /// Ignore everything, as a host that went away.
    pub gone: bool,
}

impl<A: App> Endpoint<A> {
    pub fn new(conn: Conn, app: A, seed: u64) -> Self {
        Endpoint {
            conn,
            app,
            trouble: Trouble::default(),
            rng: Rng::new(seed),
            slow: Vec::new(),
            events: Vec::new(),
            retry_at: None,
            gone: false,
        }
    }

    fn seal(&self, mut header: Vec<u8>, payload: &[u8], crc_wanted: bool) -> Vec<u8> {
        if crc_wanted {
            let crc = crc::packet_crc(&header, &[payload]).expect("a whole header");
            crc::set_crc(&mut header, crc).expect("a whole header");
        }
        header.extend_from_slice(payload);
        header
    }

    fn flags(&self, ack_req: bool) -> PacketFlags {
        let mut flags = PacketFlags::NONE;
        if ack_req {
            flags = flags.with(PacketFlags::ACK_REQ);
        }
        if self.conn.crc() {
            flags = flags.with(PacketFlags::CRC);
        }
        flags
    }

    fn emit_data(
        &mut self,
        path: proto::packet::PathId,
        tx: &proto::path::Tx,
        fields: DataFields,
        payload: &[u8],
        out: &mut Vec<(Route, Vec<u8>)>,
    ) {
        let header = DataHeader {
            path,
            route_epoch: tx.route_epoch,
            psn: tx.psn,
            stamp: tx.stamp,
            fields,
        };
        let mut buf = vec![0; wire::MAX_DATA_HEADER_LEN];
        let flags = self.flags(tx.ack_req);
        let n = header
            .emit(self.conn.peer_id(), flags, &mut buf)
            .expect("room for a header");
        buf.truncate(n);
        let route = self.conn.route(path).expect("a known path");
        out.push((route, self.seal(buf, payload, self.conn.crc())));
    }

    fn data(&mut self, now: Instant, h: &DataHeader, flags: PacketFlags, ce: bool, payload: &[u8]) {
        if self.conn.rx_check(now, h, flags, ce) != Rx::New {
            return;
        }
        let verdict = if h.fields.opcode == Opcode::Void {
            Verdict::Accept
        } else {
            match self.app.receive(now, &h.fields, payload) {
                Taken::Accept => Verdict::Accept,
                Taken::Refuse(desc) => Verdict::Refuse(desc),
                Taken::Abort => {
                    self.conn.rx_abort(h.path, h.psn);
                    return;
                }
            }
        };
        if self.rng.chance(self.trouble.slow) {
            self.slow.push((*h, verdict));
        } else {
            self.conn.rx_done(h.path, h.psn, verdict);
        }
    }

    fn acks(&mut self, now: Instant, out: &mut Vec<(Route, Vec<u8>)>) {
        let mut blocks = [AckBlock::default(); 8];
        while let Some(tx) = self.conn.poll_ack(now, &mut blocks) {
            let mut buf = vec![0; wire::MAX_HEADER_LEN];
            let flags = self.flags(false);
            let n = wire::emit_ack(
                self.conn.peer_id(),
                flags,
                0,
                &blocks[..tx.blocks],
                &mut buf,
            )
            .expect("blocks fit");
            buf.truncate(n);
            out.push((tx.route, self.seal(buf, &[], self.conn.crc())));
        }
    }
}

impl<A: App> Node for Endpoint<A> {
    fn receive(&mut self, now: Instant, ce: bool, bytes: &[u8]) {
        if self.gone {
            return;
        }
        let (h, n) = wire::parse(bytes).expect("peers send valid packets");
        let payload = &bytes[n..];
        h.check_payload(payload.len())
            .expect("payload only where it belongs");
        if h.base.flags.has(PacketFlags::CRC) {
            let crc = crc::packet_crc(&bytes[..n], &[payload]).expect("a whole header");
            assert_eq!(crc, h.base.crc);
        }
        match h.body {
            Body::Init(i) => {
                self.conn.on_init(now, &i);
            }
            Body::InitAck(i) => {
                assert_eq!(h.base.dst_conn, self.conn.local_id());
                self.conn.on_init_ack(now, &i);
            }
            Body::Reset(r) => {
                self.conn.on_reset(&r);
            }
            _ if h.base.dst_conn != self.conn.local_id() => {}
            Body::Data(d) => self.data(now, &d, h.base.flags, ce, payload),
            Body::Ack(a) => self.conn.on_ack(now, &a),
            Body::Probe(p) => self.conn.on_probe(now, &p),
        }
    }

    fn pump(&mut self, now: Instant, out: &mut Vec<(Route, Vec<u8>)>) {
        if self.gone {
            return;
        }
        self.retry_at = None;
        self.conn.on_timeout(now);
        while let Some(e) = self.conn.poll_event() {
            match e {
                proto::connection::Event::Established => {
                    self.app.established(self.conn.payload_mtu())
                }
                proto::connection::Event::PeerRestarted | proto::connection::Event::PeerClosed => {
                    self.app.broken()
                }
                _ => {}
            }
            self.events.push(e);
        }
        self.app.on_timeout(now, self.conn.last_progress());
        while let Some(desc) = self.conn.pop_acked() {
            self.app.acked(now, &desc);
        }
        while let Some(desc) = self.app.pop_nak() {
            assert!(self.conn.queue_nak(desc));
        }
        self.acks(now, out);
        // The other CPU gets round to it after the acknowledgement.
        if !self.slow.is_empty() {
            for (h, verdict) in std::mem::take(&mut self.slow) {
                self.conn.rx_done(h.path, h.psn, verdict);
            }
            self.acks(now, out);
        }
        while let Some(tx) = self.conn.poll_handshake(now) {
            let mut buf = vec![0; 512];
            let n = self
                .conn
                .emit_handshake(&tx, &mut buf)
                .expect("room for an INIT");
            buf.truncate(n);
            let route = Route {
                local_plane: tx.local_plane,
                remote_plane: tx.local_plane,
                src_port: 1,
                epoch: 0,
            };
            out.push((route, self.seal(buf, &[], true)));
        }
        while let Some(nak) = self.conn.poll_nak(now) {
            let fields = Nak::fields(&nak.desc).expect("a NAK");
            self.emit_data(nak.path, &nak.tx, fields, &[], out);
        }
        let mut back = Vec::new();
        while let Some(r) = self.conn.next_retransmit() {
            if self.rng.chance(self.trouble.put_back) {
                back.push(r);
                continue;
            }
            let (fields, payload) = match Nak::fields(&r.desc) {
                Some(fields) => (fields, Vec::new()),
                None => self.app.build(&r.desc).unwrap_or_default(),
            };
            if let Some(tx) = self.conn.retransmit(now, r.path, r.psn) {
                self.emit_data(r.path, &tx, fields, &payload, out);
            }
        }
        if !back.is_empty() {
            self.retry_at = Some(now.after(proto::time::Duration(1_000)));
        }
        for r in back {
            self.conn.put_back(r.path, r.psn);
        }
        while let Some(p) = self.conn.poll_probe(now) {
            let mut buf = vec![0; wire::PROBE_LEN];
            let flags = self.flags(false);
            p.header
                .emit(self.conn.peer_id(), flags, &mut buf)
                .expect("room for a probe");
            out.push((p.route, self.seal(buf, &[], self.conn.crc())));
        }
        'bursts: while self.app.next(now).is_some() {
            let Some(burst) = self.conn.reserve(now) else {
                break;
            };
            for i in 1..=burst.max_packets {
                let Some(desc) = self.app.next(now) else {
                    continue 'bursts;
                };
                // As a datapath would: look ahead to know whether the burst ends here.
                let (fields, payload) = self.app.build(&desc).expect("new packets exist");
                self.app.committed(now, &desc);
                let last = i == burst.max_packets || self.app.next(now).is_none();
                let tx = self
                    .conn
                    .assign(now, burst.path, desc, last)
                    .expect("what was reserved is there");
                self.emit_data(burst.path, &tx, fields, &payload, out);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if self.gone {
            return None;
        }
        let all = [self.conn.poll_timeout(), self.app.deadline(), self.retry_at];
        all.into_iter().flatten().min()
    }
}
