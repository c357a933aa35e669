// SPDX-License-Identifier: GPL-2.0

//! From the structures of the interface to those of the data path.

use crate::{
    datapath::plane::PlaneInfo,
    net::netdev::{
        NetDevice,
        NetDeviceRef, //
    },
    rdma::{
        attr::Mtu,
        gid,
        mmap::SharedMem,
        qp::{
            AddressVector,
            QpAttr,
            QpState, //
        }, //
    },
};
use core::ptr::NonNull;
use kernel::prelude::*;
use proto::{
    congestion::{
        Controller,
        FixedWindow, //
    },
    wire::Gid, //
};

/// What the firmware takes planes as: what they are, and their network devices.
type PlaneLists = (KVec<PlaneInfo>, KVec<(u8, NetDeviceRef)>);

/// Translates a list of planes.
///
/// # Safety
///
/// The network devices must be valid, with a reference that the caller holds.
pub(super) unsafe fn planes_of(list: &[bindings::metaroce_ofl_plane]) -> Result<PlaneLists> {
    let mut infos = KVec::with_capacity(list.len(), GFP_KERNEL)?;
    let mut devices = KVec::with_capacity(list.len(), GFP_KERNEL)?;
    for (plane, number) in list.iter().zip(0..) {
        let mut info = PlaneInfo {
            ifindex: 0,
            vlan: None,
            iif: 0,
            gid: Gid(plane.gid),
            speed: plane.speed,
            up: plane.up,
        };
        if plane.ndev.is_null() {
            info.up = false;
        } else {
            // SAFETY: By the requirements of this function.
            let ndev = unsafe { NetDevice::from_raw(plane.ndev) };
            info.ifindex = ndev.ifindex();
            info.iif = info.ifindex;
            devices.push((number, ndev.into()), GFP_KERNEL)?;
        }
        infos.push(info, GFP_KERNEL)?;
    }
    Ok((infos, devices))
}

/// The law of congestion control that a connection asks for.
pub(super) fn law_of(conn: &bindings::metaroce_ofl_conn) -> Result<Controller> {
    let name = match conn.cc {
        bindings::metaroce_ofl_cc_METAROCE_OFL_CC_ECN => "ecn",
        bindings::metaroce_ofl_cc_METAROCE_OFL_CC_DELAY => "delay",
        bindings::metaroce_ofl_cc_METAROCE_OFL_CC_FIXED => {
            return Ok(Controller::Fixed(FixedWindow::new(conn.window)));
        }
        _ => return Err(EOPNOTSUPP),
    };
    Controller::by_name(name).ok_or(EOPNOTSUPP)
}

/// Translates attributes. `remote` is the GID of the peer.
pub(super) fn attr_of(raw: &bindings::metaroce_ofl_qp_attr, remote: [u8; 16]) -> Result<QpAttr> {
    Ok(QpAttr {
        state: QpState::try_from(raw.state)?,
        path_mtu: Mtu::fitting(raw.path_mtu),
        dest_qp_num: raw.dest_qpn,
        sq_psn: raw.sq_psn,
        rq_psn: raw.rq_psn,
        access_flags: raw.access,
        max_rd_atomic: raw.max_rd_atomic,
        max_dest_rd_atomic: raw.max_dest_rd_atomic,
        timeout: raw.timeout,
        retry_cnt: raw.retry_cnt,
        rnr_retry: raw.rnr_retry,
        min_rnr_timer: raw.min_rnr_timer,
        // The core wants to know it, whether or not its user does.
        sqd_async_notify: true,
        address: AddressVector {
            dgid: gid::Gid(remote),
            ..AddressVector::default()
        },
        ..QpAttr::default()
    })
}

/// Translates a ring.
///
/// # Safety
///
/// The memory must stay until the queue pair is deleted.
pub(super) unsafe fn ring_of(
    raw: &bindings::metaroce_ofl_ring,
) -> Result<Option<(SharedMem, ring::Geometry)>> {
    let Some(base) = NonNull::new(raw.va.cast::<u8>()) else {
        return Ok(None);
    };
    let geometry = ring::Geometry::new(raw.entries, raw.stride).ok_or(EINVAL)?;
    // SAFETY: By the requirements of this function; the memory is of `vmalloc()`.
    let mem = unsafe { SharedMem::borrow(base, raw.size) };
    Ok(Some((mem, geometry)))
}
