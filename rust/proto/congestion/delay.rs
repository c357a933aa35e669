// SPDX-License-Identifier: GPL-2.0

//! A law that goes by delay alone, after Swift (Kumar et al., SIGCOMM 2020): for fabrics without
//! ECN, and where queues are to be kept shorter than marking thresholds keep them.

use super::queue::Queue;
use super::window::INCREASE;
use super::{AckEvent, CongestionControl, LossEvent, MarkEvent, Window};
use crate::recovery::LossCause;
use crate::time::{Duration, Instant};

/// Least distance of the target from the least round-trip time, as a part of a grain. Swift has
/// 25 µs, with time stamps taken by the NIC; ours include the schedulers of both hosts.
const TARGET_MIN: u64 = 2;
/// Swift's beta: of the overshoot, how much a cut takes, of 1024.
const BETA: u64 = 819;
/// Swift's max_mdf: most that is cut in one round trip, of 1024.
const CUT_MOST: u32 = 512;
/// The target goes up by as much as this for small windows, in parts of itself of 1024: many flows
/// make a longer queue by chance (Swift section 3.5).
const SCALE_MOST: u64 = 2048;

/// Keeps the round-trip time at a target.
#[derive(Clone, Copy, Debug)]
pub struct DelayTarget {
    window: Window,
    undo: Option<Window>,
    slow_start: bool,
    queue: Queue,
    /// Smoothed samples, as single ones carry the hosts' noise.
    smoothed: Duration,
    last_cut: Instant,
    /// What hosts do to a round trip, [`crate::recovery::Timers::granularity`].
    grain: Duration,
}

impl DelayTarget {
    /// A law that knows nothing of its path yet.
    pub const fn new() -> Self {
        DelayTarget {
            window: Window::INITIAL,
            undo: None,
            slow_start: true,
            queue: Queue::new(),
            smoothed: Duration::ZERO,
            last_cut: Instant(0),
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

    /// The round-trip time that the law steers to, zero before the first sample.
    pub fn target(&self) -> Duration {
        let base = self.queue.base();
        if base == Duration::ZERO {
            return base;
        }
        let above = Duration(base.0 / 2)
            .max(Duration(self.grain.0 / TARGET_MIN))
            .0;
        // 1/sqrt(window), between windows of 1/10 and 100 packets as Swift has it: 0 … 3.
        let root = u64::from((self.window.raw().max(Window::MIN.raw()) << 8).isqrt());
        let scale = (256 * 1024 / root.max(1)).min(SCALE_MOST);
        let above = above.saturating_mul(1024 + scale) / 1024;
        base.saturating_add(Duration(above))
    }

    fn take_sample(&mut self, rtt: Duration) {
        self.smoothed = if self.smoothed == Duration::ZERO {
            rtt
        } else {
            Duration(self.smoothed.0 - self.smoothed.0 / 4 + rtt.0 / 4)
        };
    }
}

impl Default for DelayTarget {
    fn default() -> Self {
        Self::new()
    }
}

impl CongestionControl for DelayTarget {
    #[inline]
    fn window(&self) -> u32 {
        self.window.whole()
    }

    #[inline]
    fn fine_window(&self) -> Window {
        self.window
    }

    fn on_ack(&mut self, e: &AckEvent) {
        let Some(rtt) = e.rtt else {
            return;
        };
        self.queue.set_least(e.min_rtt);
        self.take_sample(rtt);
        let (target, now) = (self.target(), self.smoothed.min(rtt));
        if now <= target {
            let used = e.in_flight_before.saturating_mul(4) >= self.window.whole();
            if used && self.slow_start {
                self.window.add_packets(e.acked);
            } else if used {
                self.window.grow(INCREASE, e.acked);
            }
            return;
        }
        if e.now.since(self.last_cut) < self.smoothed {
            return;
        }
        let part = (now.0 - target.0).saturating_mul(BETA) / now.0.max(1);
        let part = u32::try_from(part).unwrap_or(u32::MAX).min(CUT_MOST);
        self.queue.above_target(now, self.window <= Window::MIN);
        self.window.cut(part, Window::MIN);
        self.slow_start = false;
        self.last_cut = e.now;
        self.undo = None;
    }

    fn on_mark(&mut self, _: &MarkEvent) {}

    fn on_loss(&mut self, e: &LossEvent) {
        if e.cause == LossCause::Timeout {
            self.undo = self.undo.max(Some(self.window));
            self.window.cut(512, Window::ONE);
        }
    }

    fn on_spurious(&mut self, _: Instant) {
        if let Some(before) = self.undo.take() {
            self.window = self.window.max(before);
        }
    }

    fn on_route_change(&mut self, _: Instant) {
        let before = self.undo.unwrap_or(self.window);
        *self = DelayTarget {
            window: before.min(Window::INITIAL),
            undo: self.undo,
            grain: self.grain,
            ..DelayTarget::new()
        };
    }
}
