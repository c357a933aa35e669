// SPDX-License-Identifier: GPL-2.0

//! The simulated NICs that there are.

use super::{
    device::Device,
    files::Files, //
};
use crate::net::netdev::NetDevice;
use kernel::{
    debugfs::Dir,
    fmt,
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// A device with its files.
struct Entry {
    name: CString,
    /// Go first: nobody sets anything any more.
    _files: Pin<KBox<Files>>,
    device: Arc<Device>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.device.unregister();
    }
}

/// All devices.
#[pin_data]
pub(crate) struct Registry {
    /// [`None`] when the module goes.
    #[pin]
    entries: Mutex<Option<KVec<Entry>>>,
}

impl Registry {
    /// Makes an empty list. Process context.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                entries <- new_mutex!(Some(KVec::new())),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes a device called `name` and registers it for `ndev`, with its files in `dir`. Process
    /// context.
    ///
    /// Errors: `EEXIST` if there is one of that name; as the core says.
    pub(crate) fn add(&self, dir: &Dir, name: CString, ndev: &NetDevice) -> Result {
        let mut entries = self.entries.lock();
        let Some(entries) = &mut *entries else {
            return Err(ENODEV);
        };
        if entries.iter().any(|e| *e.name == *name) {
            return Err(EEXIST);
        }
        entries.reserve(1, GFP_KERNEL)?;
        let device = Device::new()?;
        device.register(ndev)?;
        let entry = Entry {
            _files: KBox::pin_init(Files::new(&dir.subdir(&name), device.clone()), GFP_KERNEL)?,
            name,
            device,
        };
        entries.push_within_capacity(entry).map_err(|_| ENOMEM)?;
        Ok(())
    }

    /// Takes the device called `name` away. Process context.
    ///
    /// Errors: `ENOENT` if there is none.
    pub(crate) fn remove(&self, name: &[u8]) -> Result {
        let mut entries = self.entries.lock();
        let Some(entries) = &mut *entries else {
            return Err(ENODEV);
        };
        let at = entries.iter().position(|e| e.name.to_bytes() == name);
        drop(entries.remove(at.ok_or(ENOENT)?).map_err(|_| ENOENT)?);
        Ok(())
    }

    /// Takes all away; none is made any more. Process context.
    pub(crate) fn close(&self) {
        let entries = self.entries.lock().take();
        drop(entries);
    }

    /// Writes the names, one a line. Process context.
    pub(crate) fn list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.lock();
        for entry in entries.iter().flatten() {
            f.write_fmt(fmt!("{}\n", &*entry.name))?;
        }
        Ok(())
    }
}
