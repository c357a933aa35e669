// SPDX-License-Identifier: GPL-2.0

//! Planes: the network devices that an endpoint sends and receives on.

use super::{
    gids::Gids,
    ud::Groups, //
};
use crate::{
    net::{
        addr,
        netdev::{
            Name,
            NetDevice,
            NetDeviceRef,
            Vlan, //
        },
    },
    sync::lock_bh::{
        new_spinlock_bh,
        SpinLockBh, //
    },
};
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};
use proto::wire::{
    self,
    Gid,
    MAX_PLANES, //
};

/// One plane.
pub(super) struct Plane {
    /// Number of the plane: its place in what peers are told.
    pub(super) id: u8,
    /// Keeps the network device from going away under the plane.
    pub(super) ndev: NetDeviceRef,
    pub(super) ifindex: u32,
    /// Mbit/s, 0 if unknown.
    pub(super) speed: u32,
    pub(super) up: bool,
}

/// What a connection needs to know of a plane.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PlaneInfo {
    /// 0 where there is no plane of that number.
    pub(crate) ifindex: u32,
    /// The VLAN on it that the connection is in.
    pub(crate) vlan: Option<Vlan>,
    /// The interface by which packets come: of the plane, or of the VLAN.
    pub(crate) iif: u32,
    pub(crate) gid: Gid,
    pub(crate) speed: u32,
    pub(crate) up: bool,
}

/// Planes by number: bits, and network devices.
#[derive(Clone, Copy, Default)]
pub(crate) struct PlaneMasks {
    pub(crate) there: u8,
    pub(crate) up: u8,
    /// 0 where there is none.
    pub(crate) ifindex: [u32; MAX_PLANES],
}

/// The planes of an endpoint, the oldest first: that is the primary one, whose addresses are the
/// GIDs.
#[pin_data]
pub(crate) struct Planes {
    #[pin]
    pub(super) list: SpinLockBh<KVec<Plane>>,
    /// Counts the changes of the list and of the planes' states.
    generation: Atomic<u32>,
    /// The addresses of the primary plane.
    #[pin]
    pub(super) gids: Gids,
    /// The multicast groups that the primary plane has joined.
    #[pin]
    pub(super) groups: Groups,
    /// Has the groups follow the primary plane.
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Planes { self.work }
}

impl WorkItem for Planes {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.groups.follow(&this);
    }
}

impl Planes {
    /// Makes an empty list. Process context.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let list = KVec::with_capacity(MAX_PLANES, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                list <- new_spinlock_bh!(list),
                generation: Atomic::new(0),
                gids <- Gids::new(),
                groups <- Groups::new(),
                work <- new_work!("Planes::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a plane, under the lowest number that is free. Process context, the RTNL is not held.
    pub(super) fn add(&self, ndev: &NetDevice) -> Result {
        let mut plane = Plane {
            id: 0,
            ndev: ndev.into(),
            ifindex: ndev.ifindex(),
            speed: ndev.speed().unwrap_or(0),
            up: ndev.is_up(),
        };
        let mut list = self.list.lock();
        if list.iter().any(|p| p.ifindex == plane.ifindex) {
            return Err(EEXIST);
        }
        // CAST: a small constant.
        plane.id = (0..MAX_PLANES as u8)
            .find(|id| list.iter().all(|p| p.id != *id))
            .ok_or(ENOSPC)?;
        list.push_within_capacity(plane).map_err(|_| ENOSPC)?;
        drop(list);
        self.changed();
        Ok(())
    }

    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Full);
    }

    /// Returns a number that is another one after each change of the planes.
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
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
        self.changed();
        left
    }

    pub(super) fn set_up(&self, ifindex: u32, up: bool) {
        for plane in self.list.lock().iter_mut() {
            if plane.ifindex == ifindex {
                plane.up = up;
            }
        }
        self.changed();
    }

    /// Returns which there are.
    pub(super) fn masks(&self) -> PlaneMasks {
        let mut masks = PlaneMasks::default();
        for plane in self.list.lock().iter() {
            masks.there |= 1 << plane.id;
            masks.up |= u8::from(plane.up) << plane.id;
            if let Some(ifindex) = masks.ifindex.get_mut(usize::from(plane.id)) {
                *ifindex = plane.ifindex;
            }
        }
        masks
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> u32 {
        // CAST: At most `MAX_PLANES`.
        self.list.lock().len() as u32
    }

    /// Returns the number of a plane.
    pub(super) fn id_of(&self, ifindex: u32) -> Option<u8> {
        let list = self.list.lock();
        list.iter().find(|p| p.ifindex == ifindex).map(|p| p.id)
    }

    /// Returns the name of the network device of the plane with a number.
    pub(super) fn name_of(&self, id: u8) -> Option<Name> {
        let list = self.list.lock();
        list.iter().find(|p| p.id == id).map(|p| p.ndev.name())
    }

    /// Returns the network device of a plane. Whoever gets it lets go of it before bottom halves
    /// are enabled again.
    pub(super) fn device(&self, ifindex: u32) -> Option<NetDeviceRef> {
        let list = self.list.lock();
        let plane = list.iter().find(|p| p.ifindex == ifindex)?;
        Some(plane.ndev.clone())
    }

    /// Returns the network device of a plane that is up; the primary plane's if none has that
    /// index. Context as for [`Self::device`].
    pub(super) fn up_device(&self, ifindex: u32) -> Option<NetDeviceRef> {
        let list = self.list.lock();
        list.iter()
            .find(|p| p.ifindex == ifindex)
            .or_else(|| list.first())
            .filter(|p| p.up)
            .map(|p| p.ndev.clone())
    }

    /// Returns the VLAN that has an address, and the network device of the plane that it is on.
    /// Context as for [`Self::device`].
    pub(super) fn with_vlan_of(&self, address: &addr::Address) -> Option<(NetDeviceRef, Vlan)> {
        let list = self.list.lock();
        let on = |p: &Plane| Some((p.ndev.clone(), p.ndev.vlan_of(address)?));
        list.iter().find_map(on)
    }

    /// Returns the network device of the primary plane. Whoever gets it in process context lets go of
    /// it soon: it keeps the network device from going away.
    pub(super) fn primary(&self) -> Option<NetDeviceRef> {
        self.any_device()
    }

    /// Returns the network device of some plane. Context as for [`Self::device`].
    pub(super) fn any_device(&self) -> Option<NetDeviceRef> {
        self.list.lock().first().map(|plane| plane.ndev.clone())
    }

    /// Describes the planes for a connection from `local`, whose address family they get, each at
    /// the place of its number. `known` is what the connection, if it exists, knows of them.
    /// Process context.
    ///
    /// If `local` is the address of a VLAN on a plane, then the connection is in the VLAN of that
    /// number on each of the planes, and remains in it.
    ///
    /// A plane without an address of that family cannot be used, and counts as down, as does one
    /// that is gone.
    pub(super) fn describe(&self, local: Gid, known: &[PlaneInfo]) -> Result<KVec<PlaneInfo>> {
        let mut devices = KVec::with_capacity(MAX_PLANES, GFP_KERNEL)?;
        for p in self.list.lock().iter() {
            let info = PlaneInfo {
                ifindex: p.ifindex,
                vlan: None,
                iif: p.ifindex,
                gid: Gid::default(),
                speed: p.speed,
                up: p.up,
            };
            devices
                .push_within_capacity((p.ndev.clone(), p.id, info))
                .map_err(|_| ENOSPC)?;
        }
        let mut planes = KVec::with_capacity(MAX_PLANES, GFP_KERNEL)?;
        for old in known {
            planes.push(PlaneInfo { up: false, ..*old }, GFP_KERNEL)?;
        }
        let vlan = match known.iter().find(|plane| plane.ifindex != 0) {
            Some(plane) => plane.vlan,
            None => devices.iter().find_map(|(ndev, ..)| ndev.vlan_of(&local.0)),
        };
        for (i, (ndev, id, mut info)) in devices.into_iter().enumerate() {
            let at = usize::from(id);
            while planes.len() <= at {
                planes.push(PlaneInfo::default(), GFP_KERNEL)?;
            }
            let slot = planes.get_mut(at).ok_or(ENOSPC)?;
            let before = (slot.ifindex == info.ifindex).then_some(slot.gid);
            info.vlan = vlan;
            let on = match vlan {
                Some(vlan) => ndev.on_vlan(vlan),
                None => Some(ndev),
            };
            let gid = if let Some(on) = on {
                info.iif = on.ifindex();
                match choose(&on.addresses()?, &local, before) {
                    // The queue pair's own address, though none yet: it may be under test for
                    // duplicates.
                    None if i == 0 && known.is_empty() => Some(local),
                    gid => gid,
                }
            } else {
                None
            };
            match gid {
                Some(gid) => info.gid = gid,
                None => info.up = false,
            }
            *slot = info;
        }
        Ok(planes)
    }
}

/// The address of a plane for a connection from `local`: that one if it is the plane's, else what
/// was in use before, else the first that is of its family and scope.
fn choose(addresses: &[addr::Address], local: &Gid, before: Option<Gid>) -> Option<Gid> {
    let has = |gid: &Gid| addresses.contains(&gid.0);
    let fits = |a: &&addr::Address| {
        addr::to_ipv4(a).is_some() == local.is_v4()
            && addr::is_link_local(a) == addr::is_link_local(&local.0)
    };
    let known = [Some(*local), before].into_iter().flatten().find(has);
    known.or_else(|| addresses.iter().find(fits).map(|a| Gid(*a)))
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
