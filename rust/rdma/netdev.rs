// SPDX-License-Identifier: GPL-2.0

//! The little of network devices that RDMA devices need.

use kernel::types::Opaque;

/// A network device.
///
/// # Invariants
///
/// A reference to it is to a live `struct net_device`.
#[repr(transparent)]
pub struct NetDevice(Opaque<bindings::net_device>);

// SAFETY: Network devices do not depend on the thread they are used from.
unsafe impl Send for NetDevice {}

// SAFETY: What can be done with a shared one is only reading.
unsafe impl Sync for NetDevice {}

impl NetDevice {
    /// Borrows a device.
    ///
    /// # Safety
    ///
    /// `raw` must be valid, with a reference that the caller holds, for `'a`.
    pub unsafe fn from_raw<'a>(raw: *mut bindings::net_device) -> &'a Self {
        // SAFETY: By the requirements of this function; the type is transparent.
        unsafe { &*raw.cast() }
    }

    /// Returns the C device.
    pub fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// Returns the number of the interface in its namespace.
    pub fn ifindex(&self) -> u32 {
        // SAFETY: By the type invariant; the member is an aligned word, and a changing value is a
        // wrong value at worst.
        let ifindex = unsafe { (&raw const (*self.as_raw()).ifindex).read_volatile() };
        // CAST: Interface numbers are positive.
        ifindex as u32
    }

    /// Returns the largest packet, without the link's header.
    pub fn mtu(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_netdev_mtu(self.as_raw()) }
    }

    /// Returns whether the interface is up.
    pub fn is_running(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_netif_running(self.as_raw()) }
    }

    /// Returns whether there is a carrier.
    pub fn has_carrier(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_netif_carrier_ok(self.as_raw()) }
    }

    /// Returns whether this is an Ethernet.
    pub fn is_ethernet(&self) -> bool {
        // SAFETY: By the type invariant; the member does not change.
        let kind = unsafe { (*self.as_raw()).type_ };
        u32::from(kind) == bindings::ARPHRD_ETHER
    }
}
