// SPDX-License-Identifier: GPL-2.0

//! A driver's own attributes of its devices in sysfs.
//!
//! ib_core wants what is new to be in its netlink interface. That has no room for what only one
//! driver knows, though, and cannot be extended by a driver.
//!
//! C headers: [`include/linux/device.h`](srctree/include/linux/device.h),
//! [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h)

use core::marker::PhantomData;

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    str::as_char_ptr_in_const_context, //
};

use super::{
    ops::Operations,
    Device, //
};

/// Returns the text of an attribute, of which there may be several alike, numbered.
///
/// Writes the text to the slice, which is a page long, and returns its length. Process context.
pub type Show<T> = fn(&Device<T>, usize, &mut [u8]) -> Result<usize>;

/// Acts on what was written to an attribute, without the newline at the end. Process context.
pub type Store<T> = fn(&Device<T>, &[u8]) -> Result;

/// An attribute.
///
/// # Invariants
///
/// `raw` has the callback that belongs to `show` or `store`, whichever is there, and no other.
#[repr(C)]
pub struct Attribute<T: Operations> {
    raw: bindings::device_attribute,
    number: usize,
    show: Option<Show<T>>,
    store: Option<Store<T>>,
}

// SAFETY: An attribute does not change, and what it points to is `'static`.
unsafe impl<T: Operations> Sync for Attribute<T> {}

impl<T: Operations> Attribute<T> {
    /// Makes an attribute that everybody may read.
    pub const fn readable(name: &'static CStr, number: usize, show: Show<T>) -> Self {
        let mut raw = Self::raw(name, 0o444);
        raw.__bindgen_anon_1.show = Some(Self::show);
        // INVARIANT: As it says.
        Self {
            raw,
            number,
            show: Some(show),
            store: None,
        }
    }

    /// Makes an attribute that root may write.
    pub const fn writable(name: &'static CStr, store: Store<T>) -> Self {
        let mut raw = Self::raw(name, 0o200);
        raw.__bindgen_anon_2.store = Some(Self::store);
        // INVARIANT: As it says.
        Self {
            raw,
            number: 0,
            show: None,
            store: Some(store),
        }
    }

    const fn raw(name: &'static CStr, mode: bindings::umode_t) -> bindings::device_attribute {
        let mut raw: bindings::device_attribute = pin_init::zeroed();
        raw.attr.name = as_char_ptr_in_const_context(name);
        raw.attr.mode = mode;
        raw
    }

    /// # Safety
    ///
    /// To be called by the driver core, with the device of an ib_core device of `T`, the `raw` of an
    /// attribute of `T`, and a page.
    unsafe extern "C" fn show(
        dev: *mut bindings::device,
        attr: *mut bindings::device_attribute,
        buf: *mut c_char,
    ) -> isize {
        // SAFETY: By the requirements of this function; `raw` is at offset 0, and attributes are
        // not changed.
        let this = unsafe { &*attr.cast_const().cast::<Self>() };
        // SAFETY: By the requirements of this function. The page is initialised.
        let page = unsafe { core::slice::from_raw_parts_mut(buf.cast::<u8>(), PAGE_SIZE) };
        // SAFETY: By the requirements of this function. The driver core removes attributes, and
        // waits for their callbacks, before the device goes away.
        let dev = unsafe { Device::<T>::from_raw(bindings::metaroce_ib_device_of(dev)) };
        to_ssize(this.show.ok_or(EIO).and_then(|f| f(dev, this.number, page)))
    }

    /// # Safety
    ///
    /// To be called by the driver core, as [`Self::show`], with `len` bytes at `buf`.
    unsafe extern "C" fn store(
        dev: *mut bindings::device,
        attr: *mut bindings::device_attribute,
        buf: *const c_char,
        len: usize,
    ) -> isize {
        // SAFETY: As in `show`.
        let this = unsafe { &*attr.cast_const().cast::<Self>() };
        // SAFETY: By the requirements of this function.
        let text = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), len) };
        // SAFETY: As in `show`.
        let dev = unsafe { Device::<T>::from_raw(bindings::metaroce_ib_device_of(dev)) };
        let line = text.strip_suffix(b"\n").unwrap_or(text);
        let done = this.store.ok_or(EIO).and_then(|f| f(dev, line));
        to_ssize(done.map(|()| len))
    }
}

fn to_ssize(result: Result<usize>) -> isize {
    match result.and_then(|n| isize::try_from(n).map_err(|_| EOVERFLOW)) {
        Ok(n) => n,
        // CAST: widening.
        Err(e) => e.to_errno() as isize,
    }
}

/// A list of `N` attributes less one: it ends in a null pointer, as C wants it.
#[repr(transparent)]
pub struct AttributeList<T: Operations, const N: usize> {
    raw: [*mut bindings::attribute; N],
    _driver: PhantomData<T>,
}

// SAFETY: A list does not change, and its attributes are `Sync`.
unsafe impl<T: Operations, const N: usize> Sync for AttributeList<T, N> {}

impl<T: Operations, const N: usize> AttributeList<T, N> {
    /// Makes a list.
    pub const fn new(attributes: &'static [Attribute<T>]) -> Self {
        assert!(attributes.len() + 1 == N);
        let mut raw = [core::ptr::null_mut(); N];
        let mut i = 0;
        while i < attributes.len() {
            raw[i] = (&raw const attributes[i].raw.attr).cast_mut();
            i += 1;
        }
        Self {
            raw,
            _driver: PhantomData,
        }
    }
}

/// A group of attributes, in a folder of their own.
#[repr(transparent)]
pub struct AttributeGroup<T: Operations> {
    raw: bindings::attribute_group,
    _driver: PhantomData<T>,
}

// SAFETY: A group does not change, and neither do its attributes.
unsafe impl<T: Operations> Sync for AttributeGroup<T> {}

impl<T: Operations> AttributeGroup<T> {
    /// Makes a group called `name`.
    pub const fn new<const N: usize>(
        name: &'static CStr,
        list: &'static AttributeList<T, N>,
    ) -> Self {
        let mut raw: bindings::attribute_group = pin_init::zeroed();
        raw.name = as_char_ptr_in_const_context(name);
        // C does not write to the list.
        raw.__bindgen_anon_2.attrs = (&raw const list.raw).cast_mut().cast();
        Self {
            raw,
            _driver: PhantomData,
        }
    }

    /// Returns the C group.
    pub(super) const fn as_raw(&'static self) -> *const bindings::attribute_group {
        &raw const self.raw
    }
}
