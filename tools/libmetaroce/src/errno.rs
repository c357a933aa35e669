// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Error numbers, as libibverbs passes them.

use crate::bindings as c;
use core::ffi::c_int;
use core::ptr;

/// A positive error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(c_int);

impl Errno {
    pub(crate) const EBUSY: Self = Self(c::EBUSY as c_int);
    pub(crate) const EINVAL: Self = Self(c::EINVAL as c_int);
    pub(crate) const EIO: Self = Self(c::EIO as c_int);
    pub(crate) const ENOENT: Self = Self(c::ENOENT as c_int);
    pub(crate) const ENOMEM: Self = Self(c::ENOMEM as c_int);
    pub(crate) const EOPNOTSUPP: Self = Self(c::EOPNOTSUPP as c_int);
    pub(crate) const EPROTO: Self = Self(c::EPROTO as c_int);

    /// Returns the calling thread's `errno`.
    pub(crate) fn last() -> Self {
        // SAFETY: libc returns a pointer to the calling thread's own variable.
        Self(unsafe { *c::__errno_location() })
    }

    /// Turns what `ibv_cmd_*` return (zero or an error number) into a result.
    pub(crate) fn check(returned: c_int) -> Result<(), Self> {
        match returned {
            0 => Ok(()),
            // Some helpers return -1 and set `errno`.
            n if n < 0 => Err(Self::last()),
            n => Err(Self(n)),
        }
    }

    /// Returns the number for a verb that returns one.
    pub(crate) fn code(self) -> c_int {
        self.0
    }

    /// Sets `errno`, for a verb that returns a pointer.
    pub(crate) fn null<T>(self) -> *mut T {
        // SAFETY: as in `last`.
        unsafe { *c::__errno_location() = self.0 };
        ptr::null_mut()
    }
}

impl From<ring::Error> for Errno {
    fn from(error: ring::Error) -> Self {
        match error {
            ring::Error::Full => Self::ENOMEM,
            // The kernel does neither; the ring is not to be used any more.
            ring::Error::Runaway | ring::Error::OutOfBounds | ring::Error::NotFetched => Self::EIO,
        }
    }
}

/// Returns zero or the error number.
pub(crate) fn code(result: Result<(), Errno>) -> c_int {
    result.map_or_else(Errno::code, |()| 0)
}
