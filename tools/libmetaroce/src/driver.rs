// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Registration with libibverbs.

use crate::bindings as c;
use crate::context;
use crate::object::allocate;
use core::mem;

#[cfg(pabi = "34")]
use c::verbs_register_driver_34 as verbs_register_driver;
#[cfg(pabi = "65")]
use c::verbs_register_driver_65 as verbs_register_driver;

/// A static of C's that contains pointers.
#[repr(transparent)]
struct Constant<T>(T);

// SAFETY: Never written, and neither is what it points to.
unsafe impl<T> Sync for Constant<T> {}

/// A device is known by its driver id, and may have any name and any parent. The name serves where
/// libibverbs cannot ask for the id over netlink and reads sysfs instead.
static MATCH_TABLE: Constant<[c::verbs_match_ent; 3]> = Constant({
    // SAFETY: Pointers and integers, for which zero is a value; the last entry ends the table.
    let mut table: [c::verbs_match_ent; 3] = unsafe { mem::zeroed() };
    table[0].u.driver_id = c::METAROCE_DRIVER_ID as u64;
    table[0].kind = c::VERBS_MATCH_DRIVER_ID as u8;
    table[1].u.modalias = c"rdma_device:*Nmetaroce*".as_ptr();
    table[1].kind = c::VERBS_MATCH_MODALIAS as u8;
    table
});

static DRIVER: Constant<c::verbs_device_ops> = Constant({
    // SAFETY: Pointers, optional functions and integers, for which zero is a value.
    let mut ops: c::verbs_device_ops = unsafe { mem::zeroed() };
    ops.name = c"metaroce".as_ptr();
    ops.match_min_abi_version = c::METAROCE_ABI_VERSION;
    ops.match_max_abi_version = c::METAROCE_ABI_VERSION;
    ops.match_table = (&raw const MATCH_TABLE.0).cast();
    ops.alloc_device = Some(alloc_device);
    ops.uninit_device = Some(uninit_device);
    ops.alloc_context = Some(context::alloc_context);
    ops
});

/// Called when the library is loaded.
extern "C" fn register() {
    // SAFETY: A complete description that lives as long as the library, which libibverbs never
    // unloads.
    unsafe { verbs_register_driver(&DRIVER.0) };
}

#[used]
#[link_section = ".init_array"]
static REGISTER: extern "C" fn() = register;

/// A device of ours was found.
unsafe extern "C" fn alloc_device(_sysfs_dev: *mut c::verbs_sysfs_dev) -> *mut c::verbs_device {
    // SAFETY: Pointers, integers and arrays of characters, for which zero is a value.
    let device: c::verbs_device = unsafe { mem::zeroed() };
    match allocate(device) {
        Ok(device) => Box::into_raw(device),
        Err(error) => error.null(),
    }
}

/// Whether a device is one of this provider.
///
/// # Safety
///
/// `device` is a device of libibverbs.
pub(crate) unsafe fn is_ours(device: *mut c::ibv_device) -> bool {
    // SAFETY: Every `ibv_device` is the first member of a `verbs_device`, whose operations do not
    // change.
    let ops = unsafe { (*device.cast::<c::verbs_device>()).ops };
    core::ptr::eq(ops, &DRIVER.0)
}

const _: () = assert!(mem::offset_of!(c::verbs_device, device) == 0);

/// The device is not referred to any more.
unsafe extern "C" fn uninit_device(device: *mut c::verbs_device) {
    // SAFETY: From `alloc_device`, and libibverbs drops its last reference.
    drop(unsafe { Box::from_raw(device) });
}
