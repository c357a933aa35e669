// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{
    port,
    quota::{
        Kind,
        Permit, //
    },
    Device, //
};
use crate::{
    datapath::{
        self,
        limits, //
    },
    rdma::{
        self,
        device::PORT,
        event::QpEvents,
        mmap::{
            MmapEntry,
            SharedMem, //
        },
        ops::{
            QpCreated,
            QpInit,
            QpQueried, //
        },
        qp::{
            AddressVector,
            AttrMask,
            QpAttr,
            QpCap,
            QpType, //
        },
        udata::UserData,
        UserContext, //
    }, //
};
use bindings::{
    metaroce_create_qp_req,
    metaroce_create_qp_resp, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
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

/// Access that a remote side can be given.
const ACCESS: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC;

/// A queue pair.
///
/// Dropped in this order: user space can map the rings no more, then the pair goes.
pub(crate) struct Qp {
    _sq_map: MmapEntry,
    _rq_map: Option<MmapEntry>,
    qp: Arc<datapath::qp::Qp>,
    cap: QpCap,
    signal_all: bool,
    _permit: Permit,
}

/// A ring that a process can map.
struct Ring {
    mem: SharedMem,
    map: MmapEntry,
    geometry: Geometry,
}

impl Ring {
    fn new(context: &UserContext<Device>, entries: u32, stride: u32) -> Result<Self> {
        let geometry = Geometry::new(entries, stride).ok_or(EINVAL)?;
        let mem = SharedMem::new(geometry.size())?;
        let map = MmapEntry::new(context, mem.clone())?;
        Ok(Self { mem, map, geometry })
    }
}

/// Sizes that a queue pair gets for the sizes that were asked for.
fn sizes(asked: &QpCap) -> Result<(QpCap, u32, u32)> {
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
    let send_stride = (SEND_WQE + payload).next_multiple_of(SEND_ALIGN);
    let recv_stride = RECV_WQE + recv_sge * SGE;
    let cap = QpCap {
        max_send_wr: asked.max_send_wr.max(1).next_power_of_two(),
        // None at all is fine for receives.
        max_recv_wr: match asked.max_recv_wr {
            0 => 0,
            n => n.next_power_of_two(),
        },
        max_send_sge: send_sge,
        max_recv_sge: if asked.max_recv_wr == 0 { 0 } else { recv_sge },
        max_inline_data: asked.max_inline_data,
    };
    Ok((cap, send_stride, recv_stride))
}

/// Makes a queue pair whose rings the process can map.
pub(super) fn create(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    init: &QpInit<'_, Device>,
    events: QpEvents,
    mut udata: UserData<'_, Device>,
) -> Result<(Qp, QpCreated)> {
    let req: metaroce_create_qp_req = udata.request(0)?;
    if req.reserved != [0; 2] {
        return Err(EOPNOTSUPP);
    }
    if init.qp_type != QpType::Rc || init.create_flags != 0 || init.has_srq {
        return Err(EOPNOTSUPP);
    }
    let (Some(send_cq), Some(recv_cq)) = (init.send_cq, init.recv_cq) else {
        return Err(EINVAL);
    };
    let (cap, send_stride, recv_stride) = sizes(&init.cap)?;
    let permit = Permit::new(&dev.quotas, Kind::Qp)?;

    let context = udata.context()?;
    let sq = Ring::new(context, cap.max_send_wr, send_stride)?;
    let rq = match cap.max_recv_wr {
        0 => None,
        entries => Some(Ring::new(context, entries, recv_stride)?),
    };
    let resp = metaroce_create_qp_resp {
        sq_mmap_offset: sq.map.offset(),
        sq_mmap_size: sq.map.size(),
        rq_mmap_offset: rq.as_ref().map_or(0, |rq| rq.map.offset()),
        rq_mmap_size: rq.as_ref().map_or(0, |rq| rq.map.size()),
        sq_entries: sq.geometry.entries(),
        sq_stride: sq.geometry.stride(),
        rq_entries: rq.as_ref().map_or(0, |rq| rq.geometry.entries()),
        rq_stride: rq.as_ref().map_or(0, |rq| rq.geometry.stride()),
        reserved: [0; 2],
    };
    // Before the queue pair exists, for nothing may fail after that.
    udata.respond(&resp)?;

    let (rq_map, rq) = match rq {
        Some(Ring { mem, map, geometry }) => (Some(map), Some((mem, geometry))),
        None => (None, None),
    };
    let qp = datapath::qp::Qp::new(
        &dev.endpoint,
        datapath::qp::QpInit {
            pd: pd.number(),
            send_cq: send_cq.cq.clone(),
            recv_cq: recv_cq.cq.clone(),
            sq: (sq.mem, sq.geometry),
            rq,
            signal_all: init.signal_all,
            events,
        },
    )?;
    let created = QpCreated {
        qp_num: qp.qpn(),
        cap,
    };
    let qp = Qp {
        _sq_map: sq.map,
        _rq_map: rq_map,
        qp,
        cap,
        signal_all: init.signal_all,
        _permit: permit,
    };
    Ok((qp, created))
}

/// Checks the values of attributes, each for itself; `EINVAL` as verbs want it.
fn check(attr: &QpAttr, mask: AttrMask) -> Result {
    // RoCE has neither.
    if mask.contains(AttrMask::ALT_PATH) || mask.contains(AttrMask::PATH_MIG_STATE) {
        return Err(EOPNOTSUPP);
    }
    let limits = [
        (AttrMask::PORT, attr.port_num == PORT),
        (AttrMask::PKEY_INDEX, attr.pkey_index < port::PKEYS),
        (AttrMask::ACCESS_FLAGS, attr.access_flags & !ACCESS == 0),
        (AttrMask::PATH_MTU, attr.path_mtu <= port::MAX_MTU),
        (AttrMask::DEST_QPN, is_24_bits(attr.dest_qp_num)),
        (AttrMask::RQ_PSN, is_24_bits(attr.rq_psn)),
        (AttrMask::SQ_PSN, is_24_bits(attr.sq_psn)),
        (AttrMask::TIMEOUT, attr.timeout <= 31),
        (AttrMask::RETRY_CNT, attr.retry_cnt <= 7),
        (AttrMask::RNR_RETRY, attr.rnr_retry <= 7),
        (AttrMask::MIN_RNR_TIMER, attr.min_rnr_timer <= 31),
        (
            AttrMask::MAX_RD_ATOMIC,
            attr.max_rd_atomic <= limits::MAX_RD_ATOMIC,
        ),
        (
            AttrMask::MAX_DEST_RD_ATOMIC,
            attr.max_dest_rd_atomic <= limits::MAX_RD_ATOMIC,
        ),
        (AttrMask::ADDRESS, is_reachable(&attr.address)),
    ];
    if limits
        .iter()
        .any(|(bit, fine)| mask.contains(*bit) && !fine)
    {
        return Err(EINVAL);
    }
    Ok(())
}

fn is_24_bits(value: u32) -> bool {
    value >> 24 == 0
}

/// Whether a connected queue pair can have this address.
fn is_reachable(address: &AddressVector) -> bool {
    const IPV6_MULTICAST: u8 = 0xff;

    let unicast = match address.dgid.to_ipv4() {
        Some([first, ..]) => first != 0 && first < 224,
        None => address.dgid.0 != [0; 16] && address.dgid.0[0] != IPV6_MULTICAST,
    };
    address.has_grh && address.sgid.udp_encap && address.port_num == PORT && unicast
}

impl Qp {
    /// Modifies the attributes in `mask`. Whether the state allows that is seen by the data path,
    /// where the state can be held still.
    pub(super) fn modify(
        &self,
        dev: &rdma::Device<Device>,
        attr: &QpAttr,
        mask: AttrMask,
    ) -> Result {
        check(attr, mask)?;
        // Larger packets would not get through on some plane.
        if mask.contains(AttrMask::PATH_MTU) && attr.path_mtu > port::active_mtu(dev) {
            return Err(EINVAL);
        }
        self.qp.modify(attr, mask)
    }

    /// Returns all attributes.
    pub(super) fn query(&self) -> QpQueried {
        let mut attr = self.qp.query();
        attr.cap = self.cap;
        // There is one port, whether it was named yet or not.
        attr.port_num = PORT;
        QpQueried {
            attr,
            signal_all: self.signal_all,
        }
    }

    /// User space has posted something.
    pub(super) fn doorbell(&self) {
        self.qp.doorbell();
    }

    /// Ends the use of the queue pair.
    pub(super) fn destroy(&self) {
        self.qp.destroy();
    }
}
