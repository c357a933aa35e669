// SPDX-License-Identifier: GPL-2.0

//! The interface with the core: its structures, its functions, and the operations that it calls.
//!
//! All `unsafe` of this module is here.
//!
//! C header: `include/metaroce/offload.h`

mod ops;
mod refs;
mod translate;

pub(crate) use self::refs::{
    CqRef,
    QpRef, //
};

use super::{
    caps::Caps,
    firmware::Firmware, //
};
use crate::net::netdev::NetDevice;
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::Arc, //
};

type Ofl = bindings::metaroce_ofl;

/// A registration, which ends when this is dropped.
///
/// # Invariants
///
/// `ofl` is a registration that this owns, whose `priv` is that of `firmware`.
pub(crate) struct Registration {
    ofl: NonNull<Ofl>,
    firmware: Arc<Firmware>,
}

// SAFETY: Registrations may be used and ended on any thread.
unsafe impl Send for Registration {}

// SAFETY: As above.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers for a network device. Process context.
    ///
    /// Errors: as `metaroce_ofl_register()`.
    pub(crate) fn new(ndev: &NetDevice, caps: &Caps, firmware: Arc<Firmware>) -> Result<Self> {
        let priv_ = Arc::as_ptr(&firmware).cast_mut().cast();
        // SAFETY: `ndev` is live; the operations are static; `priv_` lives as long as the
        // registration, see `drop`.
        let ofl = from_err_ptr(unsafe {
            bindings::metaroce_ofl_register(ndev.as_raw(), &ops::TABLE.0, caps, priv_)
        });
        let ofl = ofl.and_then(|ofl| NonNull::new(ofl).ok_or(EINVAL));
        let ofl = ofl.inspect_err(|_| firmware.stop())?;
        // INVARIANT: Just made.
        Ok(Self { ofl, firmware })
    }

    /// Returns the firmware.
    pub(crate) fn firmware(&self) -> &Firmware {
        &self.firmware
    }

    /// The firmware stands still from now on, and the core is told. Any context but NMI.
    pub(crate) fn fault(&self, why: &CStr) {
        self.firmware.die();
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_ofl_fault(self.ofl.as_ptr(), why.as_char_ptr()) };
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the firmware is there until it has returned.
        unsafe { bindings::metaroce_ofl_unregister(self.ofl.as_ptr()) };
        self.firmware.stop();
    }
}
