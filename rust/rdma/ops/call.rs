// SPDX-License-Identifier: GPL-2.0

//! From a callback of C to a typed call: the arguments that many callbacks have, and the ways to
//! return.

use kernel::{
    error::from_result,
    prelude::*, //
};

use super::{
    super::{
        device::{
            Device,
            PORT, //
        },
        object::{
            Ah,
            Cq,
            Mr,
            Mw,
            Pd,
            Qp,
            Srq,
            UserContext, //
        },
        udata::UserData,
    },
    Operations,
    VTable, //
};

/// Makes a call that returns nothing return 0, or a negative error number.
pub(super) fn status(call: impl FnOnce() -> Result) -> c_int {
    from_result(|| call().map(|()| 0))
}

/// Makes a call that returns a pointer return an error pointer if it fails.
pub(super) fn pointer<P>(call: impl FnOnce() -> Result<*mut P>) -> *mut P {
    call().unwrap_or_else(|e| e.to_ptr())
}

/// Sees to it that `port` is the device's only one.
pub(super) fn check_port(port: u32) -> Result {
    if port == PORT {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// A C object of ib_core that a driver `T` has a part of.
pub(super) trait Typed<T: Operations>: Sized {
    /// The object with that part.
    type Object;

    /// Returns the device of the object.
    ///
    /// # Safety
    ///
    /// `raw` must point to an object whose device ib_core has set.
    unsafe fn device(raw: *mut Self) -> *mut bindings::ib_device;

    /// Borrows the object with the driver's part.
    ///
    /// # Safety
    ///
    /// As for [`Object::from_raw`](super::super::object::Object::from_raw).
    unsafe fn object<'a>(raw: *mut Self) -> &'a Self::Object;
}

macro_rules! typed {
    ($($raw:ident => $object:ident,)*) => {$(
        impl<T: Operations> Typed<T> for bindings::$raw {
            type Object = $object<T>;

            unsafe fn device(raw: *mut Self) -> *mut bindings::ib_device {
                // SAFETY: By the requirements of this function.
                unsafe { (*raw).device }
            }

            unsafe fn object<'a>(raw: *mut Self) -> &'a Self::Object {
                // SAFETY: By the requirements of this function.
                unsafe { $object::<T>::from_raw(raw) }
            }
        }
    )*};
}

typed! {
    ib_ucontext => UserContext,
    ib_pd => Pd,
    ib_ah => Ah,
    ib_cq => Cq,
    ib_qp => Qp,
    ib_srq => Srq,
    ib_mr => Mr,
    ib_mw => Mw,
}

impl<T: Operations> VTable<T> {
    /// Borrows the device of an object that need not have the driver's part yet.
    ///
    /// # Safety
    ///
    /// `raw` must point to an object of a device of `T`, which ib_core has set, and which lives
    /// during `'a`.
    pub(super) unsafe fn device<'a, R: Typed<T>>(raw: *mut R) -> &'a Device<T> {
        // SAFETY: By the requirements of this function.
        unsafe { Device::from_raw(R::device(raw)) }
    }

    /// Borrows an object, and its device.
    ///
    /// # Safety
    ///
    /// `raw` must point to an object of a device of `T` that is initialised and not destroyed
    /// during `'a`; ib_core keeps the device for longer than its objects.
    pub(super) unsafe fn object<'a, R: Typed<T>>(raw: *mut R) -> (&'a Device<T>, &'a R::Object) {
        // SAFETY: By the requirements of this function.
        unsafe { (Self::device(raw), R::object(raw)) }
    }

    /// Wraps the driver's part of a user's request for an object that only user space has.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for users in the kernel.
    ///
    /// # Safety
    ///
    /// As for [`UserData::from_raw`].
    pub(super) unsafe fn user<'a>(udata: *mut bindings::ib_udata) -> Result<UserData<'a, T>> {
        // SAFETY: By the requirements of this function.
        unsafe { UserData::from_raw(udata) }.ok_or(EOPNOTSUPP)
    }

    /// Sees to it that the driver's part of a request and its response, if any, are empty.
    ///
    /// # Safety
    ///
    /// As for [`UserData::from_raw`].
    pub(super) unsafe fn no_udata(udata: *mut bindings::ib_udata) -> Result {
        // SAFETY: By the requirements of this function.
        match unsafe { UserData::<T>::from_raw(udata) } {
            Some(mut udata) => {
                udata.no_request()?;
                udata.no_response()
            }
            None => Ok(()),
        }
    }
}
