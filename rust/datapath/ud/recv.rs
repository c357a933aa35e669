// SPDX-License-Identifier: GPL-2.0

//! Receiving datagrams.

use super::{
    grh::{
        Grh,
        GRH_LEN, //
    },
    Locked,
    Ud, //
};
use crate::{
    datapath::{
        counters::Drop,
        cq::{
            Completion,
            WC_GRH,
            WC_WITH_IMM,
            WC_WITH_NETWORK_HDR_TYPE,
            WC_WITH_VLAN, //
        },
        limits::MAX_DATAGRAM,
        mr::AccessError,
        requester::Source,
        wqe::RecvWr,
    },
    net::skbuff::{
        Meta,
        RxSkb, //
    },
    rdma::{
        event::QpEvent,
        qp::QpState, //
    },
};
use kernel::sync::Arc;
use proto::{
    stream::WcStatus,
    wire::DatagramHeader, //
};

/// `IB_WC_RECV`.
const WC_RECV: u32 = 1 << 7;

/// The key that general services have on every port (`IB_QP1_QKEY`).
const GSI_QKEY: u32 = 0x8001_0000;

/// `GRH_LEN` as lengths of messages are counted.
const GRH: u32 = GRH_LEN as u32;

/// Why a datagram was not placed. The receive that it would have taken stays.
pub(super) enum NotPlaced {
    /// It is dropped.
    Dropped(Drop),
    /// Memory of the receive is being fetched.
    Absent,
}

impl From<Drop> for NotPlaced {
    fn from(why: Drop) -> Self {
        Self::Dropped(why)
    }
}

impl Ud {
    /// Takes a datagram, whose message is the `message.1` bytes at `message.0` of `skb`.
    ///
    /// Errors: why it is dropped, which nobody is told; the receive that it would have taken
    /// stays.
    pub(in crate::datapath) fn on_datagram(
        self: &Arc<Self>,
        header: &DatagramHeader,
        meta: &Meta,
        skb: &RxSkb,
        message: (usize, u32),
    ) -> Result<(), Drop> {
        let mut inner = self.inner.lock();
        let taken = self.take(&mut inner, header, meta, skb, message);
        if let (Err(why), Some(counters)) = (taken, &inner.counters) {
            counters.datagram_dropped(why);
        }
        taken
    }

    /// Counts a packet of `len` bytes for this queue pair, for its device.
    pub(in crate::datapath) fn count_arrival(&self, meta: &Meta, len: usize) {
        let endpoint = &self.endpoint;
        endpoint.counters.arrived(len);
        if let Some(plane) = endpoint.planes.id_of(meta.ifindex) {
            endpoint.counters.received(usize::from(plane));
        }
    }

    /// As [`Self::on_datagram`].
    fn take(
        self: &Arc<Self>,
        inner: &mut Locked<'_>,
        header: &DatagramHeader,
        meta: &Meta,
        skb: &RxSkb,
        message: (usize, u32),
    ) -> Result<(), Drop> {
        let (off, len) = message;
        if !inner.receives() {
            return Err(Drop::UnknownQueuePair);
        }
        let q_key = if self.is_gsi {
            GSI_QKEY
        } else {
            inner.attr.qkey
        };
        if header.q_key != q_key {
            return Err(Drop::QKey);
        }
        if len > MAX_DATAGRAM {
            return Err(Drop::DatagramLength);
        }
        // CAST: At most `MAX_DATAGRAM`.
        let grh = Grh::new(header, meta, len as u16);
        // Those that wait are older.
        if inner.held.is_empty() {
            match self.place(inner, header, &grh, &Source::Packet(skb, off, len)) {
                Ok(()) => return Ok(()),
                Err(NotPlaced::Dropped(why)) => return Err(why),
                Err(NotPlaced::Absent) => {}
            }
        }
        self.hold(inner, header, grh, skb, message)
    }

    /// Places a datagram in the memory of the oldest receive, and completes that.
    pub(super) fn place(
        self: &Arc<Self>,
        inner: &mut Locked<'_>,
        header: &DatagramHeader,
        grh: &Grh,
        message: &Source<'_>,
    ) -> Result<(), NotPlaced> {
        let len = message.len();
        let index = self.next_receive(inner)?;
        let rq = inner.rq.as_ref().ok_or(Drop::NoReceive)?;
        let pd = rq.pd().unwrap_or(self.pd);
        let wr = rq.entry(index).and_then(RecvWr::parse);
        let wr_id = wr.map_or(0, |wr| wr.wr_id);
        let placed = match wr {
            Some(wr) if wr.list.total() < u64::from(GRH + len) => {
                return Err(Drop::DatagramLength.into());
            }
            Some(wr) => {
                let scatter = |offset, source: &Source<'_>| {
                    self.endpoint.scatter(pd, wr.list, offset, source)
                };
                let placed =
                    scatter(0, &Source::Bytes(&grh.bytes)).and_then(|()| scatter(GRH, message));
                if matches!(placed, Err(AccessError::Absent)) {
                    // All of it is needed.
                    let _ = self.endpoint.touch_list(pd, wr.list, GRH + len);
                    return Err(NotPlaced::Absent);
                }
                placed
            }
            None => Err(AccessError::Key),
        };
        let mut completion = Completion {
            wr_id,
            opcode: WC_RECV,
            qp_num: self.key(),
            ..Completion::default()
        };
        match placed {
            Ok(()) => {
                completion.status = WcStatus::Success.to_ib();
                completion.byte_len = GRH + len;
                completion.wc_flags = WC_GRH | WC_WITH_NETWORK_HDR_TYPE;
                if let Some(imm) = header.imm {
                    completion.wc_flags |= WC_WITH_IMM;
                    completion.imm = imm.to_be();
                }
                completion.src_qp = header.src_qpn.0;
                completion.network_hdr_type = grh.network_hdr_type;
                if self.is_gsi {
                    // By that, ib_core finds the GID to answer from.
                    let vlan = self.endpoint.planes.with_vlan_of(&header.dst_gid.0);
                    if let Some((_, vlan)) = vlan {
                        completion.wc_flags |= WC_WITH_VLAN;
                        completion.vlan_id = vlan.id();
                    }
                }
            }
            Err(_) => completion.status = WcStatus::LocalProtection.to_ib(),
        }
        // First the slot, then the completion: who sees that posts the next receive at once.
        if let Some(rq) = &mut inner.rq {
            rq.retire();
        }
        let lost = self.recv_cq.push(&completion, header.solicited).is_err();
        if lost {
            self.fail_with(inner, QpEvent::Fatal);
        } else if placed.is_err() {
            // IBTA 9.9.3: the completion tells why.
            inner.state = QpState::Error;
            self.flush(inner);
        } else {
            self.endpoint.counters.datagram_received();
            if let Some(counters) = &inner.counters {
                counters.datagram_received();
            }
        }
        Ok(())
    }

    /// Returns the index of the oldest receive.
    fn next_receive(self: &Arc<Self>, inner: &mut Locked<'_>) -> Result<u32, Drop> {
        let rq = inner.rq.as_mut().ok_or(Drop::NoReceive)?;
        match rq.oldest() {
            Ok(Some(index)) => Ok(index),
            Ok(None) => Err(Drop::NoReceive),
            // A wild index: nothing in the ring can be believed.
            Err(_) => {
                self.fail_with(inner, QpEvent::Fatal);
                Err(Drop::NoReceive)
            }
        }
    }
}

impl super::UdInner {
    /// Whether datagrams are taken in this state.
    pub(super) fn receives(&self) -> bool {
        !matches!(self.state, QpState::Reset | QpState::Init | QpState::Error)
    }
}
