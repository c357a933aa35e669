// SPDX-License-Identifier: GPL-2.0

//! Receiving: datagrams become bytes in user memory, acknowledgements and completions.

use super::{
    conn::Conn,
    counters::Drop,
    host::Host,
    now,
    requester::Source, //
};
use crate::net::{
    self,
    skbuff::{
        Meta,
        RxSkb, //
    },
    udp::Receive, //
};
use kernel::sync::Arc;
use proto::{
    connection::Verdict,
    packet::{
        Opcode,
        Qpn,
        TxDesc, //
    },
    path::Rx,
    stream::Nak,
    wire::{
        self,
        crc as wire_crc,
        Base,
        Body,
        DataHeader,
        InitHeader,
        PacketFlags,
        PacketType,
        ResetHeader,
        ResetReason,
        CRC_OFFSET,
        MAX_DATA_HEADER_LEN,
        MAX_HEADER_LEN,
        RESET_LEN, //
    },
};

/// Connections touched by one batch of datagrams whose sending side is run at its end. More are
/// run as they come.
const TOUCHED: usize = 8;

/// Acknowledged packets credited under one hold of a connection's lock.
const CREDITS: usize = 16;

/// Takes the datagrams of a host's sockets.
pub(crate) struct Receiver {
    host: Arc<Host>,
}

/// Connections that have something to send as of a batch of datagrams.
#[derive(Default)]
pub(crate) struct Touched([Option<Arc<Conn>>; TOUCHED]);

impl Touched {
    fn add(&mut self, conn: Arc<Conn>) {
        for slot in &mut self.0 {
            match slot {
                Some(c) if Arc::ptr_eq(c, &conn) => return,
                Some(_) => {}
                None => {
                    *slot = Some(conn);
                    return;
                }
            }
        }
        conn.run();
    }
}

impl Receiver {
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { host }
    }

    /// Takes one datagram.
    fn segment(&self, skb: &RxSkb, meta: &Meta, (off, len): (usize, usize), touched: &mut Touched) {
        let mut buf = [0u8; MAX_HEADER_LEN];
        // Data packets are by far the most, and their headers are short.
        let first = len.min(MAX_DATA_HEADER_LEN);
        let drops = &self.host.drops;
        let Some(head) = buf.get_mut(..first) else {
            return;
        };
        if skb.copy(off, head).is_err() {
            return drops.count_wire(wire::WireError::TooShort);
        }
        let base = match Base::parse(head) {
            Ok(base) => base,
            Err(e) => return drops.count_wire(e),
        };
        let have = match base.packet_type {
            PacketType::Data | PacketType::Probe => first,
            _ => {
                let all = len.min(MAX_HEADER_LEN);
                let Some(whole) = buf.get_mut(..all) else {
                    return;
                };
                if skb.copy(off, whole).is_err() {
                    return drops.count_wire(wire::WireError::TooShort);
                }
                all
            }
        };
        let Some(bytes) = buf.get(..have) else {
            return;
        };
        let (header, header_len) = match wire::parse(bytes) {
            Ok(parsed) => parsed,
            Err(e) => return drops.count_wire(e),
        };
        let payload = len - header_len.min(len);
        if let Err(e) = header.check_payload(payload) {
            return drops.count_wire(e);
        }
        let with_crc = base.flags.has(PacketFlags::CRC);
        if with_crc && !crc_matches(skb, (off, len), bytes, header_len, base.crc) {
            return drops.count(Drop::Crc);
        }
        match header.body {
            // Who has no connection yet has not agreed to do without the CRC.
            Body::Init(_) | Body::Reset(_) if !with_crc => drops.count(Drop::Crc),
            Body::Init(init) => self.init(&init, touched),
            Body::Reset(reset) => self.reset(&base, &reset, touched),
            body => {
                let Some(conn) = self.host.conns.lookup(base.dst_conn) else {
                    drops.count(Drop::UnknownConnection);
                    return self.reject(meta, base.dst_conn);
                };
                if !with_crc && conn.wants_crc() {
                    return drops.count(Drop::Crc);
                }
                match body {
                    Body::Data(data) => {
                        // CAST: a datagram is shorter than 64 KiB.
                        let source = (off + header_len, payload as u32);
                        conn.on_data(skb, meta, &base, &data, source);
                    }
                    Body::Ack(ack) => conn.on_ack(&ack),
                    Body::Probe(probe) => conn.inner.lock().proto.on_probe(now(), &probe),
                    Body::InitAck(init) => conn.inner.lock().proto.on_init_ack(now(), &init),
                    Body::Init(_) | Body::Reset(_) => {}
                }
                touched.add(conn);
            }
        }
    }

    /// A peer asks for a connection. It gets one only if it names a queue pair here that is
    /// connected to the one it names there: a stranger creates no state.
    fn init(&self, init: &InitHeader, touched: &mut Touched) {
        let conn = self
            .host
            .qps
            .lookup(init.dst_qpn.0)
            .and_then(|qp| qp.conn_for(init.src_qpn, &init.src_gid.0))
            .filter(|conn| conn.key().local == init.dst_gid);
        let Some(conn) = conn else {
            return self.host.drops.count(Drop::UnknownQueuePair);
        };
        let _ = conn.inner.lock().proto.on_init(now(), init);
        touched.add(conn);
    }

    /// A peer does not know a connection, or closes it. It must name its own id for it, which only
    /// the two ends know.
    fn reset(&self, base: &Base, reset: &ResetHeader, touched: &mut Touched) {
        if base.dst_conn != 0 {
            match self.host.conns.lookup(base.dst_conn) {
                Some(conn) => {
                    if conn.inner.lock().proto.on_reset(reset) {
                        touched.add(conn);
                    }
                }
                None => self.host.drops.count(Drop::UnknownConnection),
            }
            return;
        }
        self.host.conns.for_each(|_, conn| {
            let concerned = conn.inner.lock().proto.on_reset(reset);
            if concerned {
                touched.add(conn);
            }
        });
    }

    /// Tells the sender of a packet that nobody here has that connection.
    fn reject(&self, meta: &Meta, id: u32) {
        let reset = ResetHeader {
            conn: id,
            reason: ResetReason::UnknownId,
        };
        let mut buf = [0u8; RESET_LEN];
        if reset.emit(0, PacketFlags::CRC, &mut buf).is_none() {
            return;
        }
        let sum = net::crc::crc32c(wire_crc::CRC_SEED, &buf);
        let _ = wire_crc::set_crc(&mut buf, wire_crc::finish(sum));
        self.host.answer(meta, &buf);
    }
}

/// Whether the CRC of a datagram, whose first bytes are `head`, is `expected`.
fn crc_matches(
    skb: &RxSkb,
    (off, len): (usize, usize),
    head: &[u8],
    header_len: usize,
    expected: u32,
) -> bool {
    let Some(header) = head.get(..header_len) else {
        return false;
    };
    let Some(parts) = wire_crc::covered(header) else {
        return false;
    };
    let mut sum = wire_crc::CRC_SEED;
    for part in parts {
        sum = net::crc::crc32c(sum, part);
    }
    let rest = len - header_len.min(len);
    if rest > 0 {
        match skb.crc32c(off + header_len, rest, sum) {
            Ok(all) => sum = all,
            Err(_) => return false,
        }
    }
    const { assert!(CRC_OFFSET == 8) };
    wire_crc::finish(sum) == expected
}

impl Receive for Receiver {
    type Batch = Touched;

    /// Softirq context; datagrams of one path come in order, and one at a time.
    fn receive(&self, skb: RxSkb, batch: &mut Touched) {
        let meta = skb.meta();
        for segment in skb.segments() {
            self.segment(&skb, &meta, segment, batch);
        }
    }

    fn batch_end(&self, batch: Touched) {
        for conn in batch.0.into_iter().flatten() {
            conn.run();
        }
    }
}

impl Conn {
    fn wants_crc(&self) -> bool {
        let inner = self.inner.lock();
        inner.proto.established() && inner.proto.crc()
    }

    /// Takes a data packet, whose payload is `source.1` bytes at `source.0` of `skb`.
    fn on_data(
        &self,
        skb: &RxSkb,
        meta: &Meta,
        base: &Base,
        data: &DataHeader,
        source: (usize, u32),
    ) {
        let rx = self
            .inner
            .lock()
            .proto
            .rx_check(now(), data, base.flags, meta.is_ce());
        if let Some(plane) = self.endpoint.planes.index_of(meta.ifindex) {
            self.endpoint.counters.received(plane);
        }
        if rx != Rx::New {
            return;
        }
        let fields = &data.fields;
        let verdict = match fields.opcode {
            Opcode::Void => Verdict::Accept,
            _ => match self.endpoint.host().qps.lookup(fields.dst_qpn.0) {
                Some(qp) => self.to_qp(&qp, data, skb, source),
                None => unknown(data),
            },
        };
        self.inner
            .lock()
            .proto
            .rx_done(data.path, data.psn, verdict);
    }

    /// Hands a data packet to its queue pair.
    fn to_qp(
        &self,
        qp: &Arc<super::qp::Qp>,
        data: &DataHeader,
        skb: &RxSkb,
        (off, len): (usize, u32),
    ) -> Verdict {
        let fields = &data.fields;
        let mut inner = qp.inner.lock();
        if !inner.belongs_to(self) {
            return unknown(data);
        }
        let verdict = match fields.opcode {
            Opcode::Nak => {
                inner.send.on_nak(now(), fields);
                qp.complete_sent(&mut inner);
                Verdict::Accept
            }
            Opcode::ReadResponse | Opcode::AtomicResponse => {
                qp.on_response(&mut inner, fields, skb, off, len);
                Verdict::Accept
            }
            _ => {
                let source = Source::Packet(skb, off, len);
                match qp.on_request(&mut inner, fields, &source) {
                    Some(nak) => Verdict::Refuse(nak.to_desc()),
                    None => Verdict::Accept,
                }
            }
        };
        qp.arm(&inner);
        // There may be answers to send, or requests that waited for an answer.
        qp.want_if_ready(&mut inner, self);
        verdict
    }

    /// Takes an acknowledgement, and credits the queue pairs whose packets it tells of.
    fn on_ack(&self, ack: &wire::AckHeader<'_>) {
        self.inner.lock().proto.on_ack(now(), ack);
        loop {
            let mut credits = [TxDesc::default(); CREDITS];
            let mut n = 0;
            {
                let mut inner = self.inner.lock();
                for slot in &mut credits {
                    let Some(desc) = inner.proto.pop_acked() else {
                        break;
                    };
                    *slot = desc;
                    n += 1;
                }
            }
            self.credit(credits.get(..n).unwrap_or(&[]));
            if n < CREDITS {
                return;
            }
        }
    }

    fn credit(&self, mut descs: &[TxDesc]) {
        while let Some(first) = descs.first() {
            let same = descs.iter().take_while(|d| d.qpn == first.qpn).count();
            let (mine, rest) = descs.split_at(same.min(descs.len()));
            descs = rest;
            let Some(qp) = self.lookup(first.qpn) else {
                continue;
            };
            let mut inner = qp.inner.lock();
            if !inner.belongs_to(self) {
                continue;
            }
            for desc in mine {
                match desc.opcode {
                    Opcode::Void | Opcode::Nak => {}
                    Opcode::ReadResponse | Opcode::AtomicResponse => {
                        inner.recv.on_response_acked(desc);
                    }
                    _ => inner.send.on_acked(now(), desc),
                }
            }
            qp.complete_sent(&mut inner);
            // A response that is acknowledged makes room for the next.
            qp.deliver(&mut inner);
            qp.arm(&inner);
            qp.want_if_ready(&mut inner, self);
        }
    }

    fn lookup(&self, qpn: Qpn) -> Option<Arc<super::qp::Qp>> {
        self.endpoint.host().qps.lookup(qpn.0)
    }
}

/// What becomes of a packet for a queue pair that is not there, or not this connection's. Requests
/// are answered; an answer to a queue pair that is gone needs none.
fn unknown(data: &DataHeader) -> Verdict {
    match data.fields.opcode {
        Opcode::Nak | Opcode::ReadResponse | Opcode::AtomicResponse => Verdict::Accept,
        _ => Verdict::Refuse(Nak::not_ready(&data.fields).to_desc()),
    }
}
