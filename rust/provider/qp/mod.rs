// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

mod attr;
mod queues;

use self::queues::{
    keep,
    share,
    sizes,
    Queues, //
};
pub(super) use self::queues::{
    recv_stride,
    Ring, //
};
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
        parts::{
            QpParts,
            QpRings, //
        },
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
            AttrMask,
            QpAttr,
            QpCap,
            QpType, //
        },
        udata::UserData, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::wire;

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
    let parts = QpParts {
        pd: pd.number(),
        send_cq: send_cq.cq.clone(),
        recv_cq: recv_cq.cq.clone(),
        rings: QpRings {
            sq: (sq.mem, sq.geometry),
            rq: rq.map(|rq| (rq.mem, rq.geometry)),
            srq: init.srq.map(|srq| srq.srq.clone()),
        },
        signal_all: init.signal_all,
        events,
    };
    let qp = if is_datagram {
        Service::Datagram(Ud::new(
            &dev.endpoint,
            UdInit {
                is_gsi,
                is_kernel,
                parts,
            },
        )?)
    } else {
        let software = datapath::qp::Qp::new(
            &dev.endpoint,
            datapath::qp::QpInit {
                service: init.qp_type,
                parts,
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

impl Qp {
    /// Modifies the attributes in `mask`. Whether the state allows that is seen by the data path,
    /// where the state can be held still.
    pub(super) fn modify(
        &self,
        dev: &rdma::Device<Device>,
        attr: &QpAttr,
        mask: AttrMask,
    ) -> Result {
        attr::check(attr, mask)?;
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
    pub(super) fn connected(&self) -> Result<&Arc<Front>> {
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
