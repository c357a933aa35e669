// SPDX-License-Identifier: GPL-2.0

//! Lists under a spinlock.

use super::lock_bh::SpinLockBh;
use kernel::{
    alloc::Flags,
    prelude::*, //
};

/// Adds an element to a list, in place of those that `keep` does not want. Process context, one
/// caller at a time; others may read the list meanwhile, or take elements out of it.
///
/// Nothing is allocated or freed under the lock: a longer list takes the place of the present one.
///
/// # Errors
///
/// `ENOMEM`.
pub fn push<T: Clone>(
    list: &SpinLockBh<KVec<T>>,
    new: T,
    flags: Flags,
    keep: impl Fn(&T) -> bool,
) -> Result {
    let n = list.lock().len();
    let mut longer = KVec::with_capacity(n + 1, flags)?;
    let mut present = list.lock();
    for element in present.iter().filter(|element| keep(element)) {
        longer
            .push_within_capacity(element.clone())
            .map_err(|_| ENOMEM)?;
    }
    longer.push_within_capacity(new).map_err(|_| ENOMEM)?;
    core::mem::swap(&mut *present, &mut longer);
    drop(present);
    Ok(())
}
