// SPDX-License-Identifier: GPL-2.0

//! Receiving data: from the connection to the queue pair, and the verdict back.

use super::{
    super::{
        conn::{
            Conn,
            ConnInner, //
        },
        counters::Drop,
        now,
        qp::Qp,
        qp_counters::{
            RNR_RECEIVED,
            RNR_SENT, //
        },
        requester::Source,
        responder::Outcome,
    },
    arrival,
    Reject, //
};
use crate::net::skbuff::{
    Meta,
    RxSkb, //
};
use kernel::sync::Arc;
use proto::{
    connection::Verdict,
    packet::{
        NakCode,
        Opcode, //
    },
    path::{
        Arrival,
        Rx, //
    },
    stream::Nak,
    wire::{
        Base,
        DataHeader,
        PacketFlags, //
    },
};

impl Conn {
    /// Calls `f` with the connection, unless the packet lacks a CRC that was agreed on. It may
    /// if it is data that were on no link: `local`.
    pub(super) fn with_agreed_crc<R>(
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
    pub(super) fn on_data(
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
        qp: &Arc<Qp>,
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
}

/// What becomes of a packet for a queue pair that is not there, or not this connection's. Requests
/// are answered; an answer to a queue pair that is gone needs none.
fn unknown(data: &DataHeader) -> Verdict {
    match data.fields.opcode {
        Opcode::Nak | Opcode::ReadResponse | Opcode::AtomicResponse => Verdict::Accept,
        _ => Verdict::Refuse(Nak::not_ready(&data.fields).to_desc()),
    }
}
