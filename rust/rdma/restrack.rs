// SPDX-License-Identifier: GPL-2.0

//! A driver's own attributes of an object, for `rdma resource show -dd`.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    error::to_result,
    prelude::*, //
};

/// Collects a driver's attributes of an object.
///
/// # Invariants
///
/// `msg` points to a netlink message that is being built, with the nest of driver attributes open.
pub struct Attributes<'a> {
    msg: NonNull<bindings::sk_buff>,
    _msg: PhantomData<&'a mut bindings::sk_buff>,
}

impl Attributes<'_> {
    /// Calls `f` to add attributes to `msg`; adds none if it fails.
    ///
    /// # Safety
    ///
    /// `msg` must be a netlink message that the caller is building.
    pub(super) unsafe fn nest(
        msg: *mut bindings::sk_buff,
        f: impl FnOnce(&mut Attributes<'_>) -> Result,
    ) -> Result {
        let msg = NonNull::new(msg).ok_or(EINVAL)?;
        // SAFETY: By the requirements of this function.
        let nest = unsafe { bindings::metaroce_rdma_nl_driver_start(msg.as_ptr()) };
        if nest.is_null() {
            return Err(EMSGSIZE);
        }
        // INVARIANT: The nest was just opened.
        let mut attributes = Attributes {
            msg,
            _msg: PhantomData,
        };
        match f(&mut attributes) {
            Ok(()) => {
                // SAFETY: `nest` was opened in this message and is still open.
                unsafe { bindings::metaroce_rdma_nl_driver_end(msg.as_ptr(), nest) };
                Ok(())
            }
            Err(e) => {
                // SAFETY: `nest` was opened in this message and is still open.
                unsafe { bindings::metaroce_rdma_nl_driver_cancel(msg.as_ptr(), nest) };
                Err(e)
            }
        }
    }

    /// Adds a number.
    pub fn put_u32(&mut self, name: &CStr, value: u32) -> Result {
        // SAFETY: By the type invariant, and `name` is a C string.
        to_result(unsafe {
            bindings::rdma_nl_put_driver_u32(self.msg.as_ptr(), name.as_char_ptr(), value)
        })
    }

    /// Adds a number that is shown in hexadecimal.
    pub fn put_u32_hex(&mut self, name: &CStr, value: u32) -> Result {
        // SAFETY: By the type invariant, and `name` is a C string.
        to_result(unsafe {
            bindings::rdma_nl_put_driver_u32_hex(self.msg.as_ptr(), name.as_char_ptr(), value)
        })
    }

    /// Adds a number.
    pub fn put_u64(&mut self, name: &CStr, value: u64) -> Result {
        // SAFETY: By the type invariant, and `name` is a C string.
        to_result(unsafe {
            bindings::rdma_nl_put_driver_u64(self.msg.as_ptr(), name.as_char_ptr(), value)
        })
    }

    /// Adds a string.
    pub fn put_string(&mut self, name: &CStr, value: &CStr) -> Result {
        // SAFETY: By the type invariant, and both are C strings.
        to_result(unsafe {
            bindings::rdma_nl_put_driver_string(
                self.msg.as_ptr(),
                name.as_char_ptr(),
                value.as_char_ptr(),
            )
        })
    }
}
