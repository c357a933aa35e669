// SPDX-License-Identifier: GPL-2.0

//! One end of a connection, driven as a datapath does it, with an application on top.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use proto::connection::{Config, Connection, Event, NakRecord, Verdict};
use proto::packet::{DataFields, Opcode, PathId, TxDesc};
use proto::path::{Arrival, Path, Route, Rx, Tx, TxSlot, SPAN};
use proto::stream::Nak;
use proto::time::{Duration, Instant};
use proto::wire::{self, crc, AckBlock, Body, DataHeader, PacketFlags};

use crate::rng::Rng;

/// Slots of a path that are not there before they are written to: most ends only receive.
#[derive(Debug, Default)]
pub struct LazySlots(Vec<TxSlot>);

const ROOM: usize = SPAN as usize;

impl Deref for LazySlots {
    type Target = [TxSlot];

    fn deref(&self) -> &[TxSlot] {
        static EMPTY: OnceLock<Vec<TxSlot>> = OnceLock::new();
        if self.0.is_empty() {
            EMPTY.get_or_init(|| vec![TxSlot::default(); ROOM])
        } else {
            &self.0
        }
    }
}

impl DerefMut for LazySlots {
    fn deref_mut(&mut self) -> &mut [TxSlot] {
        if self.0.is_empty() {
            self.0 = vec![TxSlot::default(); ROOM];
        }
        &mut self.0
    }
}

/// A connection on plain vectors.
pub type Conn = Connection<LazySlots, Vec<Path<LazySlots>>, Vec<NakRecord>>;

/// Makes a connection with room for so many NAKs.
pub fn connection(cfg: Config, naks: usize) -> Conn {
    let paths = (0..cfg.paths())
        .map(|_| Path::new(LazySlots::default()).expect("enough slots"))
        .collect();
    Connection::new(cfg, paths, vec![NakRecord::default(); naks]).expect("a valid configuration")
}

/// What the application makes of a packet.
pub enum Taken {
    /// It is placed.
    Accept,
    /// It is refused with this NAK.
    Refuse(TxDesc),
    /// No memory just now.
    Abort,
}

/// What sends and receives messages.
pub trait App {
    /// The next new packet, if there is one to send now.
    fn next(&mut self, now: Instant) -> Option<TxDesc>;
    /// The packet from `next` got its place.
    fn committed(&mut self, now: Instant, desc: &TxDesc);
    /// Fields and payload of a packet, also a second time; `None` if it no longer exists. The
    /// payload may be left empty where nobody looks at it.
    fn build(&mut self, desc: &TxDesc, payload: &mut Vec<u8>) -> Option<DataFields>;
    /// A packet arrived, for the first time.
    fn receive(&mut self, now: Instant, f: &DataFields, payload: &[u8]) -> Taken;
    /// A packet was acknowledged.
    fn acked(&mut self, now: Instant, desc: &TxDesc);
    /// NAKs for which no packet is held.
    fn pop_nak(&mut self) -> Option<TxDesc> {
        None
    }
    /// When [`App::on_timeout`] is to be called.
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// Time has passed; the connection made progress last at `progress`.
    fn on_timeout(&mut self, _now: Instant, _progress: Instant) {}
    /// The connection came up; packets carry at most so many bytes.
    fn established(&mut self, _payload_mtu: u16) {}
    /// The connection is gone.
    fn broken(&mut self) {}
}

/// A packet on its way out.
pub struct Outgoing<'a> {
    /// Where it goes.
    pub route: Route,
    /// Whether switches may mark it rather than drop it.
    pub ect: bool,
    /// Its header.
    pub header: &'a [u8],
    /// Its payload, or nothing in place of it.
    pub payload: &'a [u8],
    /// Bytes of payload.
    pub payload_len: u32,
}

/// The network, as a host sees it.
pub trait Outlet {
    /// Sends a packet.
    fn send(&mut self, packet: Outgoing<'_>);
}

impl Outlet for Vec<(Route, Vec<u8>)> {
    fn send(&mut self, packet: Outgoing<'_>) {
        self.push((packet.route, [packet.header, packet.payload].concat()));
    }
}

/// Bad luck of a host, in 1/10,000 of the packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// `rx_done` comes only after the batch is acknowledged, as if another CPU did it.
    pub slow: u32,
    /// A packet for retransmission cannot be built now.
    pub put_back: u32,
}

/// One end of a connection with its application.
pub struct Endpoint<A> {
    /// The connection.
    pub conn: Conn,
    /// The application.
    pub app: A,
    /// What the host does wrong.
    pub trouble: Trouble,
    rng: Rng,
    /// Processed, but not yet reported to the connection.
    slow: Vec<(DataHeader, Verdict)>,
    /// What the connection told.
    pub events: Vec<Event>,
    retry_at: Option<Instant>,
    /// Ignore everything, as a host that went away.
    pub gone: bool,
    payload: Vec<u8>,
}

impl<A: App> Endpoint<A> {
    /// Puts an application on a connection.
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
            payload: Vec::new(),
        }
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
        &self,
        path: PathId,
        tx: &Tx,
        fields: DataFields,
        payload: &[u8],
        payload_len: u32,
        out: &mut impl Outlet,
    ) {
        let header = DataHeader {
            path,
            route_epoch: tx.route_epoch,
            psn: tx.psn,
            stamp: tx.stamp,
            fields,
        };
        let mut buf = [0; wire::MAX_DATA_HEADER_LEN];
        let flags = self.flags(tx.ack_req);
        let n = header
            .emit(self.conn.peer_id(), flags, &mut buf)
            .expect("room for a header");
        if self.conn.crc() {
            seal(&mut buf[..n], payload);
        }
        out.send(Outgoing {
            route: self.conn.route(path).expect("a known path"),
            ect: true,
            header: &buf[..n],
            payload,
            payload_len,
        });
    }

    fn emit_control(&self, route: Route, header: &mut [u8], crc: bool, out: &mut impl Outlet) {
        if crc {
            seal(header, &[]);
        }
        out.send(Outgoing {
            route,
            ect: false,
            header,
            payload: &[],
            payload_len: 0,
        });
    }

    fn data(&mut self, now: Instant, h: &DataHeader, flags: PacketFlags, ce: bool, payload: &[u8]) {
        let arrival = Arrival { ce, local: false };
        if self.conn.rx_check(now, h, flags, arrival) != Rx::New {
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
        if self.trouble.slow > 0 && self.rng.chance(self.trouble.slow) {
            self.slow.push((*h, verdict));
        } else {
            self.conn.rx_done(h.path, h.psn, verdict);
        }
    }

    fn acks(&mut self, now: Instant, out: &mut impl Outlet) {
        let mut blocks = [AckBlock::default(); 8];
        while let Some(tx) = self.conn.poll_ack(now, &mut blocks) {
            let mut buf = [0; wire::MAX_HEADER_LEN];
            let flags = self.flags(false);
            let blocks = &blocks[..tx.blocks];
            let n = wire::emit_ack(self.conn.peer_id(), flags, 0, blocks, &mut buf)
                .expect("blocks fit");
            self.emit_control(tx.route, &mut buf[..n], self.conn.crc(), out);
        }
    }

    /// Takes a packet; [`Endpoint::control`] is to follow, after this one or some more.
    pub fn receive(&mut self, now: Instant, ce: bool, bytes: &[u8]) {
        if self.gone {
            return;
        }
        let (h, n) = wire::parse(bytes).expect("peers send valid packets");
        let (header, payload) = bytes.split_at(n);
        h.check_payload(payload.len())
            .expect("payload only where it belongs");
        if h.base.flags.has(PacketFlags::CRC) {
            let crc = crc::packet_crc(header, &[payload]).expect("a whole header");
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
                if let Some(plane) = self.conn.peer_planes().get(0).copied() {
                    self.conn.on_reset(&r, plane.gid);
                }
            }
            _ if h.base.dst_conn != self.conn.local_id() => {}
            Body::Data(d) => self.data(now, &d, h.base.flags, ce, payload),
            Body::Ack(a) => self.conn.on_ack(now, &a),
            Body::Probe(p) => self.conn.on_probe(now, &p, Arrival::default()),
            // Of no connection.
            Body::Datagram(_) => {}
        }
    }

    /// Sends what is due but for new data: after packets were received, and when the deadline is
    /// over.
    pub fn control(&mut self, now: Instant, out: &mut impl Outlet) {
        if self.gone {
            return;
        }
        self.retry_at = None;
        self.conn.on_timeout(now);
        while let Some(e) = self.conn.poll_event() {
            match e {
                Event::Established => self.app.established(self.conn.payload_mtu()),
                Event::PeerRestarted | Event::PeerClosed => self.app.broken(),
                _ => {}
            }
            self.events.push(e);
        }
        self.app.on_timeout(now, self.conn.last_progress());
        while let Some(acked) = self.conn.pop_acked() {
            self.app.acked(now, &acked.desc);
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
        self.handshakes(now, out);
        while let Some(nak) = self.conn.poll_nak(now) {
            let fields = Nak::fields(&nak.desc).expect("a NAK");
            self.emit_data(nak.path, &nak.tx, fields, &[], 0, out);
        }
        self.retransmissions(now, out);
        while let Some(p) = self.conn.poll_probe(now) {
            let mut buf = [0; wire::PROBE_LEN];
            let flags = self.flags(false);
            p.header
                .emit(self.conn.peer_id(), flags, &mut buf)
                .expect("room for a probe");
            self.emit_control(p.route, &mut buf, self.conn.crc(), out);
        }
    }

    fn handshakes(&mut self, now: Instant, out: &mut impl Outlet) {
        while let Some(tx) = self.conn.poll_handshake(now) {
            let mut buf = [0; 512];
            let n = self
                .conn
                .emit_handshake(&tx, &mut buf)
                .expect("room for an INIT");
            let route = Route {
                local_plane: tx.local_plane,
                remote_plane: tx.local_plane,
                src_port: 1,
                epoch: 0,
            };
            self.emit_control(route, &mut buf[..n], true, out);
        }
    }

    fn retransmissions(&mut self, now: Instant, out: &mut impl Outlet) {
        let mut back = Vec::new();
        while let Some(r) = self.conn.next_retransmit() {
            if self.trouble.put_back > 0 && self.rng.chance(self.trouble.put_back) {
                back.push(r);
                continue;
            }
            let mut payload = std::mem::take(&mut self.payload);
            payload.clear();
            let (fields, len) = match Nak::fields(&r.desc) {
                Some(fields) => (fields, 0),
                None => match self.app.build(&r.desc, &mut payload) {
                    Some(fields) => (fields, r.desc.payload_len()),
                    None => (DataFields::default(), 0),
                },
            };
            if let Some(tx) = self.conn.retransmit(now, r.path, r.psn) {
                self.emit_data(r.path, &tx, fields, &payload, len, out);
            }
            self.payload = payload;
        }
        if !back.is_empty() {
            self.retry_at = Some(now.after(Duration(1_000)));
        }
        for r in back {
            self.conn.put_back(r.path, r.psn);
        }
    }

    /// Sends one burst of new data. Returns whether there may be more to send now.
    pub fn burst(&mut self, now: Instant, out: &mut impl Outlet) -> bool {
        if self.gone || self.app.next(now).is_none() {
            return false;
        }
        let Some(burst) = self.conn.reserve(now) else {
            return false;
        };
        for i in 1..=burst.max_packets {
            let Some(desc) = self.app.next(now) else {
                break;
            };
            // As a datapath would: look ahead to know whether the burst ends here.
            let mut payload = std::mem::take(&mut self.payload);
            payload.clear();
            let fields = self
                .app
                .build(&desc, &mut payload)
                .expect("new packets exist");
            self.app.committed(now, &desc);
            let last = i == burst.max_packets || self.app.next(now).is_none();
            let tx = self
                .conn
                .assign(now, burst.path, desc, last)
                .expect("what was reserved is there");
            self.emit_data(burst.path, &tx, fields, &payload, desc.payload_len(), out);
            self.payload = payload;
        }
        true
    }

    /// Sends all that is due.
    pub fn pump(&mut self, now: Instant, out: &mut impl Outlet) {
        self.control(now, out);
        while self.burst(now, out) {}
    }

    /// When [`Endpoint::control`] is to be called, if no packet comes before.
    pub fn deadline(&self) -> Option<Instant> {
        if self.gone {
            return None;
        }
        let all = [self.conn.poll_timeout(), self.app.deadline(), self.retry_at];
        all.into_iter().flatten().min()
    }
}

fn seal(header: &mut [u8], payload: &[u8]) {
    let crc = crc::packet_crc(header, &[payload]).expect("a whole header");
    crc::set_crc(header, crc).expect("a whole header");
}
