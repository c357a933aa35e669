// SPDX-License-Identifier: GPL-2.0

//! Memory regions: pinned user memory, reached by key.

use crate::rdma::umem::Umem;

/// A registered memory region.
pub(crate) struct Mr {
    key: u32,
    _umem: Umem,
}

impl Mr {
    pub(super) fn new(key: u32, umem: Umem) -> Self {
        Self { key, _umem: umem }
    }

    /// Returns the region's lkey, which is its rkey as well.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }
}
