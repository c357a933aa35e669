// SPDX-License-Identifier: GPL-2.0

//! The receive queue of the NIC: packets wait here for the firmware.

use crate::{
    net::skbuff::RxSkb,
    sync::lock_bh::{
        new_spinlock_bh,
        SpinLockBh, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// Packets that wait at most; more are dropped, as by any NIC.
const ROOM: usize = 4096;

/// A datagram: the packet, and where in it the datagram begins and how long it is.
pub(crate) type Datagram = (RxSkb, (usize, usize));

/// A queue of datagrams, each taken out once.
#[pin_data]
pub(crate) struct Inbox {
    #[pin]
    waiting: SpinLockBh<KVVec<Datagram>>,
    /// The room of those that are being taken.
    #[pin]
    taken: Mutex<KVVec<Datagram>>,
}

impl Inbox {
    /// Makes an empty queue. Process context.
    pub(crate) fn new() -> Result<impl PinInit<Self>> {
        let waiting = KVVec::with_capacity(ROOM, GFP_KERNEL)?;
        let taken = KVVec::with_capacity(ROOM, GFP_KERNEL)?;
        Ok(pin_init!(Self {
            waiting <- new_spinlock_bh!(waiting),
            taken <- new_mutex!(taken),
        }))
    }

    /// Adds a datagram; returns whether there was room. Softirq or process context.
    pub(crate) fn put(&self, datagram: Datagram) -> bool {
        self.waiting.lock().push_within_capacity(datagram).is_ok()
    }

    /// Calls `f` with what is waiting, in order and in portions of at most `n`. Process context.
    pub(crate) fn take(&self, n: usize, f: impl FnMut(&[Datagram])) {
        let mut taken = self.taken.lock();
        core::mem::swap(&mut *self.waiting.lock(), &mut *taken);
        taken.chunks(n.max(1)).for_each(f);
        taken.clear();
    }
}
