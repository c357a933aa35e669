// SPDX-License-Identifier: GPL-2.0

//! Receiving: datagrams become bytes in user memory, acknowledgements and completions.
//!
//! Here a datagram is checked, and given to whom it is for: [`data`] to a queue pair by its
//! connection, [`control`] to the connection, [`datagram`] to a queue pair for datagrams.
//! [`credit`] is what acknowledgements lead to.

mod control;
mod credit;
mod data;
mod datagram;

use super::{
    conn::Conn,
    counters::Drop,
    host::Host,
    now, //
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
    path::Arrival,
    wire::{
        self,
        crc as wire_crc,
        Base,
        Body,
        PacketFlags,
        PacketType,
        WireError,
        MAX_DATA_HEADER_LEN, //
    },
};

/// Connections touched by one batch of datagrams whose sending side is run at its end. More are
/// run as they come.
const TOUCHED: usize = 8;

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
