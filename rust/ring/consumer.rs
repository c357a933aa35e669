// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The side that empties slots.

use crate::shared::{load_consumer, load_producer, store};
use crate::{layout, Error, Geometry, Runaway, Shared, Slot};

/// Whether a consumer may stop looking at its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Idle {
    /// There is something to fetch: go on.
    Busy,
    /// The ring is empty, and the producer will ring the doorbell for the next entry.
    Sleep,
}

/// Private state of the side that empties a ring.
///
/// An entry is first fetched, then retired, which gives its slot back to the producer. In between,
/// the consumer works on it and may read the slot again. A consumer that copies entries out
/// retires them at once.
///
/// # Invariants
///
/// Modulo 2^32, `retired` <= `fetched` <= `retired` + entries.
#[derive(Debug)]
pub struct Consumer {
    geometry: Geometry,
    /// Index of the next entry to look at.
    fetched: u32,
    /// Index of the oldest entry still in work; published as the consumer index.
    retired: u32,
}

impl Consumer {
    /// Makes the consumer of a new, zeroed ring.
    pub const fn new(geometry: Geometry) -> Self {
        Self::resume_at(geometry, 0)
    }

    /// Makes the consumer of an empty ring whose two indices are `index`.
    pub const fn resume_at(geometry: Geometry, index: u32) -> Self {
        Self {
            geometry,
            fetched: index,
            retired: index,
        }
    }

    /// Makes the consumer of a ring that somebody else has emptied so far, from what that one has
    /// published last.
    ///
    /// The word can have been changed by the producer, who thereby breaks its own queue: what is
    /// not possible is [`Error::Runaway`].
    pub fn take_over<S: Shared + ?Sized>(geometry: Geometry, ring: &S) -> Result<Self, Error> {
        let this = Self::resume_at(geometry, load_consumer(ring)?);
        this.available(ring)?;
        Ok(this)
    }

    /// Returns the shape of the ring.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the index of the next entry to fetch.
    pub const fn fetched(&self) -> u32 {
        self.fetched
    }

    /// Returns the index of the oldest entry that is not retired.
    pub const fn retired(&self) -> u32 {
        self.retired
    }

    /// Returns how many entries are fetched and not retired.
    pub const fn in_work(&self) -> u32 {
        self.fetched.wrapping_sub(self.retired)
    }

    /// Returns how many entries can be fetched when the producer's index is `peer`.
    pub fn pending(&self, peer: u32) -> Result<u32, Runaway> {
        // From the oldest slot in work, the producer can be no further than a whole ring, and it
        // cannot take back what was fetched.
        let filled = peer.wrapping_sub(self.retired);
        if filled > self.geometry.entries() || filled < self.in_work() {
            return Err(Runaway);
        }
        Ok(filled - self.in_work())
    }

    /// Loads the producer's index and returns how many entries can be fetched.
    pub fn available<S: Shared + ?Sized>(&self, ring: &S) -> Result<u32, Error> {
        Ok(self.pending(load_producer(ring)?)?)
    }

    /// Returns the slot of the next entry without fetching it, or [`None`] if there is none.
    pub fn peek<S: Shared + ?Sized>(&self, ring: &S) -> Result<Option<Slot>, Error> {
        Ok((self.available(ring)? > 0).then(|| self.geometry.slot(self.fetched)))
    }

    /// Fetches the next entry and returns its slot, or [`None`] if there is none.
    pub fn fetch<S: Shared + ?Sized>(&mut self, ring: &S) -> Result<Option<Slot>, Error> {
        let slot = self.peek(ring)?;
        if slot.is_some() {
            // INVARIANT: `pending` found the entry within a ring's length of `retired`.
            self.fetched = self.fetched.wrapping_add(1);
        }
        Ok(slot)
    }

    /// Returns the slot of the fetched entry `index`, or [`None`] if it is not in work.
    pub fn slot_in_work(&self, index: u32) -> Option<Slot> {
        (index.wrapping_sub(self.retired) < self.in_work()).then(|| self.geometry.slot(index))
    }

    /// Returns the slot `n` entries after the next one to fetch, or [`None`] if no ring is as long.
    ///
    /// Whether the producer has filled it is for the caller to know, from
    /// [`available`](Self::available).
    pub fn slot_ahead(&self, n: u32) -> Option<Slot> {
        (n < self.geometry.entries() - self.in_work())
            .then(|| self.geometry.slot(self.fetched.wrapping_add(n)))
    }

    /// Retires the `n` oldest entries in work; the producer sees it after
    /// [`publish`](Self::publish).
    pub fn retire(&mut self, n: u32) -> Result<(), Error> {
        if n > self.in_work() {
            return Err(Error::NotFetched);
        }
        // INVARIANT: `retired` stays at or behind `fetched`.
        self.retired = self.retired.wrapping_add(n);
        Ok(())
    }

    /// Gives the retired slots back to the producer.
    pub fn publish<S: Shared + ?Sized>(&self, ring: &S) -> Result<(), Error> {
        store(ring, layout::CONSUMER, self.retired)
    }

    /// Drops every entry that was posted, in work or not, and gives the slots back.
    ///
    /// For a queue that is reset: its producer keeps its index and need not be told. This also
    /// makes a runaway ring usable again.
    pub fn discard<S: Shared + ?Sized>(&mut self, ring: &S) -> Result<(), Error> {
        let peer = load_producer(ring)?;
        // INVARIANT: nothing is in work.
        self.fetched = peer;
        self.retired = peer;
        self.publish(ring)
    }

    /// Asks the producer to ring the doorbell, and returns whether sleeping is safe.
    ///
    /// The index is checked again after the request, with a full fence between: an entry that the
    /// producer published before it could see the request is noticed here. See
    /// [`Producer::publish_with_doorbell`](crate::Producer::publish_with_doorbell).
    pub fn prepare_idle<S: Shared + ?Sized>(&self, ring: &S) -> Result<Idle, Error> {
        store(ring, layout::NEED_DOORBELL, 1)?;
        ring.full_fence();
        if self.available(ring)? == 0 {
            return Ok(Idle::Sleep);
        }
        self.resume(ring)?;
        Ok(Idle::Busy)
    }

    /// Tells the producer that no doorbell is needed, as the ring is being looked at.
    ///
    /// Whoever calls this must end with [`prepare_idle`](Self::prepare_idle) returning
    /// [`Idle::Sleep`].
    pub fn resume<S: Shared + ?Sized>(&self, ring: &S) -> Result<(), Error> {
        store(ring, layout::NEED_DOORBELL, 0)
    }
}
