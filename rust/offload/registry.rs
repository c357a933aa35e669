// SPDX-License-Identifier: GPL-2.0

//! The devices that there are.

use super::{
    abi::Ops,
    caps::Caps,
    nic::Nic, //
};
use crate::{
    net::netdev::NetDevice,
    sync::global_mutex::global_mutex, //
};
use kernel::{
    prelude::*,
    str::BStr,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};

global_mutex! {
    /// All registrations.
    static NICS: KVec<Arc<Nic>> = KVec::new();
}

/// Adds a device. Process context.
///
/// Errors: as the header says of `metaroce_ofl_register()`.
pub(super) fn register(
    ndev: &NetDevice,
    ops: Ops,
    caps: Caps,
    priv_: *mut c_void,
) -> Result<Arc<Nic>> {
    if caps.wire_version != bindings::METAROCE_OFL_WIRE_VERSION {
        return Err(EPROTONOSUPPORT);
    }
    let nic = Nic::new(ndev, ops, caps, priv_)?;
    let added = {
        let mut nics = NICS.lock();
        if nics.iter().any(|other| other.is_of(ndev)) {
            Err(EEXIST)
        } else {
            nics.push(nic.clone(), GFP_KERNEL).map_err(Into::into)
        }
    };
    added.inspect_err(|_| nic.end())?;
    pr_info!(
        "offload: {} registered for {}\n",
        BStr::from_bytes(ops.name().to_bytes()),
        nic.first_name()
    );
    Ok(nic)
}

/// Removes a device; its driver is called no more on return. Process context.
pub(super) fn unregister(nic: &Nic) {
    let gone = {
        let mut nics = NICS.lock();
        let at = nics.iter().position(|other| core::ptr::eq(&**other, nic));
        let gone = at.and_then(|at| nics.remove(at).ok());
        if nics.is_empty() {
            // A static keeps its memory when the module goes.
            *nics = KVec::new();
        }
        gone
    };
    if let Some(nic) = gone {
        nic.end();
        pr_info!("offload: {} unregistered\n", nic.first_name());
    }
}

/// A device does not work any more. Any context but NMI.
pub(super) fn fault(nic: ArcBorrow<'_, Nic>, why: &CStr) {
    pr_warn!(
        "offload: {}: {}\n",
        nic.first_name(),
        BStr::from_bytes(why.to_bytes())
    );
    let nic = Arc::from(nic);
    nic.fault();
}

/// Returns the device of a network device. Process context.
pub(super) fn find(ndev: &NetDevice) -> Option<Arc<Nic>> {
    let nics = NICS.lock();
    nics.iter().find(|nic| nic.is_of(ndev)).cloned()
}

/// A network device leaves its namespace. Its device works no more if that is for good, else it
/// lets go of what it has. Process context.
pub(crate) fn netdev_gone(ndev: &NetDevice) {
    if let Some(nic) = find(ndev) {
        if ndev.is_registered() {
            nic.leave_soon();
        } else {
            nic.kill();
        }
    }
}
