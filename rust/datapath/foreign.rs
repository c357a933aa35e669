// SPDX-License-Identifier: GPL-2.0

//! Connections that are not the data path's own but a device's: packets for them that come up the
//! host's stack all the same are handed over.

use super::{
    endpoint::Endpoint,
    plane::PlaneInfo,
    wishes::Wishes, //
};
use crate::net::{
    netdev::NetDeviceRef,
    random_u32,
    skbuff::RxSkb, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::wire::Gid;

/// Who has a connection.
pub(crate) trait Owner: Send + Sync {
    /// Takes a datagram, the `at.1` bytes at `at.0` of `skb`. Softirq context, many at a time.
    fn take(&self, skb: &RxSkb, at: (usize, usize));
}

/// A connection of a device.
pub(crate) struct Foreign {
    owner: Arc<dyn Owner>,
}

impl Foreign {
    /// Makes the entry of a connection of `owner`'s.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new(owner: Arc<dyn Owner>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { owner }, GFP_KERNEL)?)
    }

    /// Hands a datagram over.
    pub(super) fn take(&self, skb: &RxSkb, at: (usize, usize)) {
        self.owner.take(skb, at);
    }
}

impl Endpoint {
    /// Returns a number for a connection that no other one of the host has, with near certainty:
    /// [`Self::claim`] tells.
    pub(crate) fn conn_number(&self) -> u32 {
        random_u32().max(1)
    }

    /// Has packets for connection `id` handed over to its owner. Process context.
    ///
    /// With `imported` that is one of the host's own, which gets nothing any more.
    ///
    /// Errors: `EBUSY` if there is another one of that number, `ENOMEM`.
    pub(crate) fn claim(&self, id: u32, foreign: Arc<Foreign>, imported: bool) -> Result {
        if !imported && self.host().conns.with(id, |_| ()).is_some() {
            return Err(EBUSY);
        }
        self.host().foreign.insert(id, foreign)
    }

    /// Hands no more packets over; none is under way on return. Process context, may sleep.
    pub(crate) fn disclaim(&self, id: u32) {
        drop(self.host().foreign.remove(id));
    }

    /// Describes the planes for a connection from `local`, as [`super::plane::Planes::describe`]
    /// does; those that are not to be used count as down. Process context.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn describe_planes(
        &self,
        local: Gid,
        known: &[PlaneInfo],
    ) -> Result<KVec<PlaneInfo>> {
        let mut planes = self.planes.describe(local, known)?;
        Wishes::default().restrict(&mut planes, self.used_planes());
        Ok(planes)
    }

    /// Returns the network device of a plane. Its unregistration waits for the reference.
    pub(crate) fn plane_device(&self, ifindex: u32) -> Option<NetDeviceRef> {
        self.planes.device(ifindex)
    }

    /// Returns the network device whose addresses are the GIDs.
    pub(crate) fn primary(&self) -> Option<NetDeviceRef> {
        self.planes.any_device()
    }

    /// Returns how many planes there are.
    pub(crate) fn plane_count(&self) -> u32 {
        self.planes.count()
    }

    /// Returns the UDP port of all peers.
    pub(crate) fn port(&self) -> u16 {
        self.host().port()
    }
}
