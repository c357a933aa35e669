// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A /dev of this process's own.

use std::ffi::{c_char, c_int, c_ulong, c_void, CStr};
use std::{fs, io, ptr};

const CLONE_NEWNS: c_int = 0x0002_0000;
const MS_BIND: c_ulong = 1 << 12;
const MS_REC: c_ulong = 1 << 14;
const MS_PRIVATE: c_ulong = 1 << 18;

extern "C" {
    fn unshare(flags: c_int) -> c_int;
    fn mount(
        source: *const c_char,
        target: *const c_char,
        fs: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
}

fn mount_at(source: &CStr, target: &CStr, fs: &CStr, flags: c_ulong) -> io::Result<()> {
    let (source, target, fs) = (source.as_ptr(), target.as_ptr(), fs.as_ptr());
    // SAFETY: Strings that live through the call, and no data.
    match unsafe { mount(source, target, fs, flags, ptr::null()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets /dev/infiniband/uverbs0 be /dev/null: a character device that can be opened and written,
/// and knows no ioctl.
pub(crate) fn make_uverbs0() -> io::Result<()> {
    // SAFETY: No memory is involved.
    if unsafe { unshare(CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // In a chroot, / need not be a mount, and then there is nothing to make private.
    let _ = mount_at(c"none", c"/", c"none", MS_REC | MS_PRIVATE);
    mount_at(c"none", c"/dev", c"none", MS_REC | MS_PRIVATE)?;
    // The node that is about to be hidden is reached through a mount elsewhere.
    mount_at(c"tmpfs", c"/mnt", c"tmpfs", 0)?;
    fs::write("/mnt/null", "")?;
    mount_at(c"/dev/null", c"/mnt/null", c"none", MS_BIND)?;
    mount_at(c"tmpfs", c"/dev", c"tmpfs", 0)?;
    fs::create_dir("/dev/infiniband")?;
    fs::write("/dev/infiniband/uverbs0", "")?;
    mount_at(c"/mnt/null", c"/dev/infiniband/uverbs0", c"none", MS_BIND)
}
