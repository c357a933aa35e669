// SPDX-License-Identifier: GPL-2.0

//! Planes: the network devices that an endpoint sends and receives on.

use crate::{
    net::{
        addr,
        netdev::{
            NetDevice,
            NetDeviceRef, //
        },
    },
    sync::lock_bh::{
        new_spinlock_bh,
        SpinLockBh, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::wire::{
    self,
    Gid,
    MAX_PLANES, //
};

/// One plane.
struct Plane {
    /// Keeps the network device from going away under the plane.
    ndev: NetDeviceRef,
    ifindex: u32,
    /// Mbit/s, 0 if unknown.
    speed: u32,
    up: bool,
}

/// What a connection needs to know of a plane.
#[derive(Clone, Copy, Default)]
pub(super) struct PlaneInfo {
    pub(super) ifindex: u32,
    pub(super) gid: Gid,
    pub(super) speed: u32,
    pub(super) up: bool,
}

/// The planes of an endpoint; the first is the primary one, whose addresses are the GIDs.
#[pin_data]
pub(super) struct Planes {
    #[pin]
    list: SpinLockBh<KVec<Plane>>,
}

impl Planes {
    /// Makes an empty list. Process context.
    pub(super) fn new() -> Result<Arc<Self>> {
        let list = KVec::with_capacity(MAX_PLANES, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                list <- new_spinlock_bh!(list),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a plane. Process context, the RTNL is not held.
    pub(super) fn add(&self, ndev: &NetDevice) -> Result {
        let plane = Plane {
            ndev: ndev.into(),
            ifindex: ndev.ifindex(),
            speed: ndev.speed().unwrap_or(0),
            up: ndev.is_up(),
        };
        let mut list = self.list.lock();
        if list.iter().any(|p| p.ifindex == plane.ifindex) {
            return Err(EEXIST);
        }
        if list.len() >= MAX_PLANES {
            return Err(ENOSPC);
        }
        list.push_within_capacity(plane).map_err(|_| ENOSPC)
    }

    /// Removes a plane; returns how many are left.
    pub(super) fn remove(&self, ifindex: u32) -> usize {
        // The reference to the device is dropped outside of the lock.
        let (gone, left) = {
            let mut list = self.list.lock();
            let at = list.iter().position(|p| p.ifindex == ifindex);
            (at.and_then(|i| list.remove(i).ok()), list.len())
        };
        drop(gone);
        left
    }

    pub(super) fn set_up(&self, ifindex: u32, up: bool) {
        for plane in self.list.lock().iter_mut() {
            if plane.ifindex == ifindex {
                plane.up = up;
            }
        }
    }

    /// Place of a plane in the list.
    pub(super) fn index_of(&self, ifindex: u32) -> Option<usize> {
        self.list.lock().iter().position(|p| p.ifindex == ifindex)
    }

    /// Returns the network device of a plane. Whoever gets it lets go of it before bottom halves
    /// are enabled again.
    pub(super) fn device(&self, ifindex: u32) -> Option<NetDeviceRef> {
        let list = self.list.lock();
        let plane = list.iter().find(|p| p.ifindex == ifindex)?;
        Some(plane.ndev.clone())
    }

    /// Returns the network device of some plane. Context as for [`Self::device`].
    pub(super) fn any_device(&self) -> Option<NetDeviceRef> {
        self.list.lock().first().map(|plane| plane.ndev.clone())
    }

    /// Describes the planes for a connection from `local`, whose address family they get. Process
    /// context.
    ///
    /// A plane without an address of that family cannot be used and is left out. The primary one
    /// has the address that the queue pair uses.
    pub(super) fn describe(&self, local: Gid) -> Result<KVec<PlaneInfo>> {
        let mut devices = KVec::with_capacity(MAX_PLANES, GFP_KERNEL)?;
        for p in self.list.lock().iter() {
            let entry = (p.ndev.clone(), p.ifindex, p.speed, p.up);
            devices.push_within_capacity(entry).map_err(|_| ENOSPC)?;
        }
        let mut planes = KVec::with_capacity(MAX_PLANES, GFP_KERNEL)?;
        for (i, (ndev, ifindex, speed, up)) in devices.iter().enumerate() {
            let gid = if i == 0 {
                Some(local)
            } else {
                like(&ndev.addresses()?, &local)
            };
            if let Some(gid) = gid {
                let info = PlaneInfo {
                    ifindex: *ifindex,
                    gid,
                    speed: *speed,
                    up: *up,
                };
                planes.push(info, GFP_KERNEL)?;
            }
        }
        Ok(planes)
    }
}

/// The first of `addresses` that is of the family and scope of `local`.
fn like(addresses: &[addr::Address], local: &Gid) -> Option<Gid> {
    let fits = |a: &&addr::Address| {
        addr::to_ipv4(a).is_some() == local.is_v4()
            && addr::is_link_local(a) == addr::is_link_local(&local.0)
    };
    addresses.iter().find(fits).map(|a| Gid(*a))
}

/// The form in which the transport takes planes.
pub(super) fn to_wire(planes: &[PlaneInfo]) -> wire::PlaneList {
    let mut list = wire::PlaneList::new();
    for (i, p) in planes.iter().enumerate() {
        // There are no more than the list holds.
        let _ = list.push(wire::Plane {
            gid: p.gid,
            speed: p.speed,
            // CAST: below `MAX_PLANES`.
            id: i as u8,
            up: p.up,
        });
    }
    list
}
