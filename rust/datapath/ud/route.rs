// SPDX-License-Identifier: GPL-2.0

//! Which way datagrams go.
//!
//! A datagram goes from GID to GID, so by the plane that has the source GID. While that is down it
//! goes by other planes if there is a connection between the two GIDs, which knows the peer's
//! addresses there: that is what takes connection management over the loss of a plane. Nothing is
//! known of other peers but their GID.

use crate::{
    datapath::{
        ah::Destination,
        conn::ConnKey,
        endpoint::Endpoint,
        limits, //
    },
    net::route::{
        Flow,
        Route, //
    },
    rdma::attr::Mtu,
};
use kernel::prelude::*;

/// How to reach a destination, as long as that does not change.
pub(super) struct CachedRoute {
    to: Destination,
    source_port: u16,
    /// State of the planes for which it was looked up.
    generation: u32,
    pub(super) route: Route,
    /// Most bytes of a message.
    pub(super) mtu: u32,
}

impl CachedRoute {
    /// Looks up how to reach `to`. Process or softirq context.
    ///
    /// Errors: `ENETDOWN` if no plane is up that leads there, `ENODEV`, what routing says.
    pub(super) fn look_up(endpoint: &Endpoint, to: &Destination, source_port: u16) -> Result<Self> {
        // Before the lookup: if the planes change meanwhile, it is made anew.
        let generation = endpoint.planes.generation();
        let route = endpoint.datagram_route(to, source_port)?;
        let mtu = Mtu::fitting(route.mtu().saturating_sub(limits::HEADERS))
            .bytes()
            .min(limits::MAX_DATAGRAM);
        Ok(Self {
            to: *to,
            source_port,
            generation,
            route,
            mtu,
        })
    }

    /// Whether this is the route to `to`, and still the best.
    pub(super) fn is_for(&self, endpoint: &Endpoint, to: &Destination, source_port: u16) -> bool {
        self.to == *to
            && self.source_port == source_port
            && self.generation == endpoint.planes.generation()
            && self.route.is_valid()
    }
}

impl Endpoint {
    /// Finds the way to a destination. Errors and context as for [`CachedRoute::look_up`].
    fn datagram_route(&self, to: &Destination, source_port: u16) -> Result<Route> {
        let flow = |src: [u8; 16], dst: [u8; 16], vlan| Flow {
            src,
            dst,
            sport: source_port,
            dport: self.host().port(),
            tos: to.traffic_class,
            vlan,
        };
        // A GID of an interface above a plane leaves by that plane, or by the primary one.
        if let Some((dev, vlan)) = self.planes.with_vlan_of(&to.src.0) {
            return Route::lookup(&dev, flow(to.src.0, to.dst.0, Some(vlan)));
        }
        if let Some(dev) = self.planes.up_device(to.ifindex) {
            return Route::lookup(&dev, flow(to.src.0, to.dst.0, None));
        }
        let key = ConnKey {
            local: to.src,
            remote: to.dst,
            owner: 0,
        };
        let (local, remote, ifindex) = self.other_way(&key).ok_or(ENETDOWN)?;
        let dev = self.planes.device(ifindex).ok_or(ENODEV)?;
        Route::lookup(&dev, flow(local.0, remote.0, None))
    }
}
