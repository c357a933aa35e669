// SPDX-License-Identifier: GPL-2.0

//! A driver's own part of a user's request and of its response.
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use bindings::UserAbi;
use kernel::{
    error::to_result,
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

use super::{
    object::UserContext,
    ops::Operations, //
};

/// The driver's part of a request of user space, and of the response to it.
///
/// Each operation that gets one says with exactly one of [`Self::request`] and
/// [`Self::no_request`] what it takes, and with exactly one of [`Self::respond`] and
/// [`Self::no_response`] what it gives: that makes user space and kernel of different ages
/// understand each other.
///
/// # Invariants
///
/// `raw` points to the `driver_udata` of a live `struct uverbs_attr_bundle`. If `has_context` is
/// set, the context of that is initialised.
pub struct UserData<'a, T: Operations> {
    raw: NonNull<bindings::ib_udata>,
    has_context: bool,
    _request: PhantomData<&'a mut bindings::ib_udata>,
    _driver: PhantomData<T>,
}

impl<'a, T: Operations> UserData<'a, T> {
    /// Wraps the data of a request; [`None`] for requests of kernel users.
    ///
    /// # Safety
    ///
    /// `raw` must be null or the `driver_udata` of a `struct uverbs_attr_bundle` for a device of
    /// `T`, valid for `'a`. If its context is not initialised yet, the caller must go on with
    /// [`Self::without_context`].
    pub(super) unsafe fn from_raw(raw: *mut bindings::ib_udata) -> Option<Self> {
        // INVARIANT: By the requirements of this function.
        NonNull::new(raw).map(|raw| Self {
            raw,
            has_context: true,
            _request: PhantomData,
            _driver: PhantomData,
        })
    }

    /// Makes [`Self::context`] fail.
    pub(super) fn without_context(self) -> Self {
        Self {
            has_context: false,
            ..self
        }
    }

    /// Returns the user context that makes the request.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the request is the one that makes the context.
    pub fn context(&self) -> Result<&'a UserContext<T>> {
        if !self.has_context {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant.
        let context = unsafe { bindings::metaroce_udata_to_ucontext(self.raw.as_ptr()) };
        if context.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: A context that is not null was created by the device of the request, and lives
        // as long as the request.
        Ok(unsafe { UserContext::<T>::from_raw(context) })
    }

    /// Copies a request in, of which user space must have given the first `minimum` bytes; what
    /// it did not give reads as zero.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if user space gave more than `A` has, and the rest is not zero; `EINVAL` if it
    /// gave less than `minimum`.
    pub fn request<A: UserAbi>(&mut self, minimum: usize) -> Result<A> {
        let mut request = A::default();
        // SAFETY: `self.raw` is valid by the type invariant, `request` is valid for writes of its
        // size, and being `UserAbi` it may take any bytes.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(
                self.raw.as_ptr(),
                (&raw mut request).cast(),
                size_of::<A>(),
                minimum,
            )
        })?;
        Ok(request)
    }

    /// Checks that there is no request, or a zeroed one.
    pub fn no_request(&mut self) -> Result {
        // SAFETY: By the type invariant.
        to_result(unsafe { bindings::metaroce_ib_is_udata_in_empty(self.raw.as_ptr()) })
    }

    /// Returns how many bytes of response user space has room for.
    pub fn response_room(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { (*self.raw.as_ptr()).outlen }
    }

    /// Copies the response out, as much as user space has room for.
    pub fn respond<A: UserAbi>(&mut self, response: &A) -> Result {
        // SAFETY: `self.raw` is valid by the type invariant, `response` is valid for reads of its
        // size and, being `UserAbi`, has no padding.
        to_result(unsafe {
            bindings::_ib_respond_udata(
                self.raw.as_ptr(),
                core::ptr::from_ref(response).cast(),
                size_of::<A>(),
            )
        })
    }

    /// Copies a response to an address that the request named, for commands of ib_core that have no
    /// response with a driver's part.
    pub fn respond_at<A: UserAbi>(&mut self, address: u64, response: &A) -> Result {
        let address = usize::try_from(address)?;
        // SAFETY: `response` is valid for reads of its size and, being `UserAbi`, has no padding.
        let bytes = unsafe {
            core::slice::from_raw_parts(core::ptr::from_ref(response).cast::<u8>(), size_of::<A>())
        };
        UserSlice::new(UserPtr::from_addr(address), size_of::<A>())
            .writer()
            .write_slice(bytes)
    }

    /// Zeroes the response that user space expects, if any.
    pub fn no_response(&mut self) -> Result {
        // SAFETY: By the type invariant.
        to_result(unsafe { bindings::metaroce_ib_respond_empty_udata(self.raw.as_ptr()) })
    }
}
