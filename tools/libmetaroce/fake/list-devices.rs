// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Prints the names of the RDMA devices that libibverbs finds a provider for.
//!
//! Like `ibv_devices`, for a build root that has neither it nor devices.

mod fake_dev;

use std::ffi::{c_char, c_int, CStr};
use std::io;

#[repr(C)]
struct Device {
    _opaque: [u8; 0],
}

extern "C" {
    fn ibv_get_device_list(num: *mut c_int) -> *mut *mut Device;
    fn ibv_get_device_name(device: *mut Device) -> *const c_char;
}

fn main() -> io::Result<()> {
    fake_dev::make_uverbs0()?;
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
