// SPDX-License-Identifier: GPL-2.0

//! Sending: what the transport has due becomes socket buffers.
//!
//! Everything that a path carries gets its PSN and goes to the network under one hold of the
//! connection's lock, so a path stays in order on the host.

use super::{
    conn::{
        self,
        Conn, //
    },
    host::{
        ECT0,
        TTL, //
    },
    now,
    qp::{
        Locked,
        Qp,
        QpInner, //
    },
    qp_counters::QpCounters,
    requester::BuildError,
};
use crate::{
    net::{
        crc,
        route::Route,
        tx::TxBurst, //
    },
    rdma::qp::QpState, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::{
    packet::{
        DataFields,
        Opcode,
        PathId,
        TxDesc, //
    },
    path::Tx,
    stream::{
        Nak,
        RequestPacket,
        ResponsePacket, //
    },
    wire::{
        self,
        crc as wire_crc,
        DataHeader,
        PacketFlags,
        CRC_OFFSET,
        MAX_DATA_HEADER_LEN,
        MAX_HEADER_LEN, //
    },
};

/// Queue pairs served in one round, and bursts sent for each, before others get their turn.
const TURNS: usize = 16;
const BURSTS: usize = 4;

/// What became of a queue pair's turn.
enum Turn {
    /// It has nothing to send now.
    Done,
    /// It goes to the end of the queue.
    More,
    /// No path takes anything now.
    Blocked,
}

/// A packet to be built, and what it carries.
enum Content {
    Request(RequestPacket),
    Response(ResponsePacket),
    /// Header only.
    Bare(DataFields),
}

impl Content {
    fn fields(&self) -> &DataFields {
        match self {
            Content::Request(p) => &p.fields,
            Content::Response(p) => &p.fields,
            Content::Bare(f) => f,
        }
    }

    fn payload_len(&self) -> u32 {
        match self {
            Content::Request(p) => p.len,
            Content::Response(p) => p.source.len,
            Content::Bare(_) => 0,
        }
    }

    /// Bytes on the wire above UDP.
    fn size(&self) -> u32 {
        // CAST: at most `MAX_DATA_HEADER_LEN`.
        wire::data_header_len(self.fields().opcode) as u32 + self.payload_len()
    }

    /// What takes a packet's place when there is nothing to send in it any more.
    fn void(desc: &TxDesc) -> Self {
        Content::Bare(DataFields {
            opcode: Opcode::Void,
            dst_qpn: desc.peer_qpn,
            src_qpn: desc.qpn,
            msn: desc.msn,
            epoch: desc.epoch,
            ..DataFields::default()
        })
    }
}

/// Address of a packet on its connection.
#[derive(Clone, Copy)]
struct Place {
    path: PathId,
    tx: Tx,
    dst_conn: u32,
    with_crc: bool,
}

impl conn::ConnInner {
    /// `again`: it was sent before, which may have failed for want of the CRC.
    fn place(&self, path: PathId, tx: Tx, again: bool) -> Place {
        let with_crc = if again {
            self.proto.crc()
        } else {
            self.proto.crc_on(path)
        };
        Place {
            path,
            tx,
            dst_conn: self.proto.peer_id(),
            with_crc,
        }
    }
}

/// A burst under way on one path, sent when it is dropped from the hands of the sender.
struct Sender<'a> {
    conn: &'a Conn,
    path: PathId,
    /// It carries what was sent before.
    again: bool,
    burst: Option<TxBurst>,
    /// Size of the first segment; all but the last are as long.
    first: u32,
    /// A shorter one was the last.
    closed: bool,
}

impl<'a> Sender<'a> {
    fn new(conn: &'a Conn, path: PathId) -> Self {
        Self {
            conn,
            path,
            again: false,
            burst: None,
            first: 0,
            closed: false,
        }
    }

    /// Hands over what is collected.
    fn flush(&mut self, inner: &mut conn::Locked<'_>) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        let route = inner.route(self.conn, self.path);
        let counters = &self.conn.endpoint.counters;
        let _ = counters.xmit(burst, route, ECT0, TTL);
    }

    /// Adds a packet. `qp` is whose it is, if it carries anything.
    ///
    /// Errors: [`BuildError::Protection`] if memory is not accessible, and a Void packet went in
    /// instead; [`BuildError::NoRoom`] if there is no memory for the packet, which is then lost.
    fn push(
        &mut self,
        inner: &mut conn::Locked<'_>,
        qp: Option<(&Qp, &QpInner)>,
        content: &Content,
        desc: &TxDesc,
        tx: Tx,
    ) -> Result<(), BuildError> {
        let place = inner.place(self.path, tx, self.again);
        if self.burst.is_some() && (self.closed || content.size() > self.first) {
            self.flush(inner);
        }
        match self.try_push(qp, content, place) {
            // It may only be that the burst is full.
            Err(BuildError::NoRoom) if self.segments() > 0 => {
                self.flush(inner);
                self.try_push(qp, content, place)
            }
            Err(BuildError::Protection) => {
                let void = Content::void(desc);
                if self.segments() > 0 && void.size() > self.first {
                    self.flush(inner);
                }
                let _ = self.try_push(None, &void, place);
                Err(BuildError::Protection)
            }
            other => other,
        }
    }

    fn segments(&self) -> usize {
        self.burst.as_ref().map_or(0, TxBurst::segments)
    }

    fn try_push(
        &mut self,
        qp: Option<(&Qp, &QpInner)>,
        content: &Content,
        place: Place,
    ) -> Result<(), BuildError> {
        let fresh = self.burst.is_none();
        if fresh {
            self.burst = Some(TxBurst::new().map_err(|_| BuildError::NoRoom)?);
            self.closed = false;
            self.first = content.size();
        }
        let burst = self.burst.as_mut().ok_or(BuildError::NoRoom)?;
        let result = write_packet(burst, qp, content, place);
        if result.is_err() {
            burst.segment_abort();
            if fresh {
                self.burst = None;
            }
        } else {
            self.closed |= content.size() < self.first;
        }
        result
    }
}

/// Writes one packet as a segment of a burst.
fn write_packet(
    burst: &mut TxBurst,
    qp: Option<(&Qp, &QpInner)>,
    content: &Content,
    place: Place,
) -> Result<(), BuildError> {
    let header = DataHeader {
        path: place.path,
        route_epoch: place.tx.route_epoch,
        psn: place.tx.psn,
        stamp: place.tx.stamp,
        fields: *content.fields(),
    };
    let mut flags = PacketFlags::NONE;
    if place.tx.ack_req {
        flags = flags.with(PacketFlags::ACK_REQ);
    }
    if place.with_crc {
        flags = flags.with(PacketFlags::CRC);
    }
    let mut buf = [0u8; MAX_DATA_HEADER_LEN];
    let bytes = header
        .emit(place.dst_conn, flags, &mut buf)
        .and_then(|n| buf.get(..n))
        .ok_or(BuildError::NoRoom)?;
    burst.push_header(bytes).map_err(|_| BuildError::NoRoom)?;

    let mut sum = place
        .with_crc
        .then(|| crc::crc32c(wire_crc::CRC_SEED, bytes));
    match (content, qp) {
        (Content::Request(packet), Some((qp, inner))) => {
            qp.push_request(inner, packet, burst, &mut sum)?;
        }
        (Content::Response(packet), Some((qp, _))) => {
            qp.push_response(packet, burst, &mut sum)?;
        }
        _ => {}
    }
    if let Some(sum) = sum {
        burst
            .patch_header(CRC_OFFSET, &wire_crc::finish(sum).to_be_bytes())
            .map_err(|_| BuildError::NoRoom)?;
    }
    burst.segment_end().map_err(|_| BuildError::NoRoom)
}

impl Conn {
    /// One round of everything that may have come due.
    pub(super) fn pass(&self) {
        self.send_control();
        self.send_again();
        self.serve();
        self.conclude();
    }

    /// Sends the handshake, acknowledgements, probes and NAKs.
    fn send_control(&self) {
        let mut inner = self.inner.lock();
        let now = now();
        let mut buf = [0u8; MAX_HEADER_LEN];
        while let Some(tx) = inner.proto.poll_handshake(now) {
            let Some(n) = inner.proto.emit_handshake(&tx, &mut buf) else {
                continue;
            };
            let port = self.endpoint.host().port();
            if let Ok(route) = inner.look_up(self, tx.local_plane, tx.remote, port) {
                self.send_bytes(&route, &mut buf, n, true);
            }
        }
        let inner = &mut *inner;
        while let Some(ack) = inner.proto.poll_ack(now, &mut inner.blocks) {
            let with_crc = inner.proto.crc();
            let mut flags = flags_of(with_crc);
            if ack.local {
                flags = flags.with(PacketFlags::LOCAL);
            }
            let hint = inner.hint(&self.endpoint.shares);
            let n = inner.blocks.get(..ack.blocks).and_then(|blocks| {
                wire::emit_ack(inner.proto.peer_id(), flags, hint, blocks, &mut buf)
            });
            if let (Some(n), Ok(route)) = (n, inner.resolve(self, &ack.route)) {
                self.send_bytes(route, &mut buf, n, with_crc);
            }
        }
        while let Some(probe) = inner.proto.poll_probe(now) {
            let with_crc = inner.proto.crc();
            let n = probe
                .header
                .emit(inner.proto.peer_id(), flags_of(with_crc), &mut buf);
            if let (Some(n), Ok(route)) = (n, inner.resolve(self, &probe.route)) {
                self.send_bytes(route, &mut buf, n, with_crc);
            }
        }
    }

    /// Sends a datagram without payload: the first `n` bytes of `buf`.
    fn send_bytes(&self, route: &Route, buf: &mut [u8], n: usize, with_crc: bool) {
        let Some(bytes) = buf.get_mut(..n) else {
            return;
        };
        if with_crc {
            let sum = crc::crc32c(wire_crc::CRC_SEED, bytes);
            let _ = wire_crc::set_crc(bytes, wire_crc::finish(sum));
        }
        let counters = &self.endpoint.counters;
        let burst = TxBurst::new().and_then(|mut burst| {
            burst.push_header(bytes)?;
            burst.segment_end()?;
            Ok(burst)
        });
        match burst {
            Ok(burst) => {
                let _ = counters.xmit(burst, Ok(route), ECT0, TTL);
            }
            Err(_) => counters.not_sent(),
        }
    }

    /// Sends NAKs, and again what was lost.
    fn send_again(&self) {
        {
            let mut inner = self.inner.lock();
            while let Some(nak) = inner.proto.poll_nak(now()) {
                let content = content_of_nak(&nak.desc);
                let mut sender = Sender::new(self, nak.path);
                let _ = sender.push(&mut inner, None, &content, &nak.desc, nak.tx);
                sender.flush(&mut inner);
            }
        }
        loop {
            let Some(lost) = self.inner.lock().proto.next_retransmit() else {
                return;
            };
            let qp = match lost.desc.opcode {
                Opcode::Void | Opcode::Nak => None,
                _ => self.endpoint.host().qps.lookup(lost.desc.qpn.0),
            };
            let mut qp_inner = qp.as_ref().map(|qp| qp.inner.lock());
            let content = match &qp_inner {
                // The number may have been given to another queue pair since.
                Some(q) if q.belongs_to(self) => q.content(&lost.desc),
                _ => None,
            }
            .unwrap_or_else(|| match lost.desc.opcode {
                Opcode::Nak => content_of_nak(&lost.desc),
                _ => Content::void(&lost.desc),
            });
            let built = {
                let mut inner = self.inner.lock();
                let Some(tx) = inner.proto.retransmit(now(), lost.path, lost.psn) else {
                    continue;
                };
                let mut sender = Sender {
                    again: true,
                    ..Sender::new(self, lost.path)
                };
                let whose = qp.as_deref().zip(qp_inner.as_deref());
                let built = sender.push(&mut inner, whose, &content, &lost.desc, tx);
                sender.flush(&mut inner);
                let counters = qp_inner.as_ref().and_then(|q| q.counters_on(self));
                if let (Some(counters), Some(cause)) = (counters, tx.cause) {
                    counters.sent_again(inner.plane_of(lost.path), cause);
                }
                built
            };
            if let (Err(BuildError::Protection), Some(qp), Some(q)) = (built, &qp, &mut qp_inner) {
                match lost.desc.opcode {
                    Opcode::ReadResponse => qp.response_gone(q, &lost.desc),
                    _ => qp.request_failed(q, &lost.desc),
                }
                // The NAK is to be sent.
                qp.want_to_send(self);
            }
        }
    }

    /// Gives the waiting queue pairs their turns.
    fn serve(&self) {
        for _ in 0..TURNS {
            let Some(qpn) = self.dequeue() else {
                return;
            };
            let Some(qp) = self.endpoint.host().qps.lookup(qpn) else {
                continue;
            };
            match qp.turn(self) {
                Turn::Done => {}
                Turn::More => qp.want_again(self, false),
                Turn::Blocked => {
                    qp.want_again(self, true);
                    return;
                }
            }
        }
        // The others wait for the next round, after acknowledgements had theirs.
        self.ask_again();
    }
}

fn flags_of(with_crc: bool) -> PacketFlags {
    if with_crc {
        PacketFlags::CRC
    } else {
        PacketFlags::NONE
    }
}

fn content_of_nak(desc: &TxDesc) -> Content {
    Nak::fields(desc).map_or_else(|| Content::void(desc), Content::Bare)
}

impl QpInner {
    /// Whether the queue pair is connected by `conn`.
    pub(super) fn belongs_to(&self, conn: &Conn) -> bool {
        self.conn.as_deref().is_some_and(|c| core::ptr::eq(c, conn))
    }

    /// The counter that the queue pair is bound to, if it is connected by `conn`.
    fn counters_on(&self, conn: &Conn) -> Option<&QpCounters> {
        self.counters.as_deref().filter(|_| self.belongs_to(conn))
    }

    /// What the packet of `desc` carries; [`None`] if there is nothing to send in it any more.
    fn content(&self, desc: &TxDesc) -> Option<Content> {
        match desc.opcode {
            Opcode::ReadResponse | Opcode::AtomicResponse => {
                self.recv.response_packet(desc).map(Content::Response)
            }
            Opcode::Nak => Some(content_of_nak(desc)),
            _ => self.send.packet(desc).map(Content::Request),
        }
    }

    /// The next packet of the queue pair, if one may be sent now: refusals, answers, requests.
    pub(super) fn next_packet(&self) -> Option<TxDesc> {
        if let Some(nak) = &self.nak {
            return Some(nak.to_desc());
        }
        self.recv
            .next_response()
            .or_else(|| self.send.next_segment(now()))
    }

    /// Takes the packet that [`Self::next_packet`] showed.
    fn commit(&mut self, desc: &TxDesc) {
        match desc.opcode {
            Opcode::Nak => self.nak = None,
            Opcode::ReadResponse | Opcode::AtomicResponse => {
                self.recv.commit_response(desc);
            }
            _ => {
                self.send.commit(now(), desc);
            }
        }
    }
}

impl Qp {
    /// Sends what it has, as far as paths take it and others are not kept waiting.
    fn turn(self: &Arc<Self>, conn: &Conn) -> Turn {
        // From here on, whoever has something new for it enters it again.
        self.left_queue();
        let mut inner = self.inner.lock();
        if !inner.belongs_to(conn) {
            return Turn::Done;
        }
        let mut turn = Turn::More;
        for _ in 0..BURSTS {
            let more = self.fetch(&mut inner);
            if inner.next_packet().is_none() {
                if !more {
                    turn = Turn::Done;
                }
                break;
            }
            if !self.send_burst(&mut inner, conn) {
                // Acknowledgements will bring it back, no doorbell is needed.
                if inner.state == QpState::ReadyToSend {
                    inner.sq.stay_awake();
                }
                self.introduce(&inner, conn);
                turn = Turn::Blocked;
                break;
            }
        }
        self.complete_sent(&mut inner);
        self.arm(&inner);
        turn
    }

    /// Sends one burst on one path. Returns false if no path takes anything.
    fn send_burst(&self, inner: &mut Locked<'_>, conn: &Conn) -> bool {
        let mut failed = None;
        {
            let mut c = conn.inner.lock();
            let now = now();
            let Some(burst) = c.proto.reserve(now) else {
                return false;
            };
            let mut sender = Sender::new(conn, burst.path);
            let (mut packets, mut bytes) = (0, 0);
            let mut next = inner.next_packet();
            for n in 1..=burst.max_packets {
                let Some(desc) = next else {
                    break;
                };
                // What an earlier life of the queue pair sent may have been credited to a response
                // of this one. It is passed over, or it would be tried for ever.
                let content = inner.content(&desc).unwrap_or_else(|| Content::void(&desc));
                inner.commit(&desc);
                next = inner.next_packet();
                let last = next.is_none() || n == burst.max_packets;
                // There is room, `reserve` said so under the same lock.
                let Some(tx) = c.proto.assign(now, burst.path, desc, last) else {
                    break;
                };
                packets += 1;
                bytes += u64::from(desc.payload_len());
                let built = sender.push(&mut c, Some((self, &**inner)), &content, &desc, tx);
                if let Err(BuildError::Protection) = built {
                    failed = Some(desc);
                    break;
                }
            }
            sender.flush(&mut c);
            if let Some(counters) = &inner.counters {
                counters.sent(c.plane_of(burst.path), packets, bytes);
            }
        }
        if let Some(desc) = failed {
            self.inaccessible(inner, &desc);
        }
        true
    }

    /// The memory that a packet carries is not accessible any more.
    fn inaccessible(&self, inner: &mut Locked<'_>, desc: &TxDesc) {
        match desc.opcode {
            Opcode::ReadResponse => self.response_failed(inner, desc),
            _ => self.request_failed(inner, desc),
        }
    }
}
