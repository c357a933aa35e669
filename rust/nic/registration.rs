// SPDX-License-Identifier: GPL-2.0

//! Registering a device with the core, for drivers in Rust.
//!
//! C header: `include/metaroce/offload.h`

use crate::net::netdev::NetDevice;
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// The operations of a driver.
pub(crate) struct Operations(bindings::metaroce_ofl_ops);

// SAFETY: The operations may be called on any thread, and nothing changes them.
unsafe impl Sync for Operations {}

impl Operations {
    /// Wraps operations.
    pub(crate) const fn new(ops: bindings::metaroce_ofl_ops) -> Self {
        Self(ops)
    }
}

/// A registration, which ends when this is dropped: no operation is called any more then. Process
/// context, the RTNL is not held then.
///
/// # Invariants
///
/// `ofl` is a registration that this owns.
pub(crate) struct Registration {
    ofl: NonNull<bindings::metaroce_ofl>,
}

// SAFETY: `include/metaroce/offload.h` asks for process context to end one, not for a thread, and allows
// for faults in any.
unsafe impl Send for Registration {}

// SAFETY: As above.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers for a network device. Process context, with or without the RTNL.
    ///
    /// Errors: as `metaroce_ofl_register()`.
    ///
    /// # Safety
    ///
    /// Until the registration has ended, `priv_` must be what the operations take it for.
    pub(crate) unsafe fn new(
        ndev: &NetDevice,
        ops: &'static Operations,
        caps: &bindings::metaroce_ofl_caps,
        priv_: *mut c_void,
    ) -> Result<Self> {
        // SAFETY: `ndev` is live; the operations are static; `priv_` is by the requirements of this
        // function.
        let ofl = from_err_ptr(unsafe {
            bindings::metaroce_ofl_register(ndev.as_raw(), &ops.0, caps, priv_)
        })?;
        // INVARIANT: Just made.
        Ok(Self {
            ofl: NonNull::new(ofl).ok_or(EINVAL)?,
        })
    }

    /// Tells the core that the firmware stands still. Any context but NMI.
    pub(crate) fn fault(&self, why: &CStr) {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_ofl_fault(self.ofl.as_ptr(), why.as_char_ptr()) };
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_ofl_unregister(self.ofl.as_ptr()) };
    }
}
