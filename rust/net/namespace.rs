// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    types::Opaque, //
};

/// A network namespace, `struct net`.
///
/// A reference that is held ([`NetRef`]) keeps the namespace in full function: it is not even
/// dismantled. So nobody who has to go away with the namespace may hold one; such an object
/// remembers the [`Net::cookie`] and learns from [`Operations::exit`] that it is over.
///
/// # Invariants
///
/// A reference to it is to a `struct net` that is not freed.
#[repr(transparent)]
pub struct Net(Opaque<bindings::net>);

// SAFETY: A `struct net` belongs to no thread: whoever is in the namespace uses it, and the last
// reference can be dropped anywhere.
unsafe impl Send for Net {}

// SAFETY: The methods compare its address, count references atomically, and read the cookie, which is
// set before anybody else knows of the namespace.
unsafe impl Sync for Net {}

impl Net {
    /// Borrows a namespace.
    ///
    /// # Safety
    ///
    /// `raw` must point to a namespace that someone has a reference to, or that is just being set up
    /// or dismantled, for `'a`.
    pub unsafe fn from_raw<'a>(raw: *mut bindings::net) -> &'a Self {
        // SAFETY: By the requirements of this function; the type is transparent.
        unsafe { &*raw.cast() }
    }

    /// Returns the namespace that is there from the beginning.
    pub fn init_net() -> &'static Self {
        // SAFETY: That namespace is a C global, and never goes away.
        unsafe { Self::from_raw(&raw mut bindings::init_net) }
    }

    /// Returns the C namespace.
    pub fn as_raw(&self) -> *mut bindings::net {
        self.0.get()
    }

    /// Takes a reference, unless the namespace is being dismantled. Any context.
    pub fn get(&self) -> Option<NetRef> {
        // SAFETY: By the type invariant.
        let taken = unsafe { bindings::metaroce_net_try_get(self.as_raw()) };
        // INVARIANT: The reference was just taken.
        taken.then(|| NetRef(NonNull::from(self)))
    }

    /// Whether the caller may administrate the namespace (`CAP_NET_ADMIN`). Process context.
    pub fn is_administrator(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_admin(self.as_raw()) }
    }

    /// Returns the number of the namespace, which no other one has or will have.
    pub fn cookie(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_cookie(self.as_raw()) }
    }
}

impl PartialEq for Net {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for Net {}

/// A reference to a namespace.
///
/// # Invariants
///
/// This owns a reference to the namespace.
pub struct NetRef(NonNull<Net>);

// SAFETY: What it owns is one of an atomic count of references; whoever drops the last leaves the rest
// to a worker.
unsafe impl Send for NetRef {}

// SAFETY: A shared reference only lends the namespace, which is `Sync`.
unsafe impl Sync for NetRef {}

impl NetRef {
    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// The caller must own a reference to the namespace, which is given away.
    pub(super) unsafe fn from_raw(raw: NonNull<bindings::net>) -> Self {
        // INVARIANT: By the requirements of this function.
        Self(raw.cast())
    }
}

impl Deref for NetRef {
    type Target = Net;

    fn deref(&self) -> &Net {
        // SAFETY: By the type invariant the namespace lives at least as long as this.
        unsafe { self.0.as_ref() }
    }
}

impl PartialEq for NetRef {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for NetRef {}

impl Drop for NetRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_net_put(self.as_raw()) };
    }
}

/// What is to be done for each namespace.
///
/// Called for the namespaces there are when it is registered and unregistered, too, and for
/// several namespaces at once. Process context, may sleep.
pub trait Operations: 'static {
    /// The namespace comes into being.
    fn init(_net: &Net) -> Result {
        Ok(())
    }

    /// The namespace goes away; its devices are gone. No reference to it can be taken any more.
    fn exit(net: &Net);
}

/// A registration of [`Operations`].
///
/// # Invariants
///
/// `ops` is registered as long as this exists.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Operations> {
    #[pin]
    ops: Opaque<bindings::pernet_operations>,
    _p: PhantomData<T>,
}

// SAFETY: `unregister_pernet_device()` takes a lock of its own and looks at no property of the thread;
// `T` is only a set of functions.
unsafe impl<T: Operations> Send for Registration<T> {}

// SAFETY: There is no method that takes a shared one.
unsafe impl<T: Operations> Sync for Registration<T> {}

impl<T: Operations> Registration<T> {
    /// Registers the operations. Process context.
    ///
    /// They are called before those of the protocols and after those of the devices when a
    /// namespace goes away (`register_pernet_subsys()`).
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            ops <- Opaque::try_ffi_init(|slot: *mut bindings::pernet_operations| {
                // SAFETY: `slot` is valid for writes.
                unsafe {
                    slot.write(bindings::pernet_operations {
                        init: Some(Self::init),
                        exit: Some(Self::exit),
                        ..pin_init::zeroed()
                    })
                };
                // INVARIANT: Registered if this succeeds.
                //
                // SAFETY: The operations stay where they are until they are unregistered.
                to_result(unsafe { bindings::register_pernet_subsys(slot) })
            }),
            _p: PhantomData,
        })
    }

    /// # Safety
    ///
    /// `net` must be a namespace that is being set up.
    unsafe extern "C" fn init(net: *mut bindings::net) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            T::init(unsafe { Net::from_raw(net) })?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// `net` must be a namespace that is being dismantled.
    unsafe extern "C" fn exit(net: *mut bindings::net) {
        // SAFETY: By the requirements of this function.
        T::exit(unsafe { Net::from_raw(net) });
    }
}

#[pinned_drop]
impl<T: Operations> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant.
        unsafe { bindings::unregister_pernet_subsys(self.ops.get()) };
    }
}
