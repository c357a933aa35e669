// SPDX-License-Identifier: GPL-2.0

//! When a completion queue raises its event.

/// Which completion raises an event.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Armed {
    #[default]
    No,
    Solicited,
    Next,
}

/// How many events are held back so that one may do for several completions.
#[derive(Clone, Copy, Default)]
struct Moderation {
    /// Completions that an event waits for at most.
    count: u32,
    /// How long it waits at most after the first, in nanoseconds.
    period: u64,
    /// Completions that an event would have been raised for.
    held: u32,
}

impl Moderation {
    /// Takes note of a completion that is to raise an event; returns whether it is raised now.
    fn raise(&mut self) -> bool {
        if self.count <= 1 || self.period == 0 {
            return true;
        }
        self.held += 1;
        self.held >= self.count
    }
}

/// What a completion, or the wish to be told of one, leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    Quiet,
    Event,
    /// The event is held back for some nanoseconds.
    Later(u64),
}

/// Decides on the events of one queue.
///
/// An event tells of all completions that are in the queue when it is raised. One that no event
/// has told of, and that was not polled either, raises it as soon as the user asks for events. IBTA
/// 11.4.2.2 does not want that of a queue; but there are users who ask only after they have found
/// the queue empty and do not look again (UCX), because adapters compare the consumer's index when
/// they are asked.
#[derive(Default)]
pub(super) struct Notices {
    armed: Armed,
    moderation: Moderation,
    /// Completions that there have ever been; wraps, as do the next two.
    pushed: u32,
    /// Of these, those that events have told of.
    told: u32,
    /// Those up to the last solicited one.
    solicited: u32,
}

impl Notices {
    /// A completion is in the queue.
    pub(super) fn pushed(&mut self, solicited: bool) -> Notice {
        self.pushed = self.pushed.wrapping_add(1);
        if solicited {
            self.solicited = self.pushed;
        }
        match self.armed {
            Armed::No => Notice::Quiet,
            Armed::Solicited if !solicited => Notice::Quiet,
            Armed::Solicited | Armed::Next => self.raise(),
        }
    }

    /// The user asks for an event at the next completion, or the next solicited one; `unpolled`
    /// are in the queue. The wider of several requests is in force.
    pub(super) fn arm(&mut self, solicited_only: bool, unpolled: u32) -> Notice {
        let was = self.armed;
        if was != Armed::Next {
            self.armed = if solicited_only {
                Armed::Solicited
            } else {
                Armed::Next
            };
        }
        // What came while it was armed has been told of, or is held back.
        if was == self.armed {
            return Notice::Quiet;
        }
        // Of all, the last `untold` are news; a solicited one is, and still in the queue, if it is
        // no further from the end than both.
        let untold = self.pushed.wrapping_sub(self.told).min(unpolled);
        let from_end = match self.armed {
            Armed::Solicited => self.pushed.wrapping_sub(self.solicited),
            _ => 0,
        };
        if from_end < untold {
            self.raise()
        } else {
            Notice::Quiet
        }
    }

    /// Sets how events are held back, and returns whether one that was is to be raised now.
    pub(super) fn moderate(&mut self, count: u32, period: u64) -> bool {
        let due = self.overdue();
        self.moderation = Moderation {
            count,
            period,
            held: 0,
        };
        due
    }

    /// Returns whether an event is held back, which it is no longer then.
    pub(super) fn overdue(&mut self) -> bool {
        let due = self.moderation.held > 0 && self.armed != Armed::No;
        if due {
            self.told();
        }
        due
    }

    /// No event is wanted any more.
    pub(super) fn disarm(&mut self) {
        self.armed = Armed::No;
        self.moderation.held = 0;
    }

    fn raise(&mut self) -> Notice {
        if self.moderation.raise() {
            self.told();
            Notice::Event
        } else {
            Notice::Later(self.moderation.period)
        }
    }

    /// An event is raised.
    fn told(&mut self) {
        self.told = self.pushed;
        self.disarm();
    }
}
