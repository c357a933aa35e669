// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Prints the names of the RDMA devices that libibverbs finds a provider for.
//!
//! Like `ibv_devices`, for a build root that has neither it nor devices: libibverbs wants to see a
//! device's file, of which only the name counts. So the files named as arguments are made in a
//! /dev of this process's own.

use std::ffi::{c_char, c_int, c_ulong, c_void, CStr};
use std::{env, fs, io, ptr};

const CLONE_NEWNS: c_int = 0x0002_0000;
const MS_REC: c_ulong = 1 << 14;
const MS_PRIVATE: c_ulong = 1 << 18;

#[repr(C)]
struct Device {
    _opaque: [u8; 0],
}

extern "C" {
    fn ibv_get_device_list(num: *mut c_int) -> *mut *mut Device;
    fn ibv_get_device_name(device: *mut Device) -> *const c_char;
    fn unshare(flags: c_int) -> c_int;
    fn mount(
        source: *const c_char,
        target: *const c_char,
        fs: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
}

fn mount_at(target: &CStr, fs: &CStr, flags: c_ulong) -> io::Result<()> {
    // SAFETY: Strings that live through the call, and no data.
    match unsafe {
        mount(
            fs.as_ptr(),
            target.as_ptr(),
            fs.as_ptr(),
            flags,
            ptr::null(),
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn fake_devices() -> io::Result<()> {
    // SAFETY: No memory is involved.
    if unsafe { unshare(CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // In a chroot, / need not be a mount, and then there is nothing to make private.
    let _ = mount_at(c"/", c"none", MS_REC | MS_PRIVATE);
    mount_at(c"/dev", c"none", MS_REC | MS_PRIVATE)?;
    mount_at(c"/dev", c"tmpfs", 0)?;
    fs::create_dir("/dev/infiniband")?;
    env::args()
        .skip(1)
        .try_for_each(|name| fs::write(format!("/dev/infiniband/{name}"), ""))
}

fn main() -> io::Result<()> {
    fake_devices()?;
    let mut num = 0;
    // SAFETY: `num` is writable. The list has `num` entries, and names live as long as it.
    let names = unsafe {
        let list = ibv_get_device_list(&mut num);
        let num = if list.is_null() { 0 } else { num as usize };
        (0..num).map(move |n| CStr::from_ptr(ibv_get_device_name(*list.add(n))))
    };
    for name in names {
        println!("{}", name.to_string_lossy());
    }
    Ok(())
}
