// SPDX-License-Identifier: GPL-2.0

//! The port of a device: that of its primary network device.

use super::Device;
use crate::{
    datapath::limits,
    rdma::{
        self,
        attr::{
            Mtu,
            PhysicalState,
            PortAttr,
            PortState, //
        }, //
    },
};
use kernel::prelude::*;

/// Entries of the table of partition keys, which has the default one.
pub(super) const PKEYS: u16 = 1;

/// Entries of the GID table.
const GIDS: u16 = 255;

/// Largest path MTU, however large packets the network takes.
pub(super) const MAX_MTU: Mtu = Mtu::Mtu4096;

/// Returns the largest path MTU whose packets fit every plane.
pub(super) fn active_mtu(dev: &rdma::Device<Device>) -> Mtu {
    let mtu = dev.planes.mtu().unwrap_or(0);
    Mtu::fitting(mtu.saturating_sub(limits::HEADERS)).min(MAX_MTU)
}

/// Says in what state the port is: up if any plane is, in all else that of the primary plane.
pub(super) fn query(dev: &rdma::Device<Device>) -> Result<PortAttr> {
    let ndev = dev.netdev();
    let (state, phys_state) = if dev.planes.is_active() {
        (PortState::Active, PhysicalState::LinkUp)
    } else if ndev.as_ref().is_some_and(|ndev| ndev.is_running()) {
        (PortState::Down, PhysicalState::Polling)
    } else {
        (PortState::Down, PhysicalState::Disabled)
    };
    let (active_width, active_speed) = dev.eth_speed().unwrap_or((
        // CAST: Small constants.
        bindings::ib_port_width_IB_WIDTH_1X as u8,
        bindings::ib_port_speed_IB_SPEED_SDR as u16,
    ));
    Ok(PortAttr {
        state,
        phys_state,
        max_mtu: MAX_MTU,
        active_mtu: active_mtu(dev),
        gid_tbl_len: GIDS,
        pkey_tbl_len: PKEYS,
        max_msg_sz: limits::MAX_MSG_SIZE,
        max_vl_num: 1,
        active_width,
        active_speed,
    })
}
