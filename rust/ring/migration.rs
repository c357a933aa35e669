// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Moving what a ring holds to another ring.

use crate::{Error, Geometry, Shared};

/// Bytes copied at a time.
const CHUNK: usize = 64;

/// The entries of a ring on their way to the first slots of another one, in their order.
///
/// The owner of the rings takes [`step`](Self::step)s under the lock that guards the old one, and
/// lets it go in between: a long queue holds up nobody. The old ring stays in use until a step has
/// caught up; then, under the same hold of the lock, the new one takes its place. Entries that are
/// consumed meanwhile are moved as well, and it is for the owner to pass over them.
#[derive(Debug)]
pub struct Migration {
    from: Geometry,
    to: Geometry,
    /// Index in the old ring of what goes to slot 0.
    first: u32,
    moved: u32,
}

impl Migration {
    /// Begins at index `first` of the old ring; [`None`] if the slots differ in size.
    pub const fn new(from: Geometry, to: Geometry, first: u32) -> Option<Self> {
        if from.stride() != to.stride() {
            return None;
        }
        Some(Self {
            from,
            to,
            first,
            moved: 0,
        })
    }

    /// Moves at most `max` entries before the index `end` of the old ring. Returns whether there
    /// are no more.
    ///
    /// [`Error::Full`] if there are more than the new ring has slots, [`Error::Runaway`] if the
    /// index went back.
    pub fn step<S: Shared + ?Sized>(
        &mut self,
        from: &S,
        to: &S,
        end: u32,
        max: u32,
    ) -> Result<bool, Error> {
        let total = end.wrapping_sub(self.first);
        if total > self.to.entries() {
            return Err(Error::Full);
        }
        let left = total.checked_sub(self.moved).ok_or(Error::Runaway)?;
        for _ in 0..left.min(max) {
            self.copy(from, to).ok_or(Error::OutOfBounds)?;
            self.moved += 1;
        }
        Ok(left <= max)
    }

    fn copy<S: Shared + ?Sized>(&self, from: &S, to: &S) -> Option<()> {
        let source = self.from.slot(self.first.wrapping_add(self.moved));
        let target = self.to.slot(self.moved);
        let mut buf = [0; CHUNK];
        for at in (0..source.stride()).step_by(CHUNK) {
            let part = buf.get_mut(..CHUNK.min(source.stride() - at))?;
            source.read(from, at, part)?;
            target.write(to, at, part)?;
        }
        Some(())
    }

    /// Returns how many entries were moved.
    pub const fn moved(&self) -> u32 {
        self.moved
    }

    /// Returns the slot of the new ring where the entry of index `index` in the old one belongs.
    pub const fn place(&self, index: u32) -> u32 {
        index.wrapping_sub(self.first)
    }
}
