// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: allocation, registration, the list of those there are.

use core::{
    alloc::Layout,
    any::TypeId,
    marker::PhantomData,
    ops::Deref,
    ptr::NonNull, //
};

use crate::{
    net::netdev::{
        NetDevice,
        NetDeviceRef, //
    },
    sync::global_mutex::global_mutex,
};
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

use super::{
    ops::{
        Operations,
        VTable, //
    }, //
};

/// The only port of a device.
pub const PORT: u32 = 1;

global_mutex! {
    /// The devices of this module.
    pub(super) static DEVICES: KVec<Entry> = KVec::new();
}

/// An entry of [`DEVICES`].
///
/// # Invariants
///
/// `device` points to a [`Device`] of the driver of type `driver` whose data is initialised and is
/// not dropped while the entry is in the list.
pub(super) struct Entry {
    device: NonNull<bindings::ib_device>,
    driver: TypeId,
}

// SAFETY: Devices do not depend on the thread they are used from.
unsafe impl Send for Entry {}

/// A device: that of ib_core, and the driver's data.
///
/// # Invariants
///
/// Whoever has a reference to a `Device` came to it when both parts were initialised, and has it
/// for no longer than that.
#[repr(C)]
pub struct Device<T: Operations> {
    raw: Opaque<bindings::ib_device>,
    data: T,
}

// SAFETY: `struct ib_device` does not depend on the thread it is used from, and `T` is `Send`.
unsafe impl<T: Operations> Send for Device<T> {}

// SAFETY: `struct ib_device` does its own locking, and `T` is `Sync`.
unsafe impl<T: Operations> Sync for Device<T> {}

impl<T: Operations> Deref for Device<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T: Operations> Device<T> {
    /// Borrows the device from its C part.
    ///
    /// # Safety
    ///
    /// `raw` must point to the C part of a device of `T` that is initialised during `'a`.
    pub(super) unsafe fn from_raw<'a>(raw: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: The C part is at offset 0; the caller promises the rest.
        unsafe { &*raw.cast::<Self>() }
    }

    /// Drops the driver's data, after the device left the list.
    ///
    /// # Safety
    ///
    /// `raw` must point to the C part of a device of `T` that is initialised, that nobody uses any
    /// more, and whose data is not used after this.
    pub(super) unsafe fn deinit(raw: *mut bindings::ib_device) {
        DEVICES.lock().retain(|entry| entry.device.as_ptr() != raw);
        // SAFETY: By the requirements of this function, and the list, which needs the data too,
        // has the device no more.
        unsafe { core::ptr::drop_in_place(&raw mut (*raw.cast::<Self>()).data) };
    }

    /// Returns the C part.
    pub(super) fn as_raw(&self) -> *mut bindings::ib_device {
        self.raw.get()
    }

    /// Returns whether the device is called `name`.
    pub fn has_name(&self, name: &CStr) -> bool {
        // SAFETY: By the type invariant, and `name` is a C string. A rename at the same time gives
        // a wrong answer at worst.
        unsafe { bindings::metaroce_ib_device_has_name(self.as_raw(), name.as_char_ptr()) }
    }

    /// Returns whether processes in the network namespace of `ndev` see the device.
    pub fn is_visible_from(&self, ndev: &NetDevice) -> bool {
        // SAFETY: By the type invariants of `self` and `ndev`, whose namespace lives while it has
        // devices.
        unsafe {
            bindings::rdma_dev_access_netns(
                self.as_raw(),
                bindings::metaroce_dev_net(ndev.as_raw()),
            )
        }
    }

    /// Sets, changes or removes the network device of the port.
    ///
    /// A driver must remove it before a network device is unregistered.
    pub fn set_netdev(&self, ndev: Option<&NetDevice>) -> Result {
        let ndev = ndev.map_or(core::ptr::null_mut(), NetDevice::as_raw);
        // SAFETY: By the type invariants; the callee takes its own reference.
        to_result(unsafe { bindings::ib_device_set_netdev(self.as_raw(), ndev, PORT) })
    }

    /// Returns the network device of the port, if there is one.
    pub fn netdev(&self) -> Option<NetDeviceRef> {
        // SAFETY: By the type invariant.
        let ndev = unsafe { bindings::ib_device_get_netdev(self.as_raw(), PORT) };
        // SAFETY: If it is not null, then it is a device with a reference, which goes to the
        // caller.
        NonNull::new(ndev).map(|ndev| unsafe { NetDeviceRef::from_raw(ndev.cast()) })
    }

    /// Makes the GIDs of the port those of its network device's addresses.
    ///
    /// ib_core follows the addresses by itself, but not the change of the network device. Must
    /// not be called with the RTNL held.
    pub fn rescan_gids(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_roce_rescan_port(self.as_raw(), PORT) };
    }

    /// Returns the node's GUID, in network byte order.
    pub fn node_guid(&self) -> [u8; 8] {
        // SAFETY: By the type invariant; the member does not change after the allocation.
        unsafe { (*self.as_raw()).node_guid }.to_ne_bytes()
    }

    /// Returns width and speed of the port's network device as InfiniBand codes them.
    ///
    /// Must not be called with the RTNL held.
    pub fn eth_speed(&self) -> Result<(u8, u16)> {
        let (mut width, mut speed) = (0, 0);
        // SAFETY: By the type invariant; the other pointers are to locals.
        to_result(unsafe {
            bindings::ib_get_eth_speed(self.as_raw(), PORT, &raw mut speed, &raw mut width)
        })?;
        Ok((width, speed))
    }

    /// Reports an event of the port.
    ///
    /// May be called in any context but NMI.
    pub fn report(&self, event: PortEvent) {
        let event = bindings::ib_event {
            device: self.as_raw(),
            element: bindings::ib_event__bindgen_ty_1 { port_num: PORT },
            // CAST: The enumeration has the values of the C one.
            event: event as u32,
        };
        // SAFETY: The device is registered, or the callee finds no handlers.
        unsafe { bindings::ib_dispatch_event(&raw const event) };
    }
}

/// An asynchronous event about a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PortEvent {
    /// The port came up.
    Active = bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
    /// The port went down.
    Error = bindings::ib_event_type_IB_EVENT_PORT_ERR,
    /// The port's GIDs changed.
    GidChange = bindings::ib_event_type_IB_EVENT_GID_CHANGE,
}

// SAFETY: Devices do not depend on the thread they are used from, and are `Send` and `Sync`.
unsafe impl<T: Operations> Send for DeviceRef<T> {}

// SAFETY: As above.
unsafe impl<T: Operations> Sync for DeviceRef<T> {}

/// What a device is allocated with.
pub struct Description<'a> {
    /// Describes the node, for humans.
    pub node_desc: &'a CStr,
    /// Number of completion vectors, at least one.
    pub num_comp_vectors: u32,
}

/// A device that is not registered yet.
///
/// # Invariants
///
/// `raw` points to the C part of a [`Device`] whose data is initialised and which this owns.
pub struct UnregisteredDevice<T: Operations> {
    raw: NonNull<bindings::ib_device>,
    _data: PhantomData<T>,
}

impl<T: Operations> UnregisteredDevice<T> {
    /// Allocates a device in the network namespace of `ndev`, its port's network device.
    pub fn new<E>(
        ndev: &NetDevice,
        desc: &Description<'_>,
        data: impl PinInit<T, E>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        const_assert!(core::mem::offset_of!(Device<T>, raw) == 0);

        let size = Layout::new::<Device<T>>().pad_to_align().size();
        // SAFETY: The size is that of a `Device`; the namespace of `ndev` lives while it has
        // devices.
        let raw =
            unsafe { bindings::_ib_alloc_device(size, bindings::metaroce_dev_net(ndev.as_raw())) };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        let dev = raw.as_ptr();

        // SAFETY: This is the place of the data, which nobody else uses yet.
        let init =
            unsafe { pin_init::raw_try_init(&raw mut (*dev.cast::<Device<T>>()).data, data) };
        if let Err(e) = init {
            // SAFETY: The device was allocated above. It has no operations yet, so its
            // deallocation does not look at the data.
            unsafe { bindings::ib_dealloc_device(dev) };
            return Err(e.into());
        }
        // SAFETY: The device was allocated above, and the operations are `'static`. From here on
        // the deallocation drops the data.
        unsafe { bindings::ib_set_device_ops(dev, VTable::<T>::OPS) };
        // INVARIANT: Allocated and initialised above.
        let this = Self {
            raw,
            _data: PhantomData,
        };

        // SAFETY: `dev` was just allocated, and is neither registered nor in the list: nobody else can
        // come to it.
        unsafe {
            // CAST: The constant is that of the member.
            (*dev).node_type = bindings::RDMA_NODE_IB_CA as u8;
            (*dev).phys_port_cnt = PORT;
            (*dev).num_comp_vectors = c_int::try_from(desc.num_comp_vectors)?;
            (*dev).uverbs_cmd_mask |= VTable::<T>::UVERBS_COMMANDS;
            (*dev).driver_def = T::METHODS.as_raw();
            for (to, from) in (*dev).node_desc.iter_mut().zip(desc.node_desc.to_bytes()) {
                // CAST: A byte to a character, whose signedness C leaves open.
                *to = *from as c_char;
            }
            bindings::metaroce_ib_device_guid(dev, ndev.as_raw());
            bindings::metaroce_ib_mark_name_assigned_by_user(dev);
        }
        this.set_netdev(Some(ndev))?;
        Ok(this)
    }

    /// Registers the device as `name`: from now on it belongs to ib_core.
    ///
    /// To be called with neither the RTNL nor any lock that the operations take.
    pub fn register(self, name: &CStr) -> Result {
        // INVARIANT: The data is initialised by the type invariant of `self`, and `Device::deinit`
        // takes the entry away before it is dropped.
        DEVICES.lock().push(
            Entry {
                device: self.raw,
                driver: TypeId::of::<T>(),
            },
            GFP_KERNEL,
        )?;
        // SAFETY: By the type invariant the device is set up, with its operations, and not registered;
        // `name` is a C string.
        to_result(unsafe {
            bindings::ib_register_device(
                self.raw.as_ptr(),
                name.as_char_ptr(),
                core::ptr::null_mut(),
            )
        })?;
        // The device may be gone already; either way it is not ours any more.
        core::mem::forget(self);
        Ok(())
    }
}

impl<T: Operations> Deref for UnregisteredDevice<T> {
    type Target = Device<T>;

    fn deref(&self) -> &Device<T> {
        // SAFETY: By the type invariant.
        unsafe { Device::from_raw(self.raw.as_ptr()) }
    }
}

impl<T: Operations> Drop for UnregisteredDevice<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the device. `dealloc_driver` drops the data.
        unsafe { bindings::ib_dealloc_device(self.raw.as_ptr()) };
    }
}

/// A registered device that cannot be unregistered while this exists.
///
/// # Invariants
///
/// `raw` points to the C part of a [`Device`] of `T`, with a registration reference of which this
/// is the owner.
pub struct DeviceRef<T: Operations> {
    raw: NonNull<bindings::ib_device>,
    _device: PhantomData<Device<T>>,
}

impl<T: Operations> DeviceRef<T> {
    /// Returns a registered device that `f` says yes to, if there is one.
    ///
    /// `f` runs with the list of devices locked: it must not register or unregister devices, and
    /// not take a lock under which that is done.
    pub fn find(mut f: impl FnMut(&Device<T>) -> bool) -> Option<Self> {
        let devices = DEVICES.lock();
        for entry in devices.iter() {
            if entry.driver != TypeId::of::<T>() {
                continue;
            }
            // SAFETY: By the invariant of `Entry`; the list is locked.
            let dev = unsafe { Device::<T>::from_raw(entry.device.as_ptr()) };
            if !f(dev) {
                continue;
            }
            // SAFETY: As above.
            if unsafe { bindings::metaroce_ib_device_try_get(entry.device.as_ptr()) } {
                // INVARIANT: The reference was just taken.
                return Some(Self {
                    raw: entry.device,
                    _device: PhantomData,
                });
            }
        }
        None
    }

    /// Starts to unregister the device, which happens in a worker when this and all other
    /// references are gone.
    pub fn unregister_queued(self) {
        // SAFETY: By the type invariant the device is registered, and operations of this module
        // include `dealloc_driver`.
        unsafe { bindings::ib_unregister_device_queued(self.raw.as_ptr()) };
    }
}

impl<T: Operations> Deref for DeviceRef<T> {
    type Target = Device<T>;

    fn deref(&self) -> &Device<T> {
        // SAFETY: By the type invariant.
        unsafe { Device::from_raw(self.raw.as_ptr()) }
    }
}

impl<T: Operations> Drop for DeviceRef<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns a reference.
        unsafe { bindings::ib_device_put(self.raw.as_ptr()) };
    }
}

/// Unregisters every device of `T`, and waits for those that are being unregistered.
///
/// The caller makes sure that no new ones appear.
pub(super) fn unregister_all<T: Operations>() {
    // SAFETY: The id is that of this driver alone, and all its devices have `dealloc_driver`.
    unsafe { bindings::ib_unregister_driver(T::DRIVER_ID) };
}
