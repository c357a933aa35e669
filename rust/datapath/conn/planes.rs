// SPDX-License-Identifier: GPL-2.0

//! Changes of the planes that a connection is over.

use super::{
    super::{
        now,
        plane::{
            self,
            PlaneInfo, //
        },
    },
    Conn,
    ConnInner, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};
use proto::wire::{
    Gid,
    MAX_PLANES, //
};

impl Conn {
    /// Sees to it that queue pairs are told of the next migration, see [`Conn::conclude`].
    pub(in crate::datapath) fn watch_planes(&self) {
        self.watched.store(true, Relaxed);
    }

    /// A local plane went up or down. Process context.
    pub(in crate::datapath) fn set_plane_up(self: &Arc<Self>, ifindex: u32, up: bool) {
        {
            let mut inner = self.inner.lock();
            let at = inner.planes.iter().position(|p| p.ifindex == ifindex);
            let Some(i) = at.and_then(|i| u8::try_from(i).ok()) else {
                return;
            };
            // Whatever was resolved over that device is void.
            inner.routes.retain(|r| r.of.local_plane != i);
            if let Some(plane) = inner.planes.get_mut(usize::from(i)) {
                // One without an address does not come up.
                plane.up = up && plane.gid != Gid::default();
                let up = plane.up;
                inner.proto.set_local_plane(now(), i, up);
            }
        }
        self.run();
    }

    /// Looks at the endpoint's planes and their addresses anew. Process context; the caller holds
    /// the endpoint's list of connections.
    ///
    /// Errors: `ENOMEM`.
    pub(in crate::datapath) fn refresh_planes(self: &Arc<Self>) -> Result {
        let mut known = KVec::with_capacity(MAX_PLANES, GFP_KERNEL)?;
        for plane in self.inner.lock().planes.iter() {
            known.push_within_capacity(*plane).map_err(|_| ENOSPC)?;
        }
        let mut planes = self.endpoint.planes.describe(self.key.local, &known)?;
        self.wishes
            .restrict(&mut planes, self.endpoint.used_planes());
        if *planes != *known {
            self.set_planes(planes);
        }
        Ok(())
    }

    /// Tells the peer of the planes, which may have changed since it was last told.
    pub(in crate::datapath) fn announce(&self) {
        self.inner.lock().proto.announce(now());
    }

    /// Goes on with other planes, or other addresses of theirs. Process context.
    pub(crate) fn set_planes(self: &Arc<Self>, mut planes: KVec<PlaneInfo>) {
        {
            let mut inner = self.inner.lock();
            inner.routes.clear();
            inner
                .proto
                .set_local_planes(now(), &plane::to_wire(&planes));
            core::mem::swap(&mut inner.planes, &mut planes);
        }
        self.run();
    }
}

impl ConnInner {
    /// Returns the number of the network device of a plane.
    pub(in crate::datapath) fn plane_ifindex(&self, plane: u8) -> Option<u32> {
        self.planes.get(usize::from(plane)).map(|p| p.ifindex)
    }
}
