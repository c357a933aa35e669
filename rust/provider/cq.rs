// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::{
    quota::{
        Kind,
        Permit, //
    },
    Device, //
};
use crate::{
    datapath::{
        self,
        cq::CQE_SIZE,
        limits, //
    },
    rdma::{
        self,
        event::CqEvents,
        mmap::{
            MmapEntry,
            SharedMem, //
        },
        ops::CqInit,
        udata::UserData, //
    }, //
};
use bindings::metaroce_create_cq_resp;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use ring::Geometry;

// What is said of a completion in several places.
const _: () = {
    assert!(CQE_SIZE == size_of::<bindings::metaroce_cqe>());
    assert!(CQE_SIZE == bindings::METAROCE_CQE_SIZE as usize);
};

/// A completion queue.
///
/// Dropped in this order: user space can map the ring no more, then the queue goes.
pub(crate) struct Cq {
    _map: MmapEntry,
    pub(super) cq: Arc<datapath::cq::Cq>,
    _permit: Permit,
}

/// Makes a queue whose ring the process can map.
pub(super) fn create(
    dev: &rdma::Device<Device>,
    init: &CqInit,
    events: CqEvents,
    mut udata: UserData<'_, Device>,
) -> Result<(Cq, u32)> {
    udata.no_request()?;
    if init.entries == 0 || init.entries > limits::MAX_CQE {
        return Err(EINVAL);
    }
    let permit = Permit::new(&dev.quotas, Kind::Cq)?;

    let entries = init.entries.next_power_of_two();
    // CAST: A small constant.
    let geometry = Geometry::new(entries, CQE_SIZE as u32).ok_or(EINVAL)?;
    let mem = SharedMem::new(geometry.size())?;
    let map = MmapEntry::new(udata.context()?, mem.clone())?;
    let cq = datapath::cq::Cq::new(entries, mem, events)?;

    udata.respond(&metaroce_create_cq_resp {
        mmap_offset: map.offset(),
        mmap_size: map.size(),
        entries,
        reserved: 0,
    })?;
    let cq = Cq {
        _map: map,
        cq,
        _permit: permit,
    };
    Ok((cq, entries))
}

impl Cq {
    /// Asks for an event, see [`datapath::cq::Cq::arm`].
    pub(super) fn arm(&self, solicited_only: bool) -> bool {
        self.cq.arm(solicited_only)
    }

    /// Ends the use of the queue.
    pub(super) fn destroy(&self) {
        self.cq.silence();
    }
}
