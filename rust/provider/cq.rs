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
        udata::UserData,
        wc::{
            Completions,
            Wc, //
        }, //
    }, //
};
use bindings::{
    metaroce_create_cq_resp,
    metaroce_resize_cq_resp, //
};
use core::time::Duration;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
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
    /// [`None`] for a user in the kernel. Another one after each change of size.
    map: Option<Pin<KBox<Mutex<MmapEntry>>>>,
    pub(super) cq: Arc<datapath::cq::Cq>,
    _permit: Permit,
}

/// Makes a queue; that of a process has a ring that the process can map.
pub(super) fn create(
    dev: &rdma::Device<Device>,
    init: &CqInit,
    events: CqEvents,
    udata: Option<UserData<'_, Device>>,
) -> Result<(Cq, u32)> {
    if init.entries == 0 || init.entries > limits::MAX_CQE {
        return Err(EINVAL);
    }
    let permit = Permit::new(&dev.quotas, Kind::Cq)?;

    let entries = init.entries.next_power_of_two();
    // CAST: A small constant.
    let geometry = Geometry::new(entries, CQE_SIZE as u32).ok_or(EINVAL)?;
    let mem = SharedMem::new(geometry.size())?;
    let is_kernel = udata.is_none();
    // Before the queue exists, for nothing may fail after that: its timer refers to it until it is
    // silenced.
    let map = match udata {
        Some(udata) => Some(share(udata, mem.clone(), entries)?),
        None => None,
    };
    let cq = Cq {
        map,
        cq: datapath::cq::Cq::new(entries, mem, events, is_kernel)?,
        _permit: permit,
    };
    Ok((cq, entries))
}

/// Makes a ring mappable by the process that asks for the queue, and tells it where.
fn share(
    mut udata: UserData<'_, Device>,
    ring: SharedMem,
    entries: u32,
) -> Result<Pin<KBox<Mutex<MmapEntry>>>> {
    udata.no_request()?;
    let map = MmapEntry::new(udata.context()?, ring)?;
    udata.respond(&metaroce_create_cq_resp {
        mmap_offset: map.offset(),
        mmap_size: map.size(),
        entries,
        reserved: 0,
    })?;
    KBox::pin_init(new_mutex!(map), GFP_KERNEL)
}

impl Cq {
    /// Moves the queue to a ring of another size, which the process can map.
    pub(super) fn resize(&self, entries: u32, mut udata: UserData<'_, Device>) -> Result<u32> {
        udata.no_request()?;
        if entries == 0 || entries > limits::MAX_CQE {
            return Err(EINVAL);
        }
        let entries = entries.next_power_of_two();
        // CAST: A small constant.
        let geometry = Geometry::new(entries, CQE_SIZE as u32).ok_or(EINVAL)?;
        let mem = SharedMem::new(geometry.size())?;
        let new = MmapEntry::new(udata.context()?, mem.clone())?;
        let mut map = self.map.as_ref().ok_or(EINVAL)?.lock();
        // Before anything changes, for nothing may fail after that.
        udata.respond(&metaroce_resize_cq_resp {
            mmap_offset: new.offset(),
            mmap_size: new.size(),
            entries,
            reserved: 0,
        })?;
        self.cq.resize(entries, mem)?;
        *map = new;
        Ok(entries)
    }

    /// Holds events back, see [`datapath::cq::Cq::moderate`].
    pub(super) fn moderate(&self, count: u16, period: Duration) {
        // CAST: At most 65,535 microseconds.
        self.cq.moderate(count.into(), period.as_nanos() as u64);
    }

    /// Asks for an event, see [`datapath::cq::Cq::arm`].
    pub(super) fn arm(&self, solicited_only: bool) -> bool {
        self.cq.arm(solicited_only)
    }

    /// Takes completions out, for a user in the kernel. Any context.
    ///
    /// Errors: as for [`datapath::cq::Cq::pop`].
    pub(super) fn poll(&self, dev: &rdma::Device<Device>, places: &mut Completions<'_>) -> Result {
        while !places.is_full() {
            let Some(c) = self.cq.pop()? else {
                break;
            };
            let wc = Wc {
                wr_id: c.wr_id,
                status: c.status,
                opcode: c.opcode,
                vendor_err: c.vendor_err,
                byte_len: c.byte_len,
                imm_or_key: c.imm,
                src_qp: c.src_qp,
                flags: c.wc_flags,
                // CAST: An enumeration of a handful.
                network_hdr_type: c.network_hdr_type as u8,
                // CAST: It has 12 bits.
                vlan_id: c.vlan_id as u16,
            };
            dev.endpoint
                .with_qp_events(c.qp_num, |qp| places.push(&wc, qp));
        }
        Ok(())
    }

    /// Ends the use of the queue.
    pub(super) fn destroy(&self) {
        self.cq.silence();
    }
}
