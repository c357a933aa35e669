// SPDX-License-Identifier: GPL-2.0

//! What a connection tells its owner.

/// Something that the owner must act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// The peer is known and data can flow.
    Established,
    /// The peer does not know the connection any more: every QP on it goes to the error state.
    PeerRestarted,
    /// The peer closed the connection: as [`Event::PeerRestarted`].
    PeerClosed,
    /// The set of usable paths changed.
    PathsChanged,
    /// Paths moved to other planes, because theirs are down or carry nothing.
    Migrated,
}

const ALL: [Event; 5] = [
    Event::Established,
    Event::PeerRestarted,
    Event::PeerClosed,
    Event::PathsChanged,
    Event::Migrated,
];

/// Events that wait; each at most once, in the order of their definition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Events(u8);

impl Events {
    pub(super) fn push(&mut self, e: Event) {
        // CAST: the discriminants are below 8.
        self.0 |= 1 << e as u8;
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let e = ALL.into_iter().find(|e| self.0 >> *e as u8 & 1 != 0)?;
        self.0 &= !(1 << e as u8);
        Some(e)
    }
}
