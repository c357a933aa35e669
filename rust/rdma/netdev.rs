// SPDX-License-Identifier: GPL-2.0

//! What RDMA devices want to know of network devices.

use crate::net::netdev::NetDevice;

impl NetDevice {
    /// Returns whether the administrator has set the device up.
    pub fn is_running(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_netif_running(self.as_raw()) }
    }

    /// Returns whether this is an Ethernet.
    pub fn is_ethernet(&self) -> bool {
        // SAFETY: By the type invariant; the member does not change.
        let kind = unsafe { (*self.as_raw()).type_ };
        u32::from(kind) == bindings::ARPHRD_ETHER
    }

    /// Returns whether the device is registered and not going away.
    pub fn is_registered(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_netdev_is_registered(self.as_raw()) }
    }
}
