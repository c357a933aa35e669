// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use crate::rdma::{
    event::CqEvents,
    mmap::SharedMem, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use ring::Geometry;

/// Bytes of a completion, `struct metaroce_cqe`.
pub(crate) const CQE_SIZE: usize = 64;

/// A completion queue.
pub(crate) struct Cq {
    _ring: SharedMem,
    _events: CqEvents,
}

impl Cq {
    /// Makes the queue in `ring`, which must have room for `entries` completions, a power of two.
    pub(crate) fn new(entries: u32, ring: SharedMem, events: CqEvents) -> Result<Arc<Self>> {
        // CAST: A small constant.
        let geometry = Geometry::new(entries, CQE_SIZE as u32).ok_or(EINVAL)?;
        if ring::Shared::len(&ring) < geometry.size() {
            return Err(EINVAL);
        }
        Ok(Arc::new(
            Self {
                _ring: ring,
                _events: events,
            },
            GFP_KERNEL,
        )?)
    }

    /// Asks for an event at the next completion, or the next solicited one. Returns whether
    /// completions are there already that no event will tell of.
    pub(crate) fn arm(&self, _solicited_only: bool) -> bool {
        false
    }

    /// Ends all events: the queue is going to be destroyed.
    pub(crate) fn silence(&self) {}
}
