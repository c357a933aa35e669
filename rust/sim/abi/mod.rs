// SPDX-License-Identifier: GPL-2.0

//! The interface with the core: its structures, its functions, and the operations that it calls.
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
    firmware::Firmware,
    registration, //
};
use crate::net::netdev::NetDevice;
use kernel::{
    prelude::*,
    sync::Arc, //
};

type Ofl = bindings::metaroce_ofl;

/// Firmware that runs, until this is dropped.
struct Running(Arc<Firmware>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A registration with its firmware, which ends when this is dropped.
pub(crate) struct Registration {
    /// Goes first: its operations use the firmware.
    registration: registration::Registration,
    running: Running,
}

impl Registration {
    /// Registers for a network device. Process context.
    ///
    /// Errors: as `metaroce_ofl_register()`.
    pub(crate) fn new(ndev: &NetDevice, caps: &Caps, firmware: Arc<Firmware>) -> Result<Self> {
        let running = Running(firmware);
        let priv_ = Arc::as_ptr(&running.0).cast_mut().cast();
        Ok(Self {
            // SAFETY: The operations take the last argument for a firmware, and it is there for
            // longer than the registration.
            registration: unsafe {
                registration::Registration::new(ndev, &ops::TABLE, caps, priv_)
            }?,
            running,
        })
    }

    /// Returns the firmware.
    pub(crate) fn firmware(&self) -> &Firmware {
        &self.running.0
    }

    /// The firmware stands still from now on, and the core is told. Any context but NMI.
    pub(crate) fn fault(&self, why: &CStr) {
        self.running.0.die();
        self.registration.fault(why);
    }
}
