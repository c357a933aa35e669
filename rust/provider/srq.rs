// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use super::{
    qp::{
        recv_stride,
        Ring, //
    },
    quota::{
        Kind,
        Permit, //
    },
    Device, //
};
use crate::{
    datapath::{
        self,
        limits,
        post::Poster, //
    },
    rdma::{
        self,
        event::SrqEvents,
        mmap::MmapEntry,
        ops::{
            SrqAttr,
            SrqChange, //
        },
        post::RecvRequest,
        udata::UserData, //
    }, //
};
use bindings::{
    metaroce_create_srq_resp,
    metaroce_modify_srq_req,
    metaroce_modify_srq_resp, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// A shared receive queue.
///
/// Dropped in this order: nobody can post any more, then the queue goes.
pub(crate) struct Srq {
    feed: Feed,
    pub(super) srq: Arc<datapath::srq::Srq>,
    max_sge: u32,
    _permit: Permit,
}

/// How receives come into the queue.
enum Feed {
    /// A process has mapped the ring. Locked while the queue is resized.
    User(Pin<KBox<Mutex<MmapEntry>>>),
    /// A user in the kernel posts by calls.
    Kernel(Pin<KBox<Poster>>),
}

/// Number of slots for a number of work requests.
fn slots(max_wr: u32) -> Result<u32> {
    if max_wr == 0 || max_wr > limits::MAX_QP_WR {
        return Err(EINVAL);
    }
    Ok(max_wr.next_power_of_two())
}

/// Makes a queue; that of a process has a ring that the process can map. Returns the sizes that it
/// has, too.
pub(super) fn create(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    asked: &SrqAttr,
    events: SrqEvents,
    udata: Option<UserData<'_, Device>>,
) -> Result<(Srq, SrqAttr)> {
    if asked.max_sge > limits::MAX_SGE {
        return Err(EINVAL);
    }
    let max_sge = asked.max_sge.max(1);
    let entries = slots(asked.max_wr)?;
    let permit = Permit::new(&dev.quotas, Kind::Srq)?;
    let ring = Ring::new(entries, recv_stride(max_sge))?;
    let (mem, geometry) = (ring.mem, ring.geometry);
    let srq = datapath::srq::Srq::new(pd.number(), mem.clone(), geometry, events)?;
    srq.set_limit(asked.limit)?;
    let feed = match udata {
        Some(mut udata) => {
            udata.no_request()?;
            let map = MmapEntry::new(udata.context()?, mem)?;
            udata.respond(&metaroce_create_srq_resp {
                mmap_offset: map.offset(),
                mmap_size: map.size(),
                entries,
                stride: geometry.stride(),
                max_sge,
                reserved: 0,
            })?;
            Feed::User(KBox::pin_init(new_mutex!(map), GFP_KERNEL)?)
        }
        None => Feed::Kernel(Poster::new(mem, geometry, max_sge, 0)?),
    };
    let attr = SrqAttr {
        max_wr: entries,
        max_sge,
        limit: asked.limit,
    };
    let srq = Srq {
        feed,
        srq,
        max_sge,
        _permit: permit,
    };
    Ok((srq, attr))
}

impl Srq {
    /// Arms the limit, or changes the size, which a user in the kernel cannot.
    pub(super) fn modify(
        &self,
        change: &SrqChange,
        mut udata: Option<UserData<'_, Device>>,
    ) -> Result {
        if let (None, Some(udata)) = (change.max_wr, &mut udata) {
            udata.no_request()?;
        }
        // Either both or none.
        let limit = self.srq.limit();
        if let Some(new) = change.limit {
            self.srq.set_limit(new)?;
        }
        if let Some(max_wr) = change.max_wr {
            let resized = match (&self.feed, udata) {
                (Feed::User(map), Some(udata)) => self.resize(map, max_wr, udata),
                _ => Err(EOPNOTSUPP),
            };
            resized.inspect_err(|_| {
                let _ = self.srq.set_limit(limit);
            })?;
        }
        Ok(())
    }

    /// Moves the queue to a ring of another size. The command has no response of its own, so the
    /// request says where the process wants to read of the new ring.
    fn resize(
        &self,
        map: &Mutex<MmapEntry>,
        max_wr: u32,
        mut udata: UserData<'_, Device>,
    ) -> Result {
        let req: metaroce_modify_srq_req = udata.request(size_of::<metaroce_modify_srq_req>())?;
        let entries = slots(max_wr)?;
        let ring = Ring::new(entries, recv_stride(self.max_sge))?;
        let new = MmapEntry::new(udata.context()?, ring.mem.clone())?;
        let mut map = map.lock();
        let response = metaroce_modify_srq_resp {
            mmap_offset: new.offset(),
            mmap_size: new.size(),
            entries,
            stride: ring.geometry.stride(),
        };
        // Before anything changes, for nothing may fail after that.
        udata.respond_at(req.response, &response)?;
        self.srq.resize(ring.mem, ring.geometry)?;
        *map = new;
        Ok(())
    }

    /// Takes a receive of a user in the kernel, where it is seen after [`Self::posted`]. Any
    /// context.
    ///
    /// Errors: as for [`Poster::recv`]; `EINVAL` for the queue of a process.
    pub(super) fn post(&self, request: &RecvRequest<'_>) -> Result {
        match &self.feed {
            Feed::User(_) => Err(EINVAL),
            Feed::Kernel(poster) => poster.recv(request),
        }
    }

    /// Shows the receives that were taken. Nobody has to be told: they are looked for when a
    /// message comes. Any context.
    pub(super) fn posted(&self) {
        if let Feed::Kernel(poster) = &self.feed {
            let _ = poster.publish();
        }
    }

    /// Returns the sizes and the limit.
    pub(super) fn query(&self) -> SrqAttr {
        SrqAttr {
            max_wr: self.srq.entries(),
            max_sge: self.max_sge,
            limit: self.srq.limit(),
        }
    }
}
