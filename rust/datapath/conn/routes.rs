// SPDX-License-Identifier: GPL-2.0

//! The ways of a connection's packets through the network.

use super::{
    Conn,
    ConnInner, //
};
use crate::net::route::{
    Flow,
    Route, //
};
use kernel::prelude::*;
use proto::{
    packet::PathId,
    wire::Gid, //
};

/// A route of the transport, and what the kernel makes of it.
pub(super) struct Resolved {
    pub(super) of: proto::path::Route,
    route: Route,
}

impl Conn {
    /// Returns the addresses of a path that is usable, ours and the peer's, and the network
    /// interface of ours.
    pub(in crate::datapath) fn usable_way(&self) -> Option<(Gid, Gid, u32)> {
        let inner = self.inner.lock();
        let mut paths = (0..inner.proto.n_paths()).map(PathId);
        let path = paths.find(|path| inner.proto.is_usable(*path))?;
        let route = inner.proto.route(path)?;
        let plane = inner.planes.get(usize::from(route.local_plane))?;
        let remote = inner.proto.peer_planes().get(route.remote_plane)?;
        Some((plane.gid, remote.gid, plane.ifindex))
    }
}

impl ConnInner {
    /// Returns the number of the local plane that a path is on just now.
    pub(in crate::datapath) fn plane_of(&self, path: PathId) -> Option<u8> {
        self.proto.route(path).map(|route| route.local_plane)
    }

    /// Returns the route that a path takes just now.
    ///
    /// Errors: what the route lookup says, `ENOMEM`.
    pub(in crate::datapath) fn route(&mut self, conn: &Conn, path: PathId) -> Result<&Route> {
        let route = self.proto.route(path).ok_or(ENETUNREACH)?;
        self.resolve(conn, &route)
    }

    /// Returns the kernel's route for one of the transport. Errors as for [`Self::route`].
    pub(in crate::datapath) fn resolve(
        &mut self,
        conn: &Conn,
        of: &proto::path::Route,
    ) -> Result<&Route> {
        let same = |r: &Resolved| {
            (r.of.local_plane, r.of.remote_plane, r.of.src_port)
                == (of.local_plane, of.remote_plane, of.src_port)
        };
        let at = match self.routes.iter().position(same) {
            Some(at) if self.routes.get(at).is_some_and(|r| r.route.is_valid()) => at,
            stale => {
                if let Some(at) = stale {
                    let _ = self.routes.remove(at);
                } else if self.routes.len() == self.routes.capacity() {
                    // Paths have moved: whatever is still in use comes back.
                    self.routes.clear();
                }
                let remote = self
                    .proto
                    .peer_planes()
                    .get(of.remote_plane)
                    .ok_or(ENETUNREACH)?
                    .gid;
                let route = self.look_up(conn, of.local_plane, remote, of.src_port)?;
                self.routes
                    .push_within_capacity(Resolved { of: *of, route })
                    .map_err(|_| ENOMEM)?;
                self.routes.len() - 1
            }
        };
        Ok(&self.routes.get(at).ok_or(ENETUNREACH)?.route)
    }

    /// Finds the way from a local plane to an address.
    pub(in crate::datapath) fn look_up(
        &self,
        conn: &Conn,
        local_plane: u8,
        remote: Gid,
        sport: u16,
    ) -> Result<Route> {
        let plane = self
            .planes
            .get(usize::from(local_plane))
            .ok_or(ENETUNREACH)?;
        let flow = Flow {
            src: plane.gid.0,
            dst: remote.0,
            sport,
            dport: conn.endpoint.host().port(),
            tos: 0,
            vlan: plane.vlan,
        };
        let dev = conn.endpoint.planes.device(plane.ifindex).ok_or(ENODEV)?;
        Route::lookup(&dev, flow)
    }
}
