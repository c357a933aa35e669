// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{
    counters::Counter,
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
        ah::Destination,
        limits,
        post::Poster,
        ud::{
            Ud,
            UdInit, //
        }, //
    },
    offload::{
        Carrier,
        Front,
        Origin, //
    },
    rdma::{
        self,
        device::PORT,
        event::QpEvents,
        gid::Gid,
        mmap::{
            MmapEntry,
            SharedMem, //
        },
        ops::{
            QpCreated,
            QpInit,
            QpQueried, //
        },
        post::{
            RecvRequest,
            SendRequest, //
        },
        qp::{
            AddressVector,
            AttrMask,
            QpAttr,
            QpCap,
            QpType, //
        },
        udata::UserData, //
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
use proto::wire;
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

/// Access that a remote side can be given, and what programs pass along with it that means nothing
/// here: how memory is registered.
const ACCESS: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
    | bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL
    | bindings::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT
    | bindings::ib_access_flags_IB_ACCESS_ON_DEMAND;

/// A queue pair.
///
/// Dropped in this order: user space can map the rings no more, then the pair goes.
pub(crate) struct Qp {
    queues: Queues,
    qp: Service,
    cap: QpCap,
    signal_all: bool,
    _permit: Permit,
}

/// What carries the work out.
enum Service {
    Connected(Arc<Front>),
    Datagram(Arc<Ud>),
}

impl Service {
    fn qpn(&self) -> u32 {
        match self {
            Self::Connected(qp) => qp.qpn(),
            Self::Datagram(qp) => qp.qpn(),
        }
    }
}

/// How work comes into the queues; the receive queue may be missing.
enum Queues {
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
pub(super) struct Ring {
    pub(super) mem: SharedMem,
    pub(super) geometry: Geometry,
}

impl Ring {
    pub(super) fn new(entries: u32, stride: u32) -> Result<Self> {
        let geometry = Geometry::new(entries, stride).ok_or(EINVAL)?;
        let mem = SharedMem::new(geometry.size())?;
        Ok(Self { mem, geometry })
    }
}

/// Bytes of a slot for a receive of so many elements.
pub(super) fn recv_stride(max_sge: u32) -> u32 {
    RECV_WQE + max_sge * SGE
}

/// Sizes that a queue pair gets for the sizes that were asked for.
///
/// Send work requests that end with where they go are longer by that.
fn sizes(asked: &QpCap, with_destination: bool) -> Result<(QpCap, u32, u32)> {
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
fn share(mut udata: UserData<'_, Device>, sq: &Ring, rq: Option<&Ring>) -> Result<Queues> {
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
fn keep(cap: &QpCap, sq: &Ring, rq: Option<&Ring>) -> Result<Queues> {
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

/// Makes a queue pair.
pub(super) fn create(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    init: &QpInit<'_, Device>,
    events: QpEvents,
    udata: Option<UserData<'_, Device>>,
) -> Result<(Qp, QpCreated)> {
    let (is_datagram, is_gsi) = match init.qp_type {
        QpType::Rc | QpType::Uc => (false, false),
        QpType::Ud => (true, false),
        // ib_core lets no process have it.
        QpType::Gsi => (true, true),
        _ => return Err(EOPNOTSUPP),
    };
    if init.create_flags != 0 {
        return Err(EOPNOTSUPP);
    }
    let is_kernel = udata.is_none();
    let (Some(send_cq), Some(recv_cq)) = (init.send_cq, init.recv_cq) else {
        return Err(EINVAL);
    };
    let mut asked = init.cap;
    if init.srq.is_some() {
        // There is no receive queue; IB wants its sizes ignored.
        asked.max_recv_wr = 0;
        asked.max_recv_sge = 0;
    }
    let (cap, send_stride, recv_stride) = sizes(&asked, is_datagram && is_kernel)?;
    let permit = Permit::new(&dev.quotas, Kind::Qp)?;

    let sq = Ring::new(cap.max_send_wr, send_stride)?;
    let rq = match cap.max_recv_wr {
        0 => None,
        entries => Some(Ring::new(entries, recv_stride)?),
    };
    // Before the queue pair exists, for nothing may fail after that.
    let queues = match udata {
        Some(udata) => share(udata, &sq, rq.as_ref())?,
        None => keep(&cap, &sq, rq.as_ref())?,
    };
    let (pd, signal_all) = (pd.number(), init.signal_all);
    let (send_cq, recv_cq) = (send_cq.cq.clone(), recv_cq.cq.clone());
    let sq = (sq.mem, sq.geometry);
    let rq = rq.map(|rq| (rq.mem, rq.geometry));
    let qp = if is_datagram {
        Service::Datagram(Ud::new(
            &dev.endpoint,
            UdInit {
                is_gsi,
                is_kernel,
                pd,
                send_cq,
                recv_cq,
                sq,
                rq,
                srq: init.srq.map(|srq| srq.srq.clone()),
                signal_all,
                events,
            },
        )?)
    } else {
        let software = datapath::qp::Qp::new(
            &dev.endpoint,
            datapath::qp::QpInit {
                service: init.qp_type,
                pd,
                send_cq,
                recv_cq,
                sq,
                rq,
                srq: init.srq.map(|srq| srq.srq.clone()),
                signal_all,
                events,
            },
        )?;
        let origin = Origin {
            is_user: !is_kernel,
            cap,
        };
        let front = Front::new(software.clone(), dev.offload.clone(), origin);
        Service::Connected(front.inspect_err(|_| software.destroy())?)
    };
    let created = QpCreated {
        qp_num: qp.qpn(),
        cap,
    };
    let qp = Qp {
        queues,
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
    address.has_grh
        && address.sgid.udp_encap
        && address.port_num == PORT
        && address.dgid.is_unicast()
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
        match &self.qp {
            Service::Connected(qp) => qp.modify(attr, mask),
            Service::Datagram(qp) => qp.modify(attr, mask),
        }
    }

    /// Returns all attributes.
    pub(super) fn query(&self) -> QpQueried {
        let mut attr = match &self.qp {
            Service::Connected(qp) => qp.query(),
            Service::Datagram(qp) => qp.query(),
        };
        attr.cap = self.cap;
        // There is one port, whether it was named yet or not.
        attr.port_num = PORT;
        QpQueried {
            attr,
            signal_all: self.signal_all,
        }
    }

    /// Returns what is connected.
    ///
    /// Errors: `EOPNOTSUPP` if the queue pair is one for datagrams.
    pub(super) fn connected(&self) -> Result<&Front> {
        match &self.qp {
            Service::Connected(qp) => Ok(qp),
            Service::Datagram(_) => Err(EOPNOTSUPP),
        }
    }

    /// Returns who carries a connected queue pair.
    pub(super) fn carrier(&self) -> Option<Carrier> {
        match &self.qp {
            Service::Connected(qp) => Some(qp.carrier()),
            Service::Datagram(_) => None,
        }
    }

    /// Counts for the queue pair by `counter` from now on, or by none.
    pub(super) fn bind_counter(&self, counter: Option<&Counter>) {
        let counters = counter.map(|counter| counter.counters().clone());
        match &self.qp {
            Service::Connected(qp) => qp.set_counters(counters),
            Service::Datagram(qp) => qp.set_counters(counters),
        }
    }

    /// Adds the queue pair to a multicast group.
    ///
    /// Errors: `EINVAL` if it is not one for datagrams; as for [`Ud::attach`].
    pub(super) fn attach(&self, group: Gid) -> Result {
        match &self.qp {
            Service::Connected(_) => Err(EINVAL),
            Service::Datagram(qp) => qp.attach(wire::Gid(group.0)),
        }
    }

    /// Takes the queue pair out of a multicast group.
    ///
    /// Errors: `EINVAL` if it is not in it.
    pub(super) fn detach(&self, group: Gid) -> Result {
        match &self.qp {
            Service::Connected(_) => Err(EINVAL),
            Service::Datagram(qp) => qp.detach(wire::Gid(group.0)),
        }
    }

    /// User space has posted something.
    pub(super) fn doorbell(&self) {
        match &self.qp {
            Service::Connected(qp) => qp.doorbell(),
            Service::Datagram(qp) => qp.doorbell(),
        }
    }

    /// Takes a send work request of a user in the kernel. Any context.
    ///
    /// Errors: `EOPNOTSUPP` if the queue is user space's, else as for [`Poster::send`].
    pub(super) fn post_send(&self, request: &SendRequest<'_, Device>) -> Result {
        let Queues::Kernel { sq, .. } = &self.queues else {
            return Err(EOPNOTSUPP);
        };
        match &self.qp {
            Service::Connected(_) => sq.send(request),
            Service::Datagram(_) => {
                let to = request.datagram()?;
                sq.send_to(request, &to.ah.destination(), to.qpn, to.q_key)
            }
        }
    }

    /// Takes a receive work request of a user in the kernel. Any context.
    ///
    /// Errors: `EOPNOTSUPP` if the queue is user space's, `EINVAL` if there is none, else as for
    /// [`Poster::recv`].
    pub(super) fn post_recv(&self, request: &RecvRequest<'_>) -> Result {
        match &self.queues {
            Queues::Kernel { rq, .. } => rq.as_ref().ok_or(EINVAL)?.recv(request),
            Queues::User { .. } => Err(EOPNOTSUPP),
        }
    }

    /// Begins with what a user in the kernel has posted. Any context.
    pub(super) fn posted(&self) {
        let Queues::Kernel { sq, rq } = &self.queues else {
            return;
        };
        // Both are shown, whatever the first one says.
        let told = [sq.publish(), rq.as_ref().is_some_and(|rq| rq.publish())];
        if told.contains(&true) {
            match &self.qp {
                Service::Connected(qp) => qp.kick(),
                Service::Datagram(qp) => qp.kick(),
            }
        }
    }

    /// Ends the use of the queue pair.
    pub(super) fn destroy(&self) {
        match &self.qp {
            Service::Connected(qp) => qp.destroy(),
            Service::Datagram(qp) => qp.destroy(),
        }
    }
}
