// SPDX-License-Identifier: GPL-2.0

//! The GIDs of an endpoint: to whom a datagram is addressed.

use crate::{
    rdma::gid::GidEntry,
    sync::{
        list,
        lock_bh::{
            new_spinlock_bh,
            SpinLockBh, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
};
use proto::wire::Gid;

/// The GIDs of an endpoint, as ib_core tells them, and who answers for them.
#[pin_data]
pub(crate) struct Gids {
    #[pin]
    list: SpinLockBh<KVec<GidEntry>>,
    /// The key of the general services queue pair in the host's table; 0 if there is none.
    gsi: Atomic<u32>,
}

impl Gids {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_spinlock_bh!(KVec::new()),
            gsi: Atomic::new(0),
        })
    }

    /// Adds a GID, in place of another one of the same index. Process context, one caller at a
    /// time.
    ///
    /// Errors: `ENOMEM`.
    pub(super) fn add(&self, entry: GidEntry) -> Result {
        list::push(&self.list, entry, GFP_KERNEL, |e| e.index != entry.index)
    }

    /// Removes the GID of an index.
    pub(super) fn remove(&self, index: u16) {
        self.list.lock().retain(|e| e.index != index);
    }

    /// Returns whether the GID is one of the endpoint's.
    pub(super) fn contains(&self, gid: &Gid) -> bool {
        self.list.lock().iter().any(|e| e.gid.0 == gid.0)
    }

    /// Returns whether a GID is of this network interface: it may be one above the primary plane's.
    pub(super) fn has_interface(&self, ifindex: u32) -> bool {
        self.list.lock().iter().any(|e| e.ifindex == ifindex)
    }

    /// Makes the queue pair of this key the one for general services; false if there is one.
    pub(super) fn set_gsi(&self, key: u32) -> bool {
        self.gsi.cmpxchg(0, key, Full).is_ok()
    }

    /// The queue pair of this key is gone.
    pub(super) fn clear_gsi(&self, key: u32) {
        let _ = self.gsi.cmpxchg(key, 0, Full);
    }

    /// Returns the key of the queue pair for general services, or 0.
    pub(super) fn gsi(&self) -> u32 {
        self.gsi.load(Relaxed)
    }
}
