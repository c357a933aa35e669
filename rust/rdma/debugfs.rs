// SPDX-License-Identifier: GPL-2.0

//! A directory in debugfs for each device: `<driver>/<device>`.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use crate::{
    net::namespace::Net,
    sync::global_mutex::global_mutex, //
};
use kernel::{
    debugfs::Dir,
    prelude::*,
    str::CString, //
};

global_mutex! {
    /// The driver's directory, once there was a device.
    pub(super) static ROOT: Option<Dir> = None;
}

/// Makes a directory for the device called `name`, in that of the driver. Process context.
///
/// debugfs is the same for all network namespaces, and devices of several may have one name. So a
/// device in another namespace than the first has the number of its namespace behind its name
/// (`mr0.4711`). A device that is renamed keeps its directory.
///
/// Without debugfs, or if there is a directory of that name, there are no files; nobody may rely on
/// debugfs.
///
/// Errors: `ENOMEM`.
pub fn device_dir(driver: &CStr, name: &CStr, net: &Net) -> Result<Dir> {
    let mut root = ROOT.lock();
    let root = root.get_or_insert_with(|| Dir::new(driver));
    if net == Net::init_net() {
        return Ok(root.subdir(name));
    }
    let name = name.to_str().map_err(|_| EINVAL)?;
    let cookie = net.cookie();
    Ok(root.subdir(&CString::try_from_fmt(fmt!("{name}.{cookie}"))?))
}
