// SPDX-License-Identifier: GPL-2.0

//! A simulated NIC, registered or not.

use super::{
    abi::Registration,
    firmware::Firmware,
    knobs::{
        Knobs,
        Op, //
    }, //
};
use crate::net::netdev::NetDevice;
use core::fmt;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A simulated NIC.
#[pin_data]
pub(crate) struct Device {
    pub(crate) knobs: Arc<Knobs>,
    #[pin]
    registration: Mutex<Option<Registration>>,
}

impl Device {
    /// Makes one that is not registered. Process context.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let knobs = Arc::pin_init(Knobs::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                knobs,
                registration <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Registers for a network device, with new firmware. What it was registered for before is
    /// taken back first. Process context.
    ///
    /// Errors: as the core says.
    pub(crate) fn register(&self, ndev: &NetDevice) -> Result {
        let mut registration = self.registration.lock();
        *registration = None;
        self.knobs.begin(Op::Register)?;
        let firmware = Firmware::new(self.knobs.clone())?;
        *registration = Some(Registration::new(ndev, &self.knobs.caps(), firmware)?);
        self.knobs.done(Op::Register);
        Ok(())
    }

    /// Takes the registration back. Process context.
    pub(crate) fn unregister(&self) {
        *self.registration.lock() = None;
    }

    /// Fails: the firmware stands still, and the core is told so, with `why`. Process context.
    ///
    /// Errors: `ENODEV` if it is not registered.
    pub(crate) fn fault(&self, why: &CStr) -> Result {
        let registration = self.registration.lock();
        registration.as_ref().ok_or(ENODEV)?.fault(why);
        Ok(())
    }

    /// Writes what the paths of its connections do. Process context.
    pub(crate) fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.registration.lock() {
            Some(registration) => registration.firmware().describe(f),
            None => Ok(()),
        }
    }
}
