// SPDX-License-Identifier: GPL-2.0

//! The queue of those who wait to send on a connection.

use kernel::prelude::*;

/// Queue pairs that want to send, in turn. Each is in it at most once.
pub(super) struct Ready {
    /// A ring; its length bounds the number of users.
    ring: KVec<u32>,
    head: usize,
    len: usize,
}

impl Ready {
    /// Makes a queue without room.
    pub(super) const fn new() -> Self {
        Self {
            ring: KVec::new(),
            head: 0,
            len: 0,
        }
    }

    /// Returns how many queue pairs there is room for.
    pub(super) fn room(&self) -> usize {
        self.ring.len()
    }

    /// Goes on in `ring`, which is larger; returns the old one, to be freed outside of the lock.
    pub(super) fn grow(&mut self, mut ring: KVec<u32>) -> KVec<u32> {
        let mut n = 0;
        while let (Some(qpn), Some(slot)) = (self.pop_front(), ring.get_mut(n)) {
            *slot = qpn;
            n += 1;
        }
        self.head = 0;
        self.len = n;
        core::mem::replace(&mut self.ring, ring)
    }

    fn place(&self, i: usize) -> usize {
        // The ring is not empty when this is called.
        (self.head + i) % self.ring.len().max(1)
    }

    pub(super) fn push_back(&mut self, qpn: u32) {
        let at = self.place(self.len);
        if self.len < self.ring.len() {
            if let Some(slot) = self.ring.get_mut(at) {
                *slot = qpn;
                self.len += 1;
            }
        }
    }

    pub(super) fn push_front(&mut self, qpn: u32) {
        if self.len < self.ring.len() {
            self.head = self.place(self.ring.len() - 1);
            if let Some(slot) = self.ring.get_mut(self.head) {
                *slot = qpn;
                self.len += 1;
            }
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let qpn = self.ring.get(self.head).copied();
        self.head = self.place(1);
        self.len -= 1;
        qpn
    }

    pub(super) fn remove(&mut self, qpn: u32) {
        for _ in 0..self.len {
            match self.pop_front() {
                Some(q) if q != qpn => self.push_back(q),
                _ => {}
            }
        }
    }
}
