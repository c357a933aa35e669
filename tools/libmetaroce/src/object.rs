// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Objects that libibverbs knows by a pointer to their first member.

use crate::errno::Errno;
use core::alloc::Layout;
use core::cell::UnsafeCell;
use std::alloc;

/// The part of an object that libibverbs and the application write.
///
/// They do so at any time and under locks of their own, so no reference into it is ever made.
#[repr(transparent)]
pub(crate) struct Verbs<V>(UnsafeCell<V>);

impl<V: Default> Verbs<V> {
    /// Makes a zeroed part, as libibverbs expects it from the provider.
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(V::default()))
    }
}

impl<V> Verbs<V> {
    /// Returns a pointer to the part.
    pub(crate) fn as_ptr(&self) -> *mut V {
        self.0.get()
    }
}

/// An object whose first member is a [`Verbs`].
///
/// # Safety
///
/// A `Verbs<Self::Verbs>` is at offset 0.
pub(crate) unsafe trait Object: Sized {
    /// What libibverbs calls the object.
    type Verbs;

    /// Returns the object of a pointer that libibverbs passed to a verb.
    ///
    /// # Safety
    ///
    /// `verbs` came from [`Object::into_verbs`], was not destroyed, and is not while `'a` lasts.
    unsafe fn from_verbs<'a>(verbs: *mut Self::Verbs) -> &'a Self {
        // SAFETY: By the trait's contract the object begins there; it is only ever shared while
        // it lives, see `into_verbs`.
        unsafe { &*verbs.cast::<Self>() }
    }

    /// Hands the object over to libibverbs.
    fn into_verbs(self: Box<Self>) -> *mut Self::Verbs {
        Box::into_raw(self).cast()
    }

    /// Takes a destroyed object back.
    ///
    /// # Safety
    ///
    /// As for [`Object::from_verbs`], and nobody uses the object any more.
    unsafe fn reclaim(verbs: *mut Self::Verbs) -> Box<Self> {
        // SAFETY: `into_verbs` made the pointer from a box, and the caller holds the only use.
        unsafe { Box::from_raw(verbs.cast()) }
    }
}

/// Boxes `value`; running out of memory is an error and does not abort.
pub(crate) fn allocate<T>(value: T) -> Result<Box<T>, Errno> {
    const { assert!(size_of::<T>() != 0) };
    // SAFETY: The layout has a size.
    let place = unsafe { alloc::alloc(Layout::new::<T>()) }.cast::<T>();
    if place.is_null() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: Fresh memory of the type's layout, from the allocator that boxes use.
    unsafe {
        place.write(value);
        Ok(Box::from_raw(place))
    }
}
