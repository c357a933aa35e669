// SPDX-License-Identifier: GPL-2.0

//! Where a queue pair finds its receives: in a queue of its own, or in a shared one.

use super::{
    srq::{
        Bound,
        Broken, //
    },
    work_queue::WorkQueue,
};

/// A queue pair's receives, by free-running index in the order in which they are consumed.
pub(crate) enum RecvQueue {
    /// The queue pair's own ring.
    Own(WorkQueue),
    /// What was taken from a shared receive queue.
    Shared(Bound),
}

impl RecvQueue {
    /// Fetches receives up to that with index `wanted` at least, if there are as many.
    ///
    /// An error means that user space stored an index that it cannot have reached.
    pub(super) fn fetch_up_to(&mut self, wanted: u32) -> Result<(), Broken> {
        match self {
            Self::Own(queue) => {
                // Those behind it cost little, now that the ring is looked at.
                if wanted.wrapping_sub(queue.fetched()) < 1 << 31 {
                    while queue.fetch().map_err(|_| Broken)?.is_some() {}
                }
                Ok(())
            }
            Self::Shared(bound) => bound.take_up_to(wanted),
        }
    }

    /// Returns how many receives there can be at a time.
    pub(super) fn entries(&self) -> u32 {
        match self {
            Self::Own(queue) => queue.entries(),
            Self::Shared(bound) => bound.window(),
        }
    }

    /// Returns the index of the next receive to be fetched.
    pub(super) fn fetched(&self) -> u32 {
        match self {
            Self::Own(queue) => queue.fetched(),
            Self::Shared(bound) => bound.taken(),
        }
    }

    /// Returns the copy of the receive `index`, if it is fetched and not retired.
    pub(super) fn entry(&self, index: u32) -> Option<&[u8]> {
        match self {
            Self::Own(queue) => queue.entry(index),
            Self::Shared(bound) => bound.entry(index),
        }
    }

    /// Returns the index of the oldest receive, fetching it if need be; [`None`] if there is none.
    ///
    /// Errors as for [`Self::fetch_up_to`].
    pub(super) fn oldest(&mut self) -> Result<Option<u32>, Broken> {
        let index = self.oldest_index();
        if self.entry(index).is_none() {
            self.fetch_up_to(index)?;
        }
        Ok(self.entry(index).map(|_| index))
    }

    /// Returns the index of the oldest receive that is not retired, or will be the oldest.
    pub(super) fn oldest_index(&self) -> u32 {
        match self {
            Self::Own(queue) => queue.oldest_index(),
            Self::Shared(bound) => bound.retired(),
        }
    }

    /// Retires the oldest receive. Does nothing if there is none.
    pub(super) fn retire(&mut self) {
        match self {
            Self::Own(queue) => queue.retire(),
            Self::Shared(bound) => bound.retire(),
        }
    }

    /// Drops all that is posted to the queue pair: it is reset. What others may take stays.
    pub(super) fn discard(&mut self) {
        match self {
            Self::Own(queue) => {
                queue.discard();
                queue.stay_awake();
            }
            Self::Shared(bound) => bound.discard(),
        }
    }

    /// Fetches the next receive that is to be flushed, and returns its index: what is posted to
    /// the queue pair, or was taken from the shared queue.
    fn next_to_flush(&mut self) -> Option<u32> {
        match self {
            Self::Own(queue) => loop {
                if let Some(index) = queue.oldest() {
                    return Some(index);
                }
                // A ring with a wild index is left alone: nothing in it can be believed.
                if queue.fetch().ok()?.is_none() && queue.sleep().ok()? {
                    return None;
                }
            },
            Self::Shared(bound) => {
                let oldest = bound.retired();
                (oldest != bound.taken()).then_some(oldest)
            }
        }
    }

    /// Retires what is to be flushed, calling `f` with the copy of each. Returns whether there may be
    /// more: that is at most what the queue holds, for a process can post meanwhile.
    pub(super) fn flush(&mut self, mut f: impl FnMut(Option<&[u8]>)) -> bool {
        for _ in 0..=self.entries() {
            let Some(index) = self.next_to_flush() else {
                return false;
            };
            f(self.entry(index));
            self.retire();
        }
        true
    }

    /// Returns the number of the domain that the receives' memory is in, if it is not the queue
    /// pair's.
    pub(super) fn pd(&self) -> Option<u32> {
        match self {
            Self::Own(_) => None,
            Self::Shared(bound) => Some(bound.pd()),
        }
    }

    /// Returns the queue pair's own queue.
    pub(super) fn own(&self) -> Option<&WorkQueue> {
        match self {
            Self::Own(queue) => Some(queue),
            Self::Shared(_) => None,
        }
    }

    /// Returns the queue pair's own queue.
    pub(super) fn own_mut(&mut self) -> Option<&mut WorkQueue> {
        match self {
            Self::Own(queue) => Some(queue),
            Self::Shared(_) => None,
        }
    }

    /// Whether the receives come from a shared queue.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}
