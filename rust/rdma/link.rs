// SPDX-License-Identifier: GPL-2.0

//! Devices that the administrator adds: `rdma link add NAME type TYPE netdev NETDEV`.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)

use core::marker::{
    PhantomData,
    PhantomPinned, //
};

use crate::{
    net::netdev::NetDevice,
    sync::{
        global_mutex::global_mutex,
        work::OwnedQueue, //
    },
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::atomic::{
        ordering::Full,
        Atomic, //
    },
    types::Opaque, //
};

use super::{
    debugfs,
    device::{
        self,
        DEVICES, //
    },
    ops::Operations,
    work, //
};

global_mutex! {
    /// Held during [`LinkType::new_link`].
    static NEW_LINK: () = ();
}

/// Whether there was a [`Registration`] already: what there is of all devices ends with the one.
static REGISTERED: Atomic<bool> = Atomic::new(false);

/// A type of link.
pub trait LinkType: Operations {
    /// Name of the type.
    const NAME: &'static CStr;

    /// Adds a link called `name` over `ndev`, or to the one of that name.
    ///
    /// Calls are serialised. The RTNL is not held.
    fn new_link(name: &CStr, ndev: &NetDevice) -> Result;
}

/// The registration of a link type.
///
/// Dropping it removes all devices of the driver, and waits for its work. A module can register one link type, once.
#[pin_data(PinnedDrop)]
pub struct Registration<T: LinkType> {
    /// # Invariants
    ///
    /// Registered from the success of `new` on until the drop.
    #[pin]
    ops: Opaque<bindings::rdma_link_ops>,
    #[pin]
    _pin: PhantomPinned,
    _type: PhantomData<T>,
}

// SAFETY: `rdma_link_unregister()` takes a lock of its own and looks at no property of the thread.
unsafe impl<T: LinkType> Send for Registration<T> {}

// SAFETY: There is no method that takes a shared one.
unsafe impl<T: LinkType> Sync for Registration<T> {}

impl<T: LinkType> Registration<T> {
    /// Registers the link type.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _: {
                if REGISTERED.xchg(true, Full) {
                    return Err(EBUSY);
                }
                *work::FETCHING.lock() = Some(OwnedQueue::new_long(c"metaroce_odp")?);
            },
            ops <- Opaque::ffi_init(|ops: *mut bindings::rdma_link_ops| {
                // SAFETY: `ops` is valid for writes, stays where it is, and is unregistered
                // before it is dropped.
                unsafe {
                    ops.write(bindings::rdma_link_ops {
                        type_: T::NAME.as_char_ptr(),
                        newlink: Some(Self::new_link_callback),
                        ..pin_init::zeroed()
                    });
                    bindings::rdma_link_register(ops);
                }
            }),
            _pin: PhantomPinned,
            _type: PhantomData,
        })
    }

    /// Adds a link.
    ///
    /// # Safety
    ///
    /// To be called by ib_core, with a name and a network device that it has a reference to.
    unsafe extern "C" fn new_link_callback(
        name: *const c_char,
        ndev: *mut bindings::net_device,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (name, ndev) = unsafe { (CStr::from_char_ptr(name), NetDevice::from_raw(ndev)) };
        from_result(|| {
            let _guard = NEW_LINK.lock();
            T::new_link(name, ndev).map(|()| 0)
        })
    }
}

#[pinned_drop]
impl<T: LinkType> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the invariant of `ops`. No `newlink` runs any more on return.
        unsafe { bindings::rdma_link_unregister(self.ops.get()) };
        device::unregister_all::<T>();
        // The list is empty, but would keep its memory.
        *DEVICES.lock() = KVec::new();
        // The directories in it are gone with the devices.
        *debugfs::ROOT.lock() = None;
        work::flush();
        // The devices are gone, and with them all regions: what is left of them is in this queue,
        // which is done with it when it is freed.
        let fetching = work::FETCHING.lock().take();
        drop(fetching);
    }
}
