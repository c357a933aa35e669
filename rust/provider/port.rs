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
        },
        NetDevice, //
    },
};
use kernel::prelude::*;

/// Entries of the table of partition keys, which has the default one.
pub(super) const PKEYS: u16 = 1;

/// Entries of the GID table.
const GIDS: u16 = 255;

/// Largest path MTU, however large packets the network takes.
pub(super) const MAX_MTU: Mtu = Mtu::Mtu4096;

/// Says in what state the port is.
pub(super) fn query(dev: &rdma::Device<Device>) -> Result<PortAttr> {
    // The primary may be gone just now: the port is down, but it is still there.
    let (state, phys_state, active_mtu) = dev.with_netdev(state).unwrap_or((
        PortState::Down,
        PhysicalState::Disabled,
        Mtu::default(),
    ));
    let (active_width, active_speed) = dev.eth_speed().unwrap_or((
        // CAST: Small constants.
        bindings::ib_port_width_IB_WIDTH_1X as u8,
        bindings::ib_port_speed_IB_SPEED_SDR as u16,
    ));
    Ok(PortAttr {
        state,
        phys_state,
        max_mtu: MAX_MTU,
        active_mtu,
        gid_tbl_len: GIDS,
        pkey_tbl_len: PKEYS,
        max_msg_sz: limits::MAX_MSG_SIZE,
        max_vl_num: 1,
        active_width,
        active_speed,
    })
}

fn state(ndev: &NetDevice) -> (PortState, PhysicalState, Mtu) {
    let (state, phys_state) = match (ndev.is_running(), ndev.has_carrier()) {
        (true, true) => (PortState::Active, PhysicalState::LinkUp),
        (true, false) => (PortState::Down, PhysicalState::Polling),
        (false, _) => (PortState::Down, PhysicalState::Disabled),
    };
    let payload = ndev.mtu().saturating_sub(limits::HEADERS);
    (state, phys_state, Mtu::fitting(payload).min(MAX_MTU))
}
