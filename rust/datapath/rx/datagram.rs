// SPDX-License-Identifier: GPL-2.0

//! Receiving messages for datagram queue pairs.

use super::{
    super::counters::Drop,
    check_crc,
    Receiver,
    Reject, //
};
use crate::{
    net::skbuff::{
        Meta,
        RxSkb, //
    },
    rdma,
};
use proto::{
    packet::Qpn,
    wire::{
        self,
        Base,
        Body,
        DatagramHeader,
        PacketFlags, //
    },
};

/// The queue pair number of all who are in a multicast group (IBTA 1.4, 10.5.1).
const MULTICAST_QPN: Qpn = Qpn(0xff_ffff);

impl Receiver {
    /// Takes a message for a datagram queue pair; `head` is the beginning of the packet. Nobody is
    /// told if it is dropped.
    pub(super) fn datagram(
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
}
