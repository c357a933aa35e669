// SPDX-License-Identifier: GPL-2.0

//! Receiving: datagrams become bytes in user memory, acknowledgements and completions.

use super::{
    conn::{
        Conn,
        ConnInner, //
    },
    counters::Drop,
    host::Host,
    now,
    qp_counters::{
        RNR_RECEIVED,
        RNR_SENT, //
    },
    requester::Source,
    responder::Outcome, //
};
use crate::{
    net::{
        self,
        skbuff::{
            Meta,
            RxSkb, //
        },
        udp::Receive, //
    },
    rdma,
};
use kernel::sync::Arc;
use proto::{
    connection::{
        InitOutcome,
        Verdict, //
    },
    packet::{
        NakCode,
        Opcode,
        Qpn, //
    },
    path::{
        Acked,
        Arrival,
        Rx, //
    },
    stream::Nak,
    wire::{
        self,
        crc as wire_crc,
        Base,
        Body,
        DataHeader,
        DatagramHeader,
        Gid,
        InitHeader,
        PacketFlags,
        PacketType,
        ResetHeader,
        ResetReason,
        WireError,
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

/// The queue pair number of all who are in a multicast group (IBTA 1.4, 10.5.1).
const MULTICAST_QPN: Qpn = Qpn(0xff_ffff);

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
    pub(crate) fn new(host: Arc<Host>) -> Self {
        Self { host }
    }

    /// Takes one datagram: the `at.1` bytes at `at.0` of `skb`. Context as for
    /// [`Receive::receive`].
    pub(crate) fn take(&self, skb: &RxSkb, meta: &Meta, at: (usize, usize), touched: &mut Touched) {
        match self.segment(skb, meta, at, touched) {
            Ok(()) => {}
            Err(Reject::Wire(e)) => self.host.drops.count_wire(e),
            Err(Reject::Drop(why)) => self.host.drops.count(why),
        }
    }

    fn segment(
        &self,
        skb: &RxSkb,
        meta: &Meta,
        (off, len): (usize, usize),
        touched: &mut Touched,
    ) -> Result<(), Reject> {
        // Data packets are by far the most, and their headers are short.
        let mut buf = [0u8; MAX_DATA_HEADER_LEN];
        let head = copy_head(skb, off, len, &mut buf)?;
        let base = Base::parse(head)?;
        if base.dst_conn != 0 && self.is_foreign(skb, (off, len), base.dst_conn) {
            return Ok(());
        }
        match base.packet_type {
            PacketType::Data | PacketType::Probe => {}
            PacketType::Datagram => return self.datagram(skb, meta, (off, len), head, &base),
            _ => return self.control(skb, meta, (off, len), touched),
        }
        let (header, header_len) = wire::parse(head)?;
        let payload = len.saturating_sub(header_len);
        header.check_payload(payload)?;
        let known = self.host.conns.lookup(base.dst_conn);
        // What a connection here has sent to another one here was on no link that could have
        // damaged it. Whoever is not known is held to the letter.
        if known.is_none() || !meta.is_local {
            check_crc(skb, (off, len), head, header_len, &base)?;
        }
        let conn = match known {
            Some(conn) => conn,
            None => {
                if let Body::Probe(probe) = header.body {
                    self.tell_unknown(meta, base.dst_conn, probe.src_conn);
                }
                return Err(Reject::Drop(Drop::UnknownConnection));
            }
        };
        conn.endpoint.counters.arrived(len);
        let agreed = match header.body {
            Body::Data(data) => {
                // CAST: a datagram is shorter than 64 KiB.
                let source = (off + header_len, payload as u32);
                conn.on_data(skb, meta, &base, &data, source)
            }
            Body::Probe(probe) => conn.with_agreed_crc(&base, false, |inner| {
                inner.proto.on_probe(now(), &probe, arrival(meta));
            }),
            _ => Ok(()),
        };
        touched.add(conn);
        agreed
    }

    /// Hands a packet over to the device that has its connection, if there is one.
    fn is_foreign(&self, skb: &RxSkb, at: (usize, usize), id: u32) -> bool {
        let taken = self.host.foreign.with(id, |foreign| foreign.take(skb, at));
        taken.is_some()
    }

    /// Takes a message for a datagram queue pair; `head` is the beginning of the packet. Nobody is
    /// told if it is dropped.
    fn datagram(
        &self,
        skb: &RxSkb,
        meta: &Meta,
        (off, len): (usize, usize),
        head: &[u8],
        base: &Base,
    ) -> Result<(), Reject> {
        let (header, header_len) = wire::parse(head)?;
        if !base.flags.has(PacketFlags::CRC) {
            return Err(Reject::Drop(Drop::Crc));
        }
        // As for data: what never left this host was on no link.
        if !meta.is_local {
            check_crc(skb, (off, len), head, header_len, base)?;
        }
        let Body::Datagram(datagram) = header.body else {
            return Ok(());
        };
        // CAST: a packet is shorter than 64 KiB.
        let message = (off + header_len, len.saturating_sub(header_len) as u32);
        if rdma::gid::Gid(datagram.dst_gid.0).is_multicast() {
            return self.multicast((skb, len), meta, &datagram, message);
        }
        let qp = self
            .host
            .addressee(datagram.dst_qpn, &datagram.dst_gid)
            .filter(|_| datagram.src_gid.is_v4() == datagram.dst_gid.is_v4())
            .ok_or(Reject::Drop(Drop::UnknownQueuePair))?;
        qp.count_arrival(meta, len);
        qp.on_datagram(&datagram, meta, skb, message)
            .map_err(Reject::Drop)
    }

    /// Takes a message for a multicast group, in a packet of `len` bytes. Each queue pair that is in it
    /// takes, counts or drops it for itself.
    fn multicast(
        &self,
        (skb, len): (&RxSkb, usize),
        meta: &Meta,
        datagram: &DatagramHeader,
        message: (usize, u32),
    ) -> Result<(), Reject> {
        let fits = datagram.dst_qpn == MULTICAST_QPN
            && datagram.src_gid.is_v4() == datagram.dst_gid.is_v4()
            && datagram.dst_gid.0 == meta.dst;
        if !fits {
            return Err(Reject::Drop(Drop::UnknownQueuePair));
        }
        self.host
            .for_each_member(&datagram.dst_gid, meta.ifindex, |qp| {
                qp.count_arrival(meta, len);
                if let Err(why) = qp.on_datagram(datagram, meta, skb, message) {
                    self.host.drops.count(why);
                }
            });
        Ok(())
    }

    /// Takes a datagram that is not data. Kept apart for the size of its buffer.
    #[inline(never)]
    fn control(
        &self,
        skb: &RxSkb,
        meta: &Meta,
        (off, len): (usize, usize),
        touched: &mut Touched,
    ) -> Result<(), Reject> {
        let mut buf = [0u8; MAX_HEADER_LEN];
        let head = copy_head(skb, off, len, &mut buf)?;
        let (header, header_len) = wire::parse(head)?;
        header.check_payload(len.saturating_sub(header_len))?;
        let base = &header.base;
        check_crc(skb, (off, len), head, header_len, base)?;
        match header.body {
            // Who has no connection yet has not agreed to do without the CRC.
            Body::Init(_) | Body::InitAck(_) | Body::Reset(_)
                if !base.flags.has(PacketFlags::CRC) =>
            {
                Err(Reject::Drop(Drop::Crc))
            }
            // They come from the socket itself, whose port no other user of a peer's can have.
            Body::Init(_) | Body::InitAck(_) | Body::Reset(_) if meta.sport != self.host.port() => {
                Err(Reject::Drop(Drop::UnknownConnection))
            }
            Body::Init(init)
                if base.dst_conn == 0 && self.is_for_device(skb, (off, len), &init) =>
            {
                Ok(())
            }
            Body::Init(init) => self.init((meta, len), base.dst_conn, &init, touched),
            Body::Reset(reset) => self.reset((meta, len), base.dst_conn, &reset, touched),
            Body::InitAck(init) => {
                let conn = self.conn_or_tell((meta, len), base.dst_conn, init.src_conn)?;
                conn.inner.lock().proto.on_init_ack(now(), &init);
                touched.add(conn);
                Ok(())
            }
            Body::Ack(ack) => {
                let conn = self.conn(base.dst_conn, len)?;
                let agreed = conn.with_agreed_crc(base, false, |inner| {
                    inner.proto.on_ack(now(), &ack);
                });
                conn.credit_acked();
                touched.add(conn);
                agreed
            }
            Body::Data(_) | Body::Probe(_) | Body::Datagram(_) => Ok(()),
        }
    }

    /// Hands an INIT over to the device that has the queue pair which it names, if there is one.
    fn is_for_device(&self, skb: &RxSkb, at: (usize, usize), init: &InitHeader) -> bool {
        let qp = self.host.qps.lookup(init.dst_qpn.0);
        let foreign = qp.and_then(|qp| qp.foreign_for(init));
        foreign.is_some_and(|foreign| {
            foreign.take(skb, at);
            true
        })
    }

    /// Finds the connection that a packet of `len` bytes is for, whose device counts it.
    fn conn(&self, id: u32, len: usize) -> Result<Arc<Conn>, Reject> {
        let conn = self.host.conns.lookup(id);
        let conn = conn.ok_or(Reject::Drop(Drop::UnknownConnection))?;
        conn.endpoint.counters.arrived(len);
        Ok(conn)
    }

    /// Finds the connection that a packet is for; if there is none, its sender, who names it
    /// `sender`, is told so.
    fn conn_or_tell(
        &self,
        (meta, len): (&Meta, usize),
        id: u32,
        sender: u32,
    ) -> Result<Arc<Conn>, Reject> {
        self.conn(id, len)
            .inspect_err(|_| self.tell_unknown(meta, id, sender))
    }

    /// A peer asks for a connection, and gets one only if it names a queue pair here that is
    /// connected to the one it names there, and knows what this one expects: a stranger creates no
    /// state. Or it tells of its planes on a connection that there is.
    fn init(
        &self,
        (meta, len): (&Meta, usize),
        id: u32,
        init: &InitHeader,
        touched: &mut Touched,
    ) -> Result<(), Reject> {
        if id != 0 {
            let conn = self.conn_or_tell((meta, len), id, init.src_conn)?;
            let _ = conn.inner.lock().proto.on_init(now(), init);
            touched.add(conn);
            return Ok(());
        }
        let unknown = Reject::Drop(Drop::UnknownQueuePair);
        let qp = self.host.qps.lookup(init.dst_qpn.0).ok_or(unknown)?;
        let conn = qp
            .conn_for(init)
            .filter(|conn| conn.key().local == init.dst_gid)
            .ok_or(unknown)?;
        conn.endpoint.counters.arrived(len);
        let outcome = conn.inner.lock().proto.on_init(now(), init);
        if outcome == InitOutcome::Apart {
            qp.depart();
        }
        touched.add(conn);
        Ok(())
    }

    /// A peer does not know a connection, or closes it. It must name its own id for it, which only
    /// the two ends know, and send from an address of its own.
    fn reset(
        &self,
        (meta, len): (&Meta, usize),
        id: u32,
        reset: &ResetHeader,
        touched: &mut Touched,
    ) -> Result<(), Reject> {
        let conn = self.conn(id, len)?;
        if conn.inner.lock().proto.on_reset(reset, Gid(meta.src)) {
            touched.add(conn);
        }
        Ok(())
    }

    /// Tells the sender of a packet that nobody here has connection `id`, by the `sender`'s own id
    /// of it.
    fn tell_unknown(&self, meta: &Meta, id: u32, sender: u32) {
        let reset = ResetHeader {
            conn: id,
            reason: ResetReason::UnknownId,
        };
        let mut buf = [0u8; RESET_LEN];
        if reset.emit(sender, PacketFlags::CRC, &mut buf).is_none() {
            return;
        }
        let sum = net::crc::crc32c(wire_crc::CRC_SEED, &buf);
        let _ = wire_crc::set_crc(&mut buf, wire_crc::finish(sum));
        self.host.answer(meta, &buf);
    }
}

/// Why a datagram is dropped.
#[derive(Clone, Copy)]
enum Reject {
    Wire(WireError),
    Drop(Drop),
}

impl From<WireError> for Reject {
    fn from(e: WireError) -> Self {
        Reject::Wire(e)
    }
}

/// Copies the first bytes of a datagram, as many as there are and `buf` holds.
fn copy_head<'a>(
    skb: &RxSkb,
    off: usize,
    len: usize,
    buf: &'a mut [u8],
) -> Result<&'a [u8], Reject> {
    let n = len.min(buf.len());
    let head = buf.get_mut(..n).ok_or(WireError::TooShort)?;
    skb.copy(off, head).map_err(|_| WireError::TooShort)?;
    Ok(head)
}

fn arrival(meta: &Meta) -> Arrival {
    Arrival {
        ce: meta.is_ce(),
        local: meta.is_local,
    }
}

/// Checks the CRC of a datagram that has one; its first bytes are `head`.
fn check_crc(
    skb: &RxSkb,
    (off, len): (usize, usize),
    head: &[u8],
    header_len: usize,
    base: &Base,
) -> Result<(), Reject> {
    if !base.flags.has(PacketFlags::CRC) {
        return Ok(());
    }
    let bad = Reject::Drop(Drop::Crc);
    let header = head.get(..header_len).ok_or(bad)?;
    let mut sum = wire_crc::CRC_SEED;
    for part in wire_crc::covered(header).ok_or(bad)? {
        sum = net::crc::crc32c(sum, part);
    }
    let rest = len.saturating_sub(header_len);
    if rest > 0 {
        sum = skb.crc32c(off + header_len, rest, sum).map_err(|_| bad)?;
    }
    if wire_crc::finish(sum) == base.crc {
        Ok(())
    } else {
        Err(bad)
    }
}

impl Receive for Receiver {
    type Batch = Touched;

    /// Softirq context; datagrams of one path come in order, and one at a time.
    fn receive(&self, skb: RxSkb, batch: &mut Touched) {
        if skb.is_empty() {
            // Has no segment.
            self.host.drops.count_wire(WireError::TooShort);
        }
        let meta = skb.meta();
        for segment in skb.segments() {
            self.take(&skb, &meta, segment, batch);
        }
    }

    fn batch_end(&self, batch: Touched) {
        for conn in batch.0.into_iter().flatten() {
            conn.run();
        }
    }
}

impl Conn {
    /// Calls `f` with the connection, unless the packet lacks a CRC that was agreed on. It may
    /// if it is data that were on no link: `local`.
    fn with_agreed_crc<R>(
        &self,
        base: &Base,
        local: bool,
        f: impl FnOnce(&mut ConnInner) -> R,
    ) -> Result<R, Reject> {
        let mut inner = self.inner.lock();
        if inner.paused {
            return Err(Reject::Drop(Drop::UnknownConnection));
        }
        if !local && inner.proto.crc() && !base.flags.has(PacketFlags::CRC) {
            return Err(Reject::Drop(Drop::Crc));
        }
        Ok(f(&mut inner))
    }

    /// Takes a data packet, whose payload is `source.1` bytes at `source.0` of `skb`.
    fn on_data(
        &self,
        skb: &RxSkb,
        meta: &Meta,
        base: &Base,
        data: &DataHeader,
        source: (usize, u32),
    ) -> Result<(), Reject> {
        let arrival = arrival(meta);
        let (rx, plane) = self.with_agreed_crc(base, arrival.local, |inner| {
            let now = now();
            let plane = inner.meter(&self.endpoint.shares, now, meta.ifindex, source.1);
            (inner.proto.rx_check(now, data, base.flags, arrival), plane)
        })?;
        if let Some(plane) = plane {
            self.endpoint.counters.received(plane);
        }
        if rx != Rx::New {
            return Ok(());
        }
        let fields = &data.fields;
        let verdict = match fields.opcode {
            Opcode::Void => Verdict::Accept,
            _ => match self.endpoint.host().qps.lookup(fields.dst_qpn.0) {
                Some(qp) => match self.to_qp(&qp, data, (arrival, plane), skb, source) {
                    Some(verdict) => verdict,
                    None => {
                        let proto = &mut self.inner.lock().proto;
                        proto.rx_abort(data.path, data.psn);
                        return Ok(());
                    }
                },
                None => unknown(data),
            },
        };
        self.inner
            .lock()
            .proto
            .rx_done(data.path, data.psn, verdict);
        Ok(())
    }

    /// Hands a data packet to its queue pair; [`None`] if it cannot be taken now, and is to come
    /// again.
    fn to_qp(
        &self,
        qp: &Arc<super::qp::Qp>,
        data: &DataHeader,
        (arrival, plane): (Arrival, Option<usize>),
        skb: &RxSkb,
        (off, len): (usize, u32),
    ) -> Option<Verdict> {
        let fields = &data.fields;
        let mut inner = qp.inner.lock();
        if !inner.belongs_to(self) {
            return Some(unknown(data));
        }
        if let Some(counters) = &inner.counters {
            counters.received(plane, arrival);
        }
        let verdict = match fields.opcode {
            Opcode::Nak => {
                if fields.code == NakCode::Rnr {
                    self.endpoint.count_rnr(RNR_RECEIVED);
                    if let Some(counters) = &inner.counters {
                        counters.not_ready();
                    }
                }
                inner.send.on_nak(now(), fields);
                qp.complete_sent(&mut inner);
                Some(Verdict::Accept)
            }
            Opcode::ReadResponse | Opcode::AtomicResponse => {
                let taken = qp.on_response(&mut inner, fields, skb, off, len);
                if let Some(counters) = inner.counters.as_ref().filter(|_| !taken) {
                    counters.aborted();
                }
                taken.then_some(Verdict::Accept)
            }
            _ => {
                let source = Source::Packet(skb, off, len);
                let outcome = qp.on_request(&mut inner, fields, &source);
                if let Some(counters) = &inner.counters {
                    counters.treated(&outcome);
                }
                match outcome {
                    Outcome::Refuse(nak) => {
                        if nak.code == NakCode::Rnr {
                            self.endpoint.count_rnr(RNR_SENT);
                        }
                        Some(Verdict::Refuse(nak.to_desc()))
                    }
                    Outcome::Accept => Some(Verdict::Accept),
                    Outcome::Later => None,
                }
            }
        };
        qp.arm(&inner);
        // There may be answers to send, or requests that waited for an answer.
        qp.want_if_ready(&mut inner, self);
        verdict
    }

    /// Credits the queue pairs whose packets the peer has acknowledged.
    fn credit_acked(&self) {
        loop {
            let mut credits = [Acked::default(); CREDITS];
            let mut n = 0;
            {
                let mut inner = self.inner.lock();
                if inner.paused {
                    return;
                }
                for slot in &mut credits {
                    let Some(acked) = inner.proto.pop_acked() else {
                        break;
                    };
                    *slot = acked;
                    n += 1;
                }
            }
            self.credit(credits.get(..n).unwrap_or(&[]));
            if n < CREDITS {
                return;
            }
        }
    }

    fn credit(&self, mut packets: &[Acked]) {
        while let Some(Acked { desc: first, .. }) = packets.first() {
            let same = packets.iter().take_while(|p| p.desc.qpn == first.qpn);
            let same = same.count().min(packets.len());
            let (mine, rest) = packets.split_at(same);
            packets = rest;
            let Some(qp) = self.lookup(first.qpn) else {
                continue;
            };
            let mut inner = qp.inner.lock();
            if !inner.belongs_to(self) {
                continue;
            }
            let mut spurious = 0;
            for Acked {
                desc,
                spurious: needless,
            } in mine
            {
                spurious += u64::from(*needless);
                match desc.opcode {
                    Opcode::Void | Opcode::Nak => {}
                    Opcode::ReadResponse | Opcode::AtomicResponse => {
                        inner.recv.on_response_acked(desc);
                    }
                    _ => inner.send.on_acked(now(), desc),
                }
            }
            if let Some(counters) = inner.counters.as_ref().filter(|_| spurious > 0) {
                counters.spurious(spurious);
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
