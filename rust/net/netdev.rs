// SPDX-License-Identifier: GPL-2.0

//! Network devices.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::{
    addr::{
        self,
        Address, //
    },
    namespace::{
        Net,
        NetRef, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    fmt,
    prelude::*,
    str::BStr,
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

/// A network device.
///
/// # Invariants
///
/// A reference to it is to a live `struct net_device`.
#[repr(transparent)]
pub struct NetDevice(Opaque<bindings::net_device>);

/// A reference to a network device.
///
/// Unregistering a device waits until all such references are dropped: whoever holds one has to
/// drop it on [`Event::Unregister`](super::notifier::Event::Unregister).
pub type NetDeviceRef = ARef<NetDevice>;

// SAFETY: Network devices do not depend on the thread they are used from.
unsafe impl Send for NetDevice {}

// SAFETY: The methods read single members, as the kernel does everywhere without a lock, or lists under
// RCU or the lock that guards them, which they take.
unsafe impl Sync for NetDevice {}

// SAFETY: Network devices are always reference counted.
unsafe impl AlwaysRefCounted for NetDevice {
    fn inc_ref(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_dev_hold(self.as_raw()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a reference.
        unsafe { bindings::metaroce_net_dev_put(obj.as_ptr().cast()) };
    }
}

impl NetDevice {
    /// Borrows a device.
    ///
    /// # Safety
    ///
    /// `raw` must be valid, with a reference that someone holds, for `'a`.
    pub unsafe fn from_raw<'a>(raw: *mut bindings::net_device) -> &'a Self {
        // SAFETY: By the requirements of this function; the type is transparent.
        unsafe { &*raw.cast() }
    }

    /// Returns the C device.
    pub fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// Looks a device up by its number. Any context.
    pub fn by_index(net: &Net, ifindex: u32) -> Option<NetDeviceRef> {
        let ifindex = c_int::try_from(ifindex).ok()?;
        // SAFETY: `net` is a live namespace.
        let raw = unsafe { bindings::dev_get_by_index(net.as_raw(), ifindex) };
        // SAFETY: If it is not null, then it is a device with a reference, which goes to the
        // caller.
        NonNull::new(raw).map(|raw| unsafe { ARef::from_raw(raw.cast()) })
    }

    /// Looks a device up by its name in the current process's namespace. Process context.
    pub fn by_name(name: &CStr) -> Option<NetDeviceRef> {
        // SAFETY: `name` is a C string; a process has a namespace as long as it runs.
        let raw = unsafe { bindings::metaroce_net_dev_by_name(name.as_char_ptr()) };
        // SAFETY: As in `by_index`.
        NonNull::new(raw).map(|raw| unsafe { ARef::from_raw(raw.cast()) })
    }

    /// Returns the number of the interface in its namespace.
    pub fn ifindex(&self) -> u32 {
        // SAFETY: By the type invariant; the member is an aligned word, and a changing value is a
        // wrong value at worst.
        let ifindex = unsafe { (&raw const (*self.as_raw()).ifindex).read_volatile() };
        // CAST: Interface numbers are positive.
        ifindex as u32
    }

    /// Returns the address of the device that it is plugged into, to be compared; 0 if there is
    /// none.
    pub fn parent(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_dev_parent(self.as_raw()) }.addr()
    }

    /// Returns vendor and device, if it is plugged into PCI.
    pub fn pci_id(&self) -> Option<(u16, u16)> {
        // SAFETY: By the type invariant.
        let id = unsafe { bindings::metaroce_net_dev_pci_id(self.as_raw()) };
        // CAST: Each has 16 bits.
        (id != 0).then_some(((id >> 16) as u16, id as u16))
    }

    /// Whether the device that it is plugged into has a driver of this name. To be called about
    /// devices that are registered, so that the driver does not go.
    pub fn is_of_driver(&self, name: &CStr) -> bool {
        // SAFETY: By the type invariant, and `name` is a C string.
        unsafe { bindings::metaroce_net_dev_is_of(self.as_raw(), name.as_char_ptr()) }
    }

    /// Returns the MTU.
    pub fn mtu(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_dev_mtu(self.as_raw()) }
    }

    /// Returns the name. It can change at any time, so this is for messages.
    pub fn name(&self) -> Name {
        // SAFETY: By the type invariant; a name that just changes is a wrong one at worst.
        Name(unsafe {
            (&raw const (*self.as_raw()).name)
                .cast::<[u8; Name::LEN]>()
                .read_volatile()
        })
    }

    /// Returns whether the device is up.
    pub fn is_running(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_dev_is_running(self.as_raw()) }
    }

    /// Returns whether there is a carrier.
    pub fn has_carrier(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_dev_has_carrier(self.as_raw()) }
    }

    /// Returns whether the device is up and has a carrier.
    pub fn is_up(&self) -> bool {
        self.is_running() && self.has_carrier()
    }

    /// Returns whether the device is registered and not going away.
    pub fn is_registered(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_dev_is_registered(self.as_raw()) }
    }

    /// Returns whether this is an Ethernet.
    pub fn is_ethernet(&self) -> bool {
        // SAFETY: By the type invariant; the member does not change.
        let kind = unsafe { (*self.as_raw()).type_ };
        u32::from(kind) == bindings::ARPHRD_ETHER
    }

    /// Returns whether this is a loopback device.
    pub fn is_loopback(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_dev_is_loopback(self.as_raw()) }
    }

    /// Returns the speed in Mbit/s, if it is known. Process context, the RTNL is not held.
    pub fn speed(&self) -> Option<u32> {
        let _rtnl = Rtnl::lock();
        self.speed_locked()
    }

    /// Returns the speed in Mbit/s, if it is known. The RTNL is held.
    pub fn speed_locked(&self) -> Option<u32> {
        // SAFETY: By the type invariant.
        let speed = unsafe { bindings::metaroce_net_dev_speed(self.as_raw()) };
        (speed != 0).then_some(speed)
    }

    /// Returns the namespace, unless it is just going away.
    pub fn net(&self) -> Option<NetRef> {
        // SAFETY: By the type invariant.
        let raw = unsafe { bindings::metaroce_net_dev_net_get(self.as_raw()) };
        // SAFETY: If it is not null, then it is a namespace with a reference, which goes to the
        // caller.
        NonNull::new(raw).map(|raw| unsafe { NetRef::from_raw(raw) })
    }

    /// Has the host take what is sent to a multicast group on this device. Pair with
    /// [`leave`](Self::leave). Process context, the RTNL is not held.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device has no addresses of that family, or is going away; `ENOMEM`.
    pub fn join(&self, group: &Address) -> Result {
        // SAFETY: By the type invariant; the group is valid for reads.
        to_result(unsafe {
            bindings::metaroce_net_dev_mc_join(self.as_raw(), &addr::to_in6(group))
        })
    }

    /// Undoes one [`join`](Self::join). Context as there.
    pub fn leave(&self, group: &Address) {
        // SAFETY: As above.
        unsafe { bindings::metaroce_net_dev_mc_leave(self.as_raw(), &addr::to_in6(group)) };
    }

    /// Returns whether this is a VLAN on another device.
    pub fn is_vlan(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_dev_is_vlan(self.as_raw()) }
    }

    /// Returns the VLAN on this device that has an address. One of the link (`fe80::/10`) says nothing
    /// of that. Any context.
    pub fn vlan_of(&self, address: &Address) -> Option<Vlan> {
        // SAFETY: By the type invariant; the address is valid for reads.
        let tag =
            unsafe { bindings::metaroce_net_dev_vlan_of(self.as_raw(), &addr::to_in6(address)) };
        (tag != 0).then_some(Vlan(tag))
    }

    /// Returns the device of a VLAN on this one, if there is one. Any context.
    pub fn on_vlan(&self, vlan: Vlan) -> Option<NetDeviceRef> {
        // SAFETY: By the type invariant.
        let raw = unsafe { bindings::metaroce_net_dev_vlan_get(self.as_raw(), vlan.0) };
        // SAFETY: If it is not null, then it is a device with a reference, which goes to the
        // caller.
        NonNull::new(raw).map(|raw| unsafe { ARef::from_raw(raw.cast()) })
    }

    /// Returns the addresses: IPv4 first, then IPv6 but for those that are being probed for
    /// duplicates. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn addresses(&self) -> Result<KVec<Address>> {
        let mut max = 8;
        loop {
            let mut list = KVec::<bindings::in6_addr>::with_capacity(max, GFP_KERNEL)?;
            // SAFETY: By the type invariant; `list` has room for `max` addresses.
            let n = unsafe {
                bindings::metaroce_net_dev_addresses(self.as_raw(), list.as_mut_ptr(), max)
            };
            if n > max {
                max = n;
                continue;
            }
            // SAFETY: There is room, and the first `n` are written.
            unsafe { list.inc_len(n) };
            let mut addresses = KVec::with_capacity(n, GFP_KERNEL)?;
            for address in &list {
                addresses.push(addr::from_in6(address), GFP_KERNEL)?;
            }
            return Ok(addresses);
        }
    }
}

impl PartialEq for NetDevice {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for NetDevice {}

/// A VLAN (IEEE 802.1Q): the protocol of the tag in the upper half, the number in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan(pub(super) u32);

impl Vlan {
    /// Returns the number, of 12 bits.
    pub fn id(self) -> u32 {
        self.0 & 0xfff
    }
}

/// The RTNL, held. While it is, no network device comes or goes.
pub struct Rtnl(NotThreadSafe);

impl Rtnl {
    /// Takes the lock. Process context.
    pub fn lock() -> Self {
        // SAFETY: An FFI call with no additional requirements; the callers may sleep.
        unsafe { bindings::rtnl_lock() };
        Self(NotThreadSafe)
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        // SAFETY: Taken in `lock`, by this thread.
        unsafe { bindings::rtnl_unlock() };
    }
}

/// The name of a device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name([u8; Self::LEN]);

impl Name {
    // CAST: A small constant.
    const LEN: usize = bindings::IFNAMSIZ as usize;

    /// Returns the name as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|&b| b == 0).unwrap_or(Self::LEN);
        self.0.get(..len).unwrap_or_default()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(BStr::from_bytes(self.as_bytes()), f)
    }
}
