// SPDX-License-Identifier: GPL-2.0

//! The default law: additive increase, decrease by the share of marked packets; where nothing
//! marks, by the queue that stands and by loss that exceeds the random.
//!
//! Marks are handled as in DCTCP (RFC 8257). Beyond that a cut takes evidence of a queue: loss
//! alone, up to a level that the path itself shows, is none.

use super::loss::ExcessLoss;
use super::queue::Queue;
use super::round::Round;
use super::window::INCREASE;
use super::{AckEvent, CongestionControl, LossEvent, MarkEvent, Window};
use crate::recovery::LossCause;
use crate::time::{Duration, Instant};

/// Rounds without any sign of congestion after which growth doubles with each.
const CLEAN_ROUNDS: u8 = 8;
/// Most of the window, as a shift, that growth adds in a round.
const INCREASE_MOST: u32 = 4;
/// Gain of the estimate of marks, as a shift: 1/16 (RFC 8257 section 4.2).
const GAIN: u32 = 4;
/// The least delay above the base that counts as a queue too long, in grains. A fabric that would
/// fill such a queue should mark.
const TARGET_MIN: u64 = 2;
/// And the most; in between it is half the round trip. The base may be too high by the queue that
/// stood when it was measured, and must not double with each who comes to that of others.
const TARGET_MAX: u64 = 8;
/// The least delay that counts as a queue at all, as a part of a grain.
const QUEUE_MIN: u64 = 50;
/// A window so small that a queue above the target is not its doing.
const SMALL: Window = Window::INITIAL;
/// Of the overshoot of delay, how much a cut takes, of 1024 (Swift, beta = 0.8).
const DELAY_BETA: u64 = 819;
/// Most that delay cuts at once, of 1024.
const DELAY_CUT_MOST: u32 = 512;

/// ECN AIMD.
#[derive(Clone, Copy, Debug)]
pub struct EcnAimd {
    window: Window,
    /// What the window was before timeouts that may turn out mistaken.
    undo: Option<Window>,
    /// Estimated share of marked packets, of 1024.
    alpha: u32,
    slow_start: bool,
    /// Packets that were in flight at the last cut and still are: what becomes of them says
    /// nothing about the new window, and until then it neither grows nor is cut again.
    hold: u32,
    /// The round began during that.
    stale: bool,
    /// Rounds without congestion in a row.
    clean: u8,
    round: Round,
    queue: Queue,
    loss: ExcessLoss,
    /// What hosts do to a round trip, [`crate::recovery::Timers::granularity`].
    grain: Duration,
}

impl EcnAimd {
    /// A law that knows nothing of its path yet.
    pub const fn new() -> Self {
        EcnAimd {
            window: Window::INITIAL,
            undo: None,
            alpha: 1024,
            slow_start: true,
            hold: 0,
            stale: false,
            clean: 0,
            round: Round::new(),
            queue: Queue::new(),
            loss: ExcessLoss::new(),
            grain: Duration::from_millis(1),
        }
    }

    /// Makes the first window `window`, if that is smaller.
    pub fn start_with(&mut self, window: Window) {
        self.window = self.window.min(window);
    }

    /// Sets what of a delay is the hosts' doing; a millisecond otherwise.
    pub fn set_granularity(&mut self, grain: Duration) {
        self.grain = grain;
    }

    /// The estimated share of marked packets, of 1024.
    pub fn alpha(&self) -> u32 {
        self.alpha
    }

    /// The share of loss, of 1024, that counts as random on this path.
    pub fn loss_level(&self) -> u32 {
        self.loss.level()
    }

    /// Whether no sign of congestion was seen yet on this route.
    pub fn in_slow_start(&self) -> bool {
        self.slow_start
    }

    fn reduce(&mut self, part: u32, least: Window, in_flight: u32) {
        self.window.cut(part, least);
        self.slow_start = false;
        self.hold = in_flight.max(1);
        self.clean = 0;
    }

    fn grow(&mut self, e: &AckEvent) {
        // Only a window that is used says anything by not causing congestion.
        let peak = self.round.peak.max(e.in_flight_before);
        if peak.saturating_mul(4) < self.window.whole().saturating_mul(3) {
            return;
        }
        if self.slow_start {
            self.window.add_packets(e.acked);
            return;
        }
        let doublings = self.clean.saturating_sub(CLEAN_ROUNDS).min(8);
        let most = (self.window.raw() >> INCREASE_MOST).max(INCREASE);
        let per_round = (INCREASE << doublings).min(most);
        self.window.grow(per_round, e.acked);
    }

    fn end_round(&mut self, round: &Round, in_flight: u32) {
        let share = (round.marked.min(round.acked) * 1024)
            .checked_div(round.acked)
            .unwrap_or(0);
        self.alpha = self.alpha - (self.alpha >> GAIN) + (share >> GAIN);
        self.undo = None;
        self.clean = if self.loss.is_clean(round) {
            self.clean.saturating_add(1)
        } else {
            0
        };
        let base = self.queue.base();
        let delay = self.queue.delay(round.least);
        let stands = delay > Duration(base.0 / 4).max(Duration(self.grain.0 / QUEUE_MIN));
        if !self.stale {
            let least = self.window.whole() <= 1;
            self.judge_delay(round.least, in_flight);
            if let Some(share) = self.loss.on_round(round, stands, least) {
                // Down to what got through.
                self.reduce(share, Window::ONE, in_flight);
            }
        }
        self.stale = self.hold > 0;
    }

    fn judge_delay(&mut self, least_rtt: Duration, in_flight: u32) {
        let base = self.queue.base();
        let delay = self.queue.delay(least_rtt);
        let target = Duration(base.0 / 2)
            .max(self.grain.saturating_mul(TARGET_MIN))
            .min(self.grain.saturating_mul(TARGET_MAX));
        // Doubling once more would overshoot by as much.
        self.slow_start &= delay <= Duration(target.0 / 4);
        let Some(over) = delay.0.checked_sub(target.0).filter(|n| *n > 0) else {
            return;
        };
        let part = over.saturating_mul(DELAY_BETA) / least_rtt.0.max(1);
        let part = u32::try_from(part).unwrap_or(u32::MAX).min(DELAY_CUT_MOST);
        self.queue.above_target(least_rtt, self.window < SMALL);
        self.reduce(part, Window::ONE, in_flight);
    }
}

impl Default for EcnAimd {
    fn default() -> Self {
        Self::new()
    }
}

impl CongestionControl for EcnAimd {
    #[inline]
    fn window(&self) -> u32 {
        self.window.whole()
    }

    #[inline]
    fn fine_window(&self) -> Window {
        self.window
    }

    #[inline]
    fn marked_share(&self) -> u32 {
        if self.slow_start {
            0
        } else {
            self.alpha
        }
    }

    fn on_ack(&mut self, e: &AckEvent) {
        self.queue.set_least(e.min_rtt);
        self.hold = self.hold.saturating_sub(e.acked);
        if self.hold == 0 {
            self.grow(e);
        }
        if let Some(round) = self.round.on_ack(e) {
            self.end_round(&round, e.in_flight);
        }
    }

    fn on_mark(&mut self, e: &MarkEvent) {
        self.round.on_mark(e);
        if self.hold == 0 {
            // RFC 8257 section 3.3: once per window of data.
            self.reduce(self.alpha / 2, Window::MIN, e.in_flight);
        }
    }

    fn on_loss(&mut self, e: &LossEvent) {
        self.round.on_loss(e);
        self.hold = self.hold.saturating_sub(e.lost);
        if e.cause == LossCause::Timeout {
            // Mostly it is the route that fails, or a host that stands still; and what was lost
            // has to go out again before queue pairs lose their patience. So by half each time, not
            // down to one packet as in RFC 5681.
            self.undo = self.undo.max(Some(self.window));
            self.window.cut(512, Window::ONE);
            self.slow_start = true;
            self.hold = 0;
        }
    }

    fn on_spurious(&mut self, _: Instant) {
        if let Some(before) = self.undo.take() {
            self.window = self.window.max(before);
        }
    }

    fn on_route_change(&mut self, _: Instant) {
        let before = self.undo.unwrap_or(self.window);
        *self = EcnAimd {
            // Nothing is known of the new route, the timeouts of the old one included.
            window: before.min(Window::INITIAL),
            undo: self.undo,
            grain: self.grain,
            ..EcnAimd::new()
        };
    }
}
