// SPDX-License-Identifier: GPL-2.0

//! Lists under a spinlock.

use super::lock_bh::SpinLockBh;
use kernel::{
    alloc::Flags,
    macros::kunit_tests,
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

#[kunit_tests(metaroce_list)]
mod tests {
    use super::*;
    use crate::sync::lock_bh::new_spinlock_bh;

    #[test]
    fn elements_are_added_in_place_of_others() -> Result {
        let list = KBox::pin_init(new_spinlock_bh!(KVec::<(u32, char)>::new()), GFP_KERNEL)?;
        for new in [(1, 'a'), (2, 'b'), (3, 'c'), (2, 'd'), (4, 'e')] {
            push(&list, new, GFP_KERNEL, |(key, _)| *key != new.0)?;
        }
        let expected = [(1, 'a'), (3, 'c'), (2, 'd'), (4, 'e')];
        assert!(list.lock().iter().eq(&expected));
        Ok(())
    }

    #[test]
    fn elements_may_go_meanwhile() -> Result {
        let list = KBox::pin_init(new_spinlock_bh!(KVec::<u32>::new()), GFP_KERNEL)?;
        for new in 0..4 {
            push(&list, new, GFP_KERNEL, |_| true)?;
        }
        list.lock().retain(|element| *element % 2 == 0);
        push(&list, 9, GFP_KERNEL, |_| true)?;
        assert!(list.lock().iter().eq(&[0, 2, 9]));
        list.lock().clear();
        push(&list, 5, GFP_KERNEL, |_| true)?;
        assert!(list.lock().iter().eq(&[5]));
        Ok(())
    }
}
