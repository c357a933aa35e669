// SPDX-License-Identifier: GPL-2.0

//! A set of paths.

use crate::packet::PathId;

/// Most paths of a connection: what the set holds.
pub const MAX_PATHS: u16 = 64;

/// A set of path ids below [`MAX_PATHS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PathSet(u64);

impl PathSet {
    pub(super) fn assign(&mut self, path: PathId, member: bool) {
        if let Some(bit) = 1u64.checked_shl(u32::from(path.0)) {
            if member {
                self.0 |= bit;
            } else {
                self.0 &= !bit;
            }
        }
    }

    pub(super) fn insert(&mut self, path: PathId) {
        self.assign(path, true);
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn or(self, o: PathSet) -> PathSet {
        PathSet(self.0 | o.0)
    }

    pub(super) fn without(self, o: PathSet) -> PathSet {
        PathSet(self.0 & !o.0)
    }

    /// The first member at or after `from`, going round.
    pub(super) fn first_from(self, from: PathId) -> Option<PathId> {
        let turn = u32::from(from.0) % 64;
        if self.0 == 0 {
            return None;
        }
        let i = (self.0.rotate_right(turn).trailing_zeros() + turn) % 64;
        // CAST: below 64.
        Some(PathId(i as u16))
    }
}

impl Iterator for PathSet {
    type Item = PathId;

    fn next(&mut self) -> Option<PathId> {
        let path = self.first_from(PathId(0))?;
        self.assign(path, false);
        Some(path)
    }
}
