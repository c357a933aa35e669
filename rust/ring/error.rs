// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What can be wrong with a ring.

/// The other side's index is one that it cannot have reached honestly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runaway;

/// Failure of an operation on a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// See [`Runaway`].
    Runaway,
    /// The shared memory is smaller than the ring's geometry says.
    OutOfBounds,
    /// No free slot.
    Full,
    /// More entries were to be retired than had been fetched.
    NotFetched,
}

impl From<Runaway> for Error {
    fn from(_: Runaway) -> Self {
        Error::Runaway
    }
}
