// SPDX-License-Identifier: GPL-2.0

//! Planes: the network devices that an RDMA device uses.

use crate::{
    datapath::limits::MAX_PLANES,
    net::netdev::{
        NetDevice,
        NetDeviceRef, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// The planes of a device. The first is the primary one: it is the port's network device, whose
/// addresses are the GIDs.
#[pin_data]
pub(super) struct Planes {
    #[pin]
    inner: Mutex<Inner>,
}

struct Inner {
    list: KVec<NetDeviceRef>,
    /// Whether the port was up when that was last reported.
    active: bool,
    /// How often it was reported to be down.
    times_down: u64,
}

/// What is left after the loss of a plane.
pub(super) enum Left {
    /// The others, of which the primary one is the same as before.
    Same,
    /// The others, with this one as the new primary.
    Primary(NetDeviceRef),
    /// None.
    None,
}

impl Planes {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_mutex!(Inner {
                list: KVec::new(),
                active: false,
                times_down: 0,
            }),
        })
    }

    /// Adds a plane, the first as the primary one.
    ///
    /// Errors: `EEXIST` if it is there, `ENOSPC` if there are as many as there may be.
    pub(super) fn add(&self, ndev: &NetDevice) -> Result {
        let mut inner = self.inner.lock();
        if inner.has(ndev) {
            return Err(EEXIST);
        }
        if inner.list.len() >= MAX_PLANES {
            return Err(ENOSPC);
        }
        inner.list.push(ndev.into(), GFP_KERNEL)?;
        Ok(())
    }

    /// Removes a plane, if it is one.
    pub(super) fn remove(&self, ndev: &NetDevice) -> Left {
        let mut inner = self.inner.lock();
        let was_primary = inner.list.first().is_some_and(|first| **first == *ndev);
        inner.list.retain(|plane| **plane != *ndev);
        match inner.list.first() {
            None => Left::None,
            Some(first) if was_primary => Left::Primary(first.clone()),
            Some(_) => Left::Same,
        }
    }

    /// Returns the network device of that name, if it is a plane and not the only one.
    ///
    /// Errors: `ENODEV` if it is none, `EBUSY` if it is the only one.
    pub(super) fn dispensable(&self, name: &[u8]) -> Result<NetDeviceRef> {
        let inner = self.inner.lock();
        let mut named = inner.list.iter().filter(|p| p.name().as_bytes() == name);
        let plane = named.next().ok_or(ENODEV)?;
        if inner.list.len() < 2 {
            return Err(EBUSY);
        }
        Ok(plane.clone())
    }

    /// Returns whether a network device is a plane.
    pub(super) fn has(&self, ndev: &NetDevice) -> bool {
        self.inner.lock().has(ndev)
    }

    /// Returns whether any plane is up.
    pub(super) fn is_active(&self) -> bool {
        self.inner.lock().is_active()
    }

    /// Returns the largest packet that every plane takes; [`None`] without planes.
    pub(super) fn mtu(&self) -> Option<u32> {
        self.inner.lock().list.iter().map(|plane| plane.mtu()).min()
    }

    /// Returns whether any plane is up, if that has changed since it was last asked for.
    pub(super) fn take_change(&self) -> Option<bool> {
        let mut inner = self.inner.lock();
        let active = inner.is_active();
        let changed = core::mem::replace(&mut inner.active, active) != active;
        inner.times_down += u64::from(changed && !active);
        changed.then_some(active)
    }

    /// Returns how often the port went down.
    pub(super) fn times_down(&self) -> u64 {
        self.inner.lock().times_down
    }
}

impl Inner {
    fn has(&self, ndev: &NetDevice) -> bool {
        self.list.iter().any(|plane| **plane == *ndev)
    }

    fn is_active(&self) -> bool {
        self.list.iter().any(|plane| plane.is_up())
    }
}
