// SPDX-License-Identifier: GPL-2.0

//! The queues of a queue pair: their sizes, and how work comes into them.

use crate::{
    datapath::{
        ah::Destination,
        limits,
        post::Poster, //
    },
    provider::Device,
    rdma::{
        mmap::{
            MmapEntry,
            SharedMem, //
        },
        qp::QpCap,
        udata::UserData, //
    },
};
use bindings::{
    metaroce_create_qp_req,
    metaroce_create_qp_resp, //
};
use kernel::prelude::*;
use ring::Geometry;

// CAST: Small numbers.
const SEND_WQE: u32 = size_of::<bindings::metaroce_send_wqe>() as u32;
const RECV_WQE: u32 = size_of::<bindings::metaroce_recv_wqe>() as u32;
const SGE: u32 = size_of::<bindings::metaroce_sge>() as u32;

const _: () = {
    assert!(SEND_WQE == bindings::METAROCE_SEND_WQE_SIZE);
    assert!(RECV_WQE == bindings::METAROCE_RECV_WQE_SIZE);
    assert!(limits::MAX_QP_WR.is_power_of_two());
};

/// Send work requests begin on cache lines.
const SEND_ALIGN: u32 = 64;

/// How work comes into the queues; the receive queue may be missing.
pub(super) enum Queues {
    /// A process has mapped the rings.
    User {
        _sq: MmapEntry,
        _rq: Option<MmapEntry>,
    },
    /// A user in the kernel posts by calls.
    Kernel {
        sq: Pin<KBox<Poster>>,
        rq: Option<Pin<KBox<Poster>>>,
    },
}

/// The memory of a queue.
pub(in crate::provider) struct Ring {
    pub(in crate::provider) mem: SharedMem,
    pub(in crate::provider) geometry: Geometry,
}

impl Ring {
    pub(in crate::provider) fn new(entries: u32, stride: u32) -> Result<Self> {
        let geometry = Geometry::new(entries, stride).ok_or(EINVAL)?;
        let mem = SharedMem::new(geometry.size())?;
        Ok(Self { mem, geometry })
    }
}

/// Bytes of a slot for a receive of so many elements.
pub(in crate::provider) fn recv_stride(max_sge: u32) -> u32 {
    RECV_WQE + max_sge * SGE
}

/// Sizes that a queue pair gets for the sizes that were asked for.
///
/// Send work requests that end with where they go are longer by that.
pub(super) fn sizes(asked: &QpCap, with_destination: bool) -> Result<(QpCap, u32, u32)> {
    if asked.max_send_wr > limits::MAX_QP_WR
        || asked.max_recv_wr > limits::MAX_QP_WR
        || asked.max_send_sge > limits::MAX_SGE
        || asked.max_recv_sge > limits::MAX_SGE
        || asked.max_inline_data > limits::MAX_INLINE
    {
        return Err(EINVAL);
    }
    // A list of none is no work request.
    let send_sge = asked.max_send_sge.max(1);
    let recv_sge = asked.max_recv_sge.max(1);
    let payload = (send_sge * SGE).max(asked.max_inline_data);
    // CAST: A small constant.
    let destination = if with_destination {
        Destination::SIZE as u32
    } else {
        0
    };
    let send_stride = (SEND_WQE + payload + destination).next_multiple_of(SEND_ALIGN);
    let recv_stride = recv_stride(recv_sge);
    let cap = QpCap {
        max_send_wr: asked.max_send_wr.max(1).next_power_of_two(),
        // None at all is fine for receives.
        max_recv_wr: match asked.max_recv_wr {
            0 => 0,
            n => n.next_power_of_two(),
        },
        max_send_sge: send_sge,
        max_recv_sge: if asked.max_recv_wr == 0 { 0 } else { recv_sge },
        // As much as the slots hold, which programs count on that ask for none.
        max_inline_data: (send_stride - SEND_WQE - destination).min(limits::MAX_INLINE),
    };
    Ok((cap, send_stride, recv_stride))
}

/// Makes the rings mappable by the process that asks for the queue pair, and tells it where.
pub(super) fn share(
    mut udata: UserData<'_, Device>,
    sq: &Ring,
    rq: Option<&Ring>,
) -> Result<Queues> {
    let req: metaroce_create_qp_req = udata.request(0)?;
    if req.reserved != [0; 2] {
        return Err(EOPNOTSUPP);
    }
    let context = udata.context()?;
    let sq_map = MmapEntry::new(context, sq.mem.clone())?;
    let rq_map = match rq {
        Some(rq) => Some(MmapEntry::new(context, rq.mem.clone())?),
        None => None,
    };
    udata.respond(&metaroce_create_qp_resp {
        sq_mmap_offset: sq_map.offset(),
        sq_mmap_size: sq_map.size(),
        rq_mmap_offset: rq_map.as_ref().map_or(0, |map| map.offset()),
        rq_mmap_size: rq_map.as_ref().map_or(0, |map| map.size()),
        sq_entries: sq.geometry.entries(),
        sq_stride: sq.geometry.stride(),
        rq_entries: rq.map_or(0, |rq| rq.geometry.entries()),
        rq_stride: rq.map_or(0, |rq| rq.geometry.stride()),
        reserved: [0; 2],
    })?;
    Ok(Queues::User {
        _sq: sq_map,
        _rq: rq_map,
    })
}

/// Makes the posting sides for a user in the kernel.
pub(super) fn keep(cap: &QpCap, sq: &Ring, rq: Option<&Ring>) -> Result<Queues> {
    let poster = |ring: &Ring, max_sge, max_inline| {
        Poster::new(ring.mem.clone(), ring.geometry, max_sge, max_inline)
    };
    Ok(Queues::Kernel {
        sq: poster(sq, cap.max_send_sge, cap.max_inline_data)?,
        rq: match rq {
            Some(rq) => Some(poster(rq, cap.max_recv_sge, 0)?),
            None => None,
        },
    })
}
