// SPDX-License-Identifier: GPL-2.0

//! The connections of a device, and the planes that they use.

use super::{
    super::{
        abi::RawConn,
        objects::{
            NicConn,
            Planes, //
        }, //
    },
    add::Offer,
    Inner,
    Nic, //
};
use crate::{
    datapath::{
        defaults::Defaults,
        endpoint::Endpoint,
        plane::PlaneInfo,
        transfer, //
    },
    params, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};
use proto::{
    congestion::Controller,
    wire::Gid, //
};

/// How long a connection outlives its queue pair, in nanoseconds: as in the data path.
pub(super) const LINGER_NS: u64 = crate::datapath::limits::IDLE_NS;

impl Nic {
    /// Makes a connection for a queue pair.
    pub(super) fn connect(
        self: &Arc<Self>,
        inner: &mut Inner,
        offer: &Offer<'_>,
    ) -> Result<Arc<NicConn>> {
        if inner.conns.len() >= self.caps.max_conn as usize {
            // Those that only wait for their end make room.
            self.reap(inner, u64::MAX - 1);
            if inner.conns.len() >= self.caps.max_conn as usize {
                return Err(ENOSPC);
            }
        }
        inner.conns.reserve(1, GFP_KERNEL)?;
        let endpoint = &offer.site.endpoint;
        let local = Gid(offer.attr.address.sgid.gid.0);
        let planes = describe(endpoint, local, &[])?;
        if planes.infos.iter().any(|plane| plane.vlan.is_some()) {
            // The interface has no tags.
            return Err(EOPNOTSUPP);
        }
        let Defaults {
            transport: settings,
            law,
            ..
        } = endpoint.defaults();
        let raw = RawConn {
            id: match offer.state {
                Some(state) => transfer::number(state)?,
                None => endpoint.conn_number(),
            },
            local_gid: local.0,
            remote_gid: offer.attr.address.dgid.0,
            port: endpoint.port(),
            paths_per_plane: settings.paths_per_plane,
            crc: settings.crc,
            payload_mtu: PAYLOAD_MTU,
            cc: cc_bit(&law),
            window: match law {
                Controller::Fixed(_) => params::window(),
                _ => 0,
            },
            ..RawConn::default()
        };
        let conn = NicConn::new(self, raw, local, planes)?;
        self.op_conn_add(&conn)?;
        inner
            .conns
            .push_within_capacity(conn.clone())
            .map_err(|_| ENOMEM)?;
        Ok(conn)
    }

    /// Ends a connection.
    pub(super) fn disconnect(&self, inner: &mut Inner, conn: &Arc<NicConn>) {
        if let Some(site) = inner.site.as_ref().filter(|_| conn.claimed.load(Relaxed)) {
            site.endpoint.disclaim(conn.id);
        }
        self.op_conn_del(conn);
        inner.conns.retain(|other| !Arc::ptr_eq(other, conn));
    }

    /// Ends the connections whose time has come.
    pub(super) fn reap(&self, inner: &mut Inner, now: u64) {
        while let Some(conn) = inner.conns.iter().find(|c| c.ends.load(Relaxed) <= now) {
            let conn = conn.clone();
            self.disconnect(inner, &conn);
        }
        if let Some(next) = inner.conns.iter().map(|c| c.ends.load(Relaxed)).min() {
            if next != u64::MAX {
                self.timer.arm_by(next);
            }
        }
    }

    /// Tells the device of planes that have changed.
    pub(super) fn refresh_planes(&self, inner: &mut Inner) {
        let Some(site) = &inner.site else {
            return;
        };
        for conn in &inner.conns {
            // Without memory, it learns it with the next change.
            let _ = self.refresh_conn(&site.endpoint, conn);
        }
    }

    pub(super) fn refresh_conn(&self, endpoint: &Endpoint, conn: &NicConn) -> Result {
        let mut known = conn.planes.lock();
        let new = describe(endpoint, conn.local, &known.infos)?;
        let list = new.to_raw()?;
        if *new.infos == *known.infos {
            return Ok(());
        }
        self.op_conn_set_planes(conn, &list);
        conn.keep_planes(&list);
        // The old references go now that the driver has the new ones.
        *known = new;
        Ok(())
    }
}

/// Most bytes of payload of a packet, as in the data path.
const PAYLOAD_MTU: u16 = 4096;

/// Describes the planes of an endpoint, with the network devices.
fn describe(endpoint: &Endpoint, local: Gid, known: &[PlaneInfo]) -> Result<Planes> {
    let infos = endpoint.describe_planes(local, known)?;
    let mut devices = KVec::with_capacity(infos.len(), GFP_KERNEL)?;
    for info in &infos {
        devices.push(endpoint.plane_device(info.ifindex), GFP_KERNEL)?;
    }
    Ok(Planes { infos, devices })
}

fn cc_bit(law: &Controller) -> u32 {
    match law {
        Controller::Ecn(_) => bindings::metaroce_ofl_cc_METAROCE_OFL_CC_ECN,
        Controller::Delay(_) => bindings::metaroce_ofl_cc_METAROCE_OFL_CC_DELAY,
        Controller::Fixed(_) => bindings::metaroce_ofl_cc_METAROCE_OFL_CC_FIXED,
        // No device can do what the interface does not name.
        _ => 0,
    }
}

/// Returns the bit of a law of congestion control in `struct metaroce_ofl_caps`.
pub(in super::super) fn needs_cc(endpoint: &Endpoint) -> u32 {
    cc_bit(&endpoint.law())
}
