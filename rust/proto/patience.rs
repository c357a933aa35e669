// SPDX-License-Identifier: GPL-2.0

//! When to look again for what is only found to be there by looking.

use crate::time::{Duration, Instant};

/// The waits for one thing that is not there yet.
///
/// Each is as long as all before it together, so looking costs the less the longer it takes, and
/// what has come is found in at most twice the time, or [`Self::MOST`] late. How often is looked in
/// between, for other reasons, does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// The shortest wait: a page of memory that is new takes some microseconds.
    pub const LEAST: Duration = Duration::from_micros(100);

    /// The longest wait. Something may never come, and thousands may wait for it.
    pub const MOST: Duration = Duration::from_millis(100);

    /// It is not there: returns when to look again.
    pub fn next(&mut self, now: Instant) -> Instant {
        let since = *self.since.get_or_insert(now);
        now.after(now.since(since).clamp(Self::LEAST, Self::MOST))
    }

    /// It is there, or nobody waits for it any more.
    pub fn end(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often is looked within that time, by who only looks when told to.
    fn looks(patience: &mut Patience, from: Instant, time: Duration) -> u32 {
        let (mut now, mut n) = (from, 0);
        while now.since(from) < time {
            let next = patience.next(now);
            let wait = next.since(now);
            assert!(wait >= Patience::LEAST && wait <= Patience::MOST);
            assert!(
                wait <= Patience::LEAST.max(now.since(from)),
                "{wait:?} after {now:?}"
            );
            (now, n) = (next, n + 1);
        }
        n
    }

    #[test]
    fn looks_seldom_at_what_takes_long() {
        let start = Instant(5_000_000_000);
        let mut patience = Patience::default();
        // 1 + 1 + 2 + 4 + … tenths of a millisecond.
        assert_eq!(looks(&mut patience, start, Duration::from_millis(100)), 11);
        patience.end();
        let many = looks(&mut patience, start, Duration::from_millis(10_000));
        assert!((100..=112).contains(&many), "{many}");
    }

    #[test]
    fn does_not_count_how_often_is_looked() {
        let start = Instant(7);
        let mut patience = Patience::default();
        for _ in 0..100 {
            assert_eq!(patience.next(start), start.after(Patience::LEAST));
        }
        let later = start.after(Duration::from_millis(3));
        for _ in 0..100 {
            assert_eq!(patience.next(later), later.after(Duration::from_millis(3)));
        }
    }

    #[test]
    fn begins_anew() {
        let mut patience = Patience::default();
        patience.next(Instant(0));
        let late = Instant(1 << 62);
        assert_eq!(patience.next(late), late.after(Patience::MOST));
        patience.end();
        assert_eq!(patience.next(late), late.after(Patience::LEAST));
    }
}
