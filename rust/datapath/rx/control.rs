// SPDX-License-Identifier: GPL-2.0

//! Receiving what is for connections themselves: handshake, acknowledgements, resets.

use super::{
    super::{
        conn::Conn,
        counters::Drop,
        now, //
    },
    check_crc,
    copy_head,
    Receiver,
    Reject,
    Touched, //
};
use crate::net::{
    self,
    skbuff::{
        Meta,
        RxSkb, //
    }, //
};
use kernel::sync::Arc;
use proto::{
    connection::InitOutcome,
    wire::{
        self,
        crc as wire_crc,
        Body,
        Gid,
        InitHeader,
        PacketFlags,
        ResetHeader,
        ResetReason,
        MAX_HEADER_LEN,
        RESET_LEN, //
    },
};

impl Receiver {
    /// Takes a datagram that is not data. Kept apart for the size of its buffer.
    #[inline(never)]
    pub(super) fn control(
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
    pub(super) fn tell_unknown(&self, meta: &Meta, id: u32, sender: u32) {
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
