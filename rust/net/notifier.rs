// SPDX-License-Identifier: GPL-2.0

//! Being told what happens to network devices and their addresses.
//!
//! C headers: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h),
//! [`include/linux/notifier.h`](srctree/include/linux/notifier.h)

use super::{
    addr::{
        self,
        Address, //
    },
    netdev::NetDevice,
};
use kernel::{
    container_of,
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque, //
};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The device is new.
    Register,
    /// The device goes away: references to it have to be dropped.
    Unregister,
    /// The device was set up.
    Up,
    /// The device will be set down.
    GoingDown,
    /// The device was set down.
    Down,
    /// Flags or the carrier changed.
    Change,
    /// The MTU changed.
    ChangeMtu,
    /// The hardware address changed.
    ChangeAddress,
    /// The name changed.
    ChangeName,
    /// The device has a new IP address.
    AddressAdded(Address),
    /// The device lost an IP address.
    AddressRemoved(Address),
    /// Something else, by the C name `NETDEV_*`.
    Other(u32),
}

impl Event {
    fn from_netdev(event: c_ulong) -> Self {
        // CAST: Small constants.
        match event as bindings::netdev_cmd {
            bindings::netdev_cmd_NETDEV_REGISTER => Event::Register,
            bindings::netdev_cmd_NETDEV_UNREGISTER => Event::Unregister,
            bindings::netdev_cmd_NETDEV_UP => Event::Up,
            bindings::netdev_cmd_NETDEV_GOING_DOWN => Event::GoingDown,
            bindings::netdev_cmd_NETDEV_DOWN => Event::Down,
            bindings::netdev_cmd_NETDEV_CHANGE => Event::Change,
            bindings::netdev_cmd_NETDEV_CHANGEMTU => Event::ChangeMtu,
            bindings::netdev_cmd_NETDEV_CHANGEADDR => Event::ChangeAddress,
            bindings::netdev_cmd_NETDEV_CHANGENAME => Event::ChangeName,
            other => Event::Other(other),
        }
    }

    fn from_address(event: c_ulong, address: &bindings::in6_addr) -> Option<Self> {
        let address = addr::from_in6(address);
        // CAST: Small constants.
        match event as bindings::netdev_cmd {
            bindings::netdev_cmd_NETDEV_UP => Some(Event::AddressAdded(address)),
            bindings::netdev_cmd_NETDEV_DOWN => Some(Event::AddressRemoved(address)),
            _ => None,
        }
    }
}

/// Who is told.
pub trait Callback: Send + Sync {
    /// Something happened to `dev`, in whatever namespace.
    ///
    /// The RTNL is held, except for IPv6 addresses. For these, [`Event::AddressAdded`] and
    /// [`Event::AddressRemoved`], the callee must not sleep.
    fn event(&self, event: Event, dev: &NetDevice);
}

/// A registration of a [`Callback`].
///
/// # Invariants
///
/// The blocks are registered with their own chains as long as this exists, and each is set up
/// with its own function.
#[pin_data(PinnedDrop)]
pub struct NetdevNotifier<T: Callback> {
    #[pin]
    netdev: Opaque<bindings::notifier_block>,
    #[pin]
    inet: Opaque<bindings::notifier_block>,
    #[pin]
    inet6: Opaque<bindings::notifier_block>,
    /// Unregistering announces the end of all devices, which is of no interest.
    closing: Atomic<bool>,
    callback: Arc<T>,
}

// SAFETY: Notifiers may be registered and unregistered on any thread, and the callback is `Send`.
unsafe impl<T: Callback> Send for NetdevNotifier<T> {}

// SAFETY: There is nothing to do with a shared one but calling the callback, which is `Sync`.
unsafe impl<T: Callback> Sync for NetdevNotifier<T> {}

type Function = unsafe extern "C" fn(*mut bindings::notifier_block, c_ulong, *mut c_void) -> c_int;

/// Sets up a block.
fn block(function: Function) -> bindings::notifier_block {
    bindings::notifier_block {
        notifier_call: Some(function),
        ..pin_init::zeroed()
    }
}

impl<T: Callback> NetdevNotifier<T> {
    /// Registers `callback`. Process context, the RTNL is not held.
    ///
    /// The devices that there are already are announced at once, by [`Event::Register`] and
    /// [`Event::Up`]; their addresses are not.
    ///
    /// # Errors
    ///
    /// What C says; then the callback may have been called nevertheless.
    pub fn new(callback: Arc<T>) -> Result<Pin<KBox<Self>>> {
        let this = KBox::pin(
            Self {
                netdev: Opaque::new(block(Self::netdev_event)),
                inet: Opaque::new(block(Self::inet_event)),
                inet6: Opaque::new(block(Self::inet6_event)),
                closing: Atomic::new(false),
                callback,
            },
            GFP_KERNEL,
        )?;
        // INVARIANT: Registers each block, and drop unregisters each: unregistering one that is
        // not registered is harmless, it is an error that is ignored there.
        //
        // SAFETY: The blocks stay where they are until they are unregistered.
        unsafe {
            to_result(bindings::register_inetaddr_notifier(this.inet.get()))?;
            to_result(bindings::register_inet6addr_notifier(this.inet6.get()))?;
            to_result(bindings::register_netdevice_notifier(this.netdev.get()))?;
        }
        Ok(this)
    }

    fn call(&self, event: Event, dev: &NetDevice) {
        if !self.closing.load(Relaxed) {
            self.callback.event(event, dev);
        }
    }

    /// # Safety
    ///
    /// `nb` must be the `netdev` of a `Self`, and `ptr` what the chain of devices passes.
    unsafe extern "C" fn netdev_event(
        nb: *mut bindings::notifier_block,
        event: c_ulong,
        ptr: *mut c_void,
    ) -> c_int {
        let nb = Opaque::cast_from(nb).cast_mut();
        // SAFETY: By the requirements of this function; a block is called only while registered.
        let this = unsafe { &*container_of!(nb, Self, netdev) };
        // SAFETY: By the requirements of this function; the device lives at least as long as it
        // is called about.
        let dev = unsafe { NetDevice::from_raw(bindings::metaroce_net_notifier_dev(ptr)) };
        this.call(Event::from_netdev(event), dev);
        NOTIFY_DONE
    }

    /// # Safety
    ///
    /// `nb` must be the `inet` of a `Self`, and `ptr` what the chain of IPv4 addresses passes.
    unsafe extern "C" fn inet_event(
        nb: *mut bindings::notifier_block,
        event: c_ulong,
        ptr: *mut c_void,
    ) -> c_int {
        let nb = Opaque::cast_from(nb).cast_mut();
        // SAFETY: As in `netdev_event`.
        let this = unsafe { &*container_of!(nb, Self, inet) };
        let mut address = bindings::in6_addr::default();
        // SAFETY: As in `netdev_event`; `address` is valid for writes.
        let dev =
            unsafe { NetDevice::from_raw(bindings::metaroce_net_ifa_dev(ptr, &raw mut address)) };
        if let Some(event) = Event::from_address(event, &address) {
            this.call(event, dev);
        }
        NOTIFY_DONE
    }

    /// # Safety
    ///
    /// `nb` must be the `inet6` of a `Self`, and `ptr` what the chain of IPv6 addresses passes.
    unsafe extern "C" fn inet6_event(
        nb: *mut bindings::notifier_block,
        event: c_ulong,
        ptr: *mut c_void,
    ) -> c_int {
        let nb = Opaque::cast_from(nb).cast_mut();
        // SAFETY: As in `netdev_event`.
        let this = unsafe { &*container_of!(nb, Self, inet6) };
        let mut address = bindings::in6_addr::default();
        // SAFETY: As in `netdev_event`; `address` is valid for writes.
        let dev =
            unsafe { NetDevice::from_raw(bindings::metaroce_net_ifa6_dev(ptr, &raw mut address)) };
        if let Some(event) = Event::from_address(event, &address) {
            this.call(event, dev);
        }
        NOTIFY_DONE
    }
}

/// The callback does not care whether others are told.
const NOTIFY_DONE: c_int = 0;

#[pinned_drop]
impl<T: Callback> PinnedDrop for NetdevNotifier<T> {
    fn drop(self: Pin<&mut Self>) {
        self.closing.store(true, Relaxed);
        // SAFETY: By the type invariant. Each call waits until the block is not called any more.
        unsafe {
            bindings::unregister_netdevice_notifier(self.netdev.get());
            bindings::unregister_inet6addr_notifier(self.inet6.get());
            bindings::unregister_inetaddr_notifier(self.inet.get());
        }
    }
}
