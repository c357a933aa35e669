// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The side that fills slots.

use crate::shared::{load, load_consumer, store};
use crate::{layout, Error, Geometry, Runaway, Shared, Slot};

/// Private state of the side that fills a ring.
///
/// Filling is in three steps: [`vacant`](Self::vacant) hands out a slot to write,
/// [`commit`](Self::commit) keeps it, and [`publish`](Self::publish) shows all that was committed
/// to the consumer. A list of entries is thus published at once.
///
/// # Invariants
///
/// Modulo 2^32, `seen` <= `published` <= `next` <= `seen` + entries.
#[derive(Debug)]
pub struct Producer {
    geometry: Geometry,
    /// Index of the next slot to fill.
    next: u32,
    /// What the consumer can see.
    published: u32,
    /// The consumer's index when it was last loaded: saves touching its cache line while the
    /// ring is not full.
    seen: u32,
}

impl Producer {
    /// Makes the producer of a new, zeroed ring.
    pub const fn new(geometry: Geometry) -> Self {
        Self::resume_at(geometry, 0)
    }

    /// Makes the producer of an empty ring whose two indices are `index`.
    pub const fn resume_at(geometry: Geometry, index: u32) -> Self {
        Self {
            geometry,
            next: index,
            published: index,
            seen: index,
        }
    }

    /// Makes the producer of a ring whose first `filled` slots are filled and published, and of
    /// which nothing was consumed; [`None`] if it has not so many.
    pub const fn resume_filled(geometry: Geometry, filled: u32) -> Option<Self> {
        if filled > geometry.entries() {
            return None;
        }
        // INVARIANT: checked above.
        Some(Self {
            geometry,
            next: filled,
            published: filled,
            seen: 0,
        })
    }

    /// Returns the shape of the ring.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the index of the next slot to fill.
    pub const fn index(&self) -> u32 {
        self.next
    }

    /// Returns how many slots are free when the consumer's index is `peer`.
    pub fn free(&self, peer: u32) -> Result<u32, Runaway> {
        // The consumer only moves forward, and not past what was published.
        if peer.wrapping_sub(self.seen) > self.published.wrapping_sub(self.seen) {
            return Err(Runaway);
        }
        Ok(self.geometry.entries() - self.next.wrapping_sub(peer))
    }

    /// Loads the consumer's index and returns how many slots are free.
    pub fn refresh<S: Shared + ?Sized>(&mut self, ring: &S) -> Result<u32, Error> {
        let peer = load_consumer(ring)?;
        let free = self.free(peer)?;
        // INVARIANT: `free` found `peer` between `seen` and `published`.
        self.seen = peer;
        Ok(free)
    }

    /// Returns the index of the oldest slot that is not known to be consumed.
    pub const fn oldest(&self) -> u32 {
        self.seen
    }

    /// Returns how many slots are filled and not known to be consumed.
    pub const fn in_use(&self) -> u32 {
        self.next.wrapping_sub(self.seen)
    }

    /// Returns the next slot to fill, or [`Error::Full`].
    pub fn vacant<S: Shared + ?Sized>(&mut self, ring: &S) -> Result<Slot, Error> {
        if self.in_use() == self.geometry.entries() && self.refresh(ring)? == 0 {
            return Err(Error::Full);
        }
        Ok(self.geometry.slot(self.next))
    }

    /// Keeps what was written to the slot that [`vacant`](Self::vacant) returned.
    ///
    /// Does nothing on a full ring, where `vacant` has returned no slot.
    pub fn commit(&mut self) {
        if self.in_use() < self.geometry.entries() {
            // INVARIANT: there is room for one more.
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Takes back what was committed and not published.
    pub fn abandon(&mut self) {
        // INVARIANT: `published` lies between `seen` and `next`.
        self.next = self.published;
    }

    /// Returns whether something was committed that the consumer cannot see yet.
    pub const fn has_unpublished(&self) -> bool {
        self.next != self.published
    }

    /// Shows everything committed to the consumer.
    pub fn publish<S: Shared + ?Sized>(&mut self, ring: &S) -> Result<(), Error> {
        store(ring, layout::PRODUCER, self.next)?;
        // INVARIANT: `published` may always catch up with `next`.
        self.published = self.next;
        Ok(())
    }

    /// Shows everything committed to the consumer, and returns whether it must be woken. Without
    /// anything new it need not.
    ///
    /// The fence orders the store of the index before the load of the flag; its counterpart is in
    /// [`Consumer::prepare_idle`](crate::Consumer::prepare_idle). Of two sides that each store
    /// and then load, at least one sees the other's store: either the consumer notices the new
    /// index before it sleeps, or this returns `true`.
    #[must_use = "a consumer that is not woken sleeps on"]
    pub fn publish_with_doorbell<S: Shared + ?Sized>(&mut self, ring: &S) -> Result<bool, Error> {
        if !self.has_unpublished() {
            return Ok(false);
        }
        self.publish(ring)?;
        ring.full_fence();
        Ok(load(ring, layout::NEED_DOORBELL)? != 0)
    }
}
