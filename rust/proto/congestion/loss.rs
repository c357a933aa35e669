// SPDX-License-Identifier: GPL-2.0

//! Telling loss by congestion from loss at random.

use super::round::Round;

/// Packets that a judgement takes.
const BATCH: u32 = 256;
/// Packets after which gross loss is judged early.
const BATCH_EARLY: u32 = 64;
/// The level of random loss taken for granted at first, of 1024.
const LEVEL_INITIAL: u16 = 64;
/// The highest level that is believed. Beyond, and the noise on top, loss is congestion whatever
/// its cause: paths that share a full queue without seeing each other cannot tell, one by one, that
/// giving way helps, and must not take what they inflict on each other for granted.
const LEVEL_MAX: u32 = 128;
/// Loss above the level that is still noise, of 1024: a batch of 256 at 10 % has a standard
/// deviation of 2 %.
const NOISE: u32 = 64;
/// The same for an early judgement.
const NOISE_EARLY: u32 = 192;
/// Most that the level rises with a batch, of 1024.
const STEP: u32 = 2;
/// The same after a cut that did not help.
const STEP_CUT: u32 = 8;

/// The level of loss that does not depend on the window, and what exceeds it.
///
/// Loss at random takes the same share of few packets and of many; a full queue takes what is too
/// much. So the level follows downwards what is seen, and upwards slowly; faster when the window was
/// cut and the loss stayed, and at once when there is no window left to cut: then the window is not
/// its cause.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExcessLoss {
    seen: u32,
    lost: u32,
    level: u16,
    /// Batches above the level in a row.
    streak: u8,
    /// The last batch made for a cut.
    cut: bool,
}

impl ExcessLoss {
    pub(super) const fn new() -> Self {
        ExcessLoss {
            seen: 0,
            lost: 0,
            level: LEVEL_INITIAL,
            streak: 0,
            cut: false,
        }
    }

    /// Adds a round. `queue`: a queue stood on the path all the while. Returns the share to
    /// cut, of 1024, if there was congestion. Rounds that began before the last cut took effect are not
    /// to be added.
    ///
    /// Where a queue stands, one batch above the level is enough: the window can give way without
    /// a link running idle. Where none was seen (a short queue before a long path) it takes two,
    /// or gross loss. `least_window`: the window is as small as loss may make it.
    pub(super) fn on_round(
        &mut self,
        round: &Round,
        queue: bool,
        least_window: bool,
    ) -> Option<u32> {
        self.lost += round.lost;
        self.seen += round.acked + round.lost;
        if self.seen < BATCH_EARLY {
            return None;
        }
        let share = self.lost * 1024 / self.seen;
        let level = u32::from(self.level);
        let gross = share > level + level / 4 + NOISE_EARLY;
        if self.seen < BATCH && !gross {
            return None;
        }
        self.seen = 0;
        self.lost = 0;

        let excess = gross || share > level + level / 4 + NOISE;
        self.streak = if excess {
            self.streak.saturating_add(1)
        } else {
            0
        };
        let level = if share < level {
            level - (level - share).div_ceil(4)
        } else if least_window {
            level + (share - level) / 2
        } else if queue {
            // The queue may be the cause.
            level
        } else {
            level + (share - level).min(if self.cut { STEP_CUT } else { STEP })
        };
        // CAST: just bounded.
        self.level = level.min(LEVEL_MAX) as u16;
        self.cut = excess && (queue || gross || self.streak >= 2);
        // Somewhat below what got through, so that the queue drains, and the level shows itself.
        self.cut.then_some(share + NOISE)
    }

    /// Whether a round lost no more than the level explains.
    pub(super) fn is_clean(&self, round: &Round) -> bool {
        round.lost * 1024 <= u32::from(self.level) * (round.acked + round.lost)
    }

    /// The level of random loss, of 1024.
    pub(super) fn level(&self) -> u32 {
        u32::from(self.level)
    }
}
