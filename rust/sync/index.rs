// SPDX-License-Identifier: GPL-2.0

//! An ordered table that bottom halves look things up in and change.
//!
//! Memory for an entry is taken beforehand, where one may sleep.

use super::lock_bh::{
    new_spinlock_bh,
    SpinLockBh, //
};
use kernel::{
    macros::kunit_tests,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

/// Room for one entry of an [`Index`].
pub struct Place<K, V>(RBTreeNodeReservation<K, V>);

impl<K, V> Place<K, V> {
    /// Takes the memory. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(RBTreeNodeReservation::new(GFP_KERNEL)?))
    }
}

/// A table from keys to small values.
///
/// All methods take the table's own lock for the time of one search. Process and softirq context.
#[pin_data]
pub struct Index<K: Ord + Copy + Unpin, V: Copy + PartialEq + Unpin> {
    #[pin]
    tree: SpinLockBh<RBTree<K, V>>,
}

impl<K: Ord + Copy + Unpin, V: Copy + PartialEq + Unpin> Index<K, V> {
    /// Constructs an initialiser of an empty table.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            tree <- new_spinlock_bh!(RBTree::new(), "Index::tree"),
        })
    }

    /// Enters `value` by `key`, instead of what is there.
    pub fn insert(&self, place: Place<K, V>, key: K, value: V) {
        let node = place.0.into_node(key, value);
        let old = self.tree.lock().insert(node);
        drop(old);
    }

    /// Removes the entry of `key`, if it is `value`. Returns whether it was.
    pub fn remove(&self, key: &K, value: V) -> bool {
        let mut tree = self.tree.lock();
        let node = match tree.get(key) {
            Some(v) if *v == value => tree.remove_node(key),
            _ => None,
        };
        drop(tree);
        node.is_some()
    }

    /// Returns the first entry whose key is at least `key`.
    pub fn at_least(&self, key: &K) -> Option<(K, V)> {
        let tree = self.tree.lock();
        let cursor = tree.cursor_lower_bound(key)?;
        let (key, value) = cursor.current();
        Some((*key, *value))
    }
}

#[kunit_tests(metaroce_index)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_key_and_in_order() -> Result {
        let index = KBox::pin_init(Index::<u32, u32>::new(), GFP_KERNEL)?;
        assert_eq!(index.at_least(&0), None);
        for key in [7, 3, 5] {
            index.insert(Place::new()?, key, key * 10);
        }
        assert_eq!(index.at_least(&4), Some((5, 50)));
        assert_eq!(index.at_least(&5), Some((5, 50)));
        assert_eq!(index.at_least(&8), None);
        Ok(())
    }

    #[test]
    fn only_the_value_that_is_named_is_removed() -> Result {
        let index = KBox::pin_init(Index::<u32, u32>::new(), GFP_KERNEL)?;
        index.insert(Place::new()?, 1, 10);
        index.insert(Place::new()?, 1, 11);
        assert!(!index.remove(&1, 10));
        assert_eq!(index.at_least(&1), Some((1, 11)));
        assert!(index.remove(&1, 11));
        assert!(!index.remove(&1, 11));
        assert_eq!(index.at_least(&1), None);
        Ok(())
    }
}
