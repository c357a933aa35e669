// SPDX-License-Identifier: GPL-2.0

//! Datagrams that have come, and wait for the memory of their receives.
//!
//! Nobody sends a datagram again. So one whose receive has pages that are not there is kept, as a
//! copy, until they have been fetched; those that come after it wait behind it.

use super::{
    grh::Grh,
    recv::NotPlaced,
    Locked,
    Ud, //
};
use crate::{
    datapath::{
        counters::Drop,
        endpoint::Endpoint,
        requester::Source, //
    },
    net::skbuff::RxSkb,
};
use kernel::{
    alloc::flags::GFP_NOWAIT,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};
use proto::{
    patience::Patience,
    wire::DatagramHeader, //
};

/// Most datagrams that wait at a queue pair.
const AT_QUEUE_PAIR: usize = 16;

/// Most that wait at all of an endpoint: 4 MiB at the most.
const AT_ENDPOINT: u32 = 1024;

/// How many datagrams wait at an endpoint.
pub(in crate::datapath) struct Waiting(Atomic<u32>);

impl Waiting {
    pub(in crate::datapath) fn new() -> Self {
        Self(Atomic::new(0))
    }
}

/// One of the places for waiting datagrams.
struct Place(Arc<Endpoint>);

impl Place {
    fn new(endpoint: &Arc<Endpoint>) -> Option<Self> {
        let place = Self(endpoint.clone());
        // Dropped again if there was none.
        (endpoint.waiting.0.fetch_add(1, Relaxed) < AT_ENDPOINT).then_some(place)
    }
}

impl core::ops::Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.0.fetch_sub(1, Relaxed);
    }
}

/// A datagram that waits.
struct Held {
    header: DatagramHeader,
    grh: Grh,
    message: KVec<u8>,
    _place: Place,
}

/// The datagrams that wait at a queue pair.
#[derive(Default)]
pub(super) struct HeldQueue {
    /// The oldest first.
    list: KVec<Held>,
    /// With the memory of the oldest receive.
    patience: Patience,
}

impl HeldQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Copies `len` bytes at `off` of a packet.
fn copy_of(skb: &RxSkb, (off, len): (usize, u32)) -> Result<KVec<u8>> {
    // CAST: `usize` is 64 bits wide here.
    let mut bytes = KVec::from_elem(0u8, len as usize, GFP_NOWAIT)?;
    skb.copy(off, &mut bytes)?;
    Ok(bytes)
}

impl Ud {
    /// Keeps a datagram, whose message is the `message.1` bytes at `message.0` of `skb`, behind those
    /// that wait.
    ///
    /// Errors: why it is dropped, for there is no room, or no memory.
    pub(super) fn hold(
        &self,
        inner: &mut Locked<'_>,
        header: &DatagramHeader,
        grh: Grh,
        skb: &RxSkb,
        message: (usize, u32),
    ) -> Result<(), Drop> {
        let queue = &mut inner.held;
        if queue.list.len() >= AT_QUEUE_PAIR {
            return Err(Drop::NoReceive);
        }
        let place = Place::new(&self.endpoint).ok_or(Drop::NoReceive)?;
        let held = Held {
            header: *header,
            grh,
            message: copy_of(skb, message).map_err(|_| Drop::NoReceive)?,
            _place: place,
        };
        let pushed = queue.list.push(held, GFP_NOWAIT);
        pushed.map_err(|_| Drop::NoReceive)?;
        self.wait_for_memory(&mut queue.patience);
        Ok(())
    }

    /// Goes on with the datagrams that wait.
    pub(super) fn go_on_receiving(self: &Arc<Self>, inner: &mut Locked<'_>) {
        if inner.held.is_empty() {
            return;
        }
        if !inner.receives() {
            return self.drop_held(inner);
        }
        let mut queue = core::mem::take(&mut inner.held);
        // A receive whose memory is wrong ends receiving; there may be others, in a shared queue.
        while let Some(held) = queue.list.first().filter(|_| inner.receives()) {
            let message = Source::Bytes(&held.message);
            match self.place(inner, &held.header, &held.grh, &message) {
                Err(NotPlaced::Absent) => {
                    self.wait_for_memory(&mut queue.patience);
                    break;
                }
                Err(NotPlaced::Dropped(why)) => self.count_drop(inner, why),
                Ok(()) => {}
            }
            let _ = queue.list.remove(0);
            queue.patience.end();
        }
        // Nobody else can have kept one: the lock is held.
        inner.held = queue;
        if !inner.receives() {
            self.drop_held(inner);
        }
    }

    /// Drops the datagrams that wait: the queue pair has left the states in which it receives.
    pub(super) fn drop_held(&self, inner: &mut Locked<'_>) {
        for _ in core::mem::take(&mut inner.held).list.drain_all() {
            self.count_drop(inner, Drop::UnknownQueuePair);
        }
    }

    /// Counts a datagram that is dropped after it was kept.
    fn count_drop(&self, inner: &mut Locked<'_>, why: Drop) {
        self.endpoint.host().drops.count(why);
        if let Some(counters) = &inner.counters {
            counters.datagram_dropped(why);
        }
    }
}
