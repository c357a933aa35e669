// SPDX-License-Identifier: GPL-2.0

//! Congestion control of one path behind one trait.
//!
//! A law sees acknowledgements, marks and losses, and says how many packets may be in flight. It
//! does not see time other than through events, and keeps no timer.

mod delay;
mod ecn;
mod fixed;
mod loss;
mod pacer;
mod queue;
mod round;
#[cfg(test)]
mod tests;
mod window;

pub use delay::DelayTarget;
pub use ecn::EcnAimd;
pub use fixed::FixedWindow;
pub use pacer::{Pace, Pacer};
pub use window::Window;

use crate::recovery::LossCause;
use crate::time::{Duration, Instant};

/// Packets were acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent {
    /// Now.
    pub now: Instant,
    /// Packets acknowledged for the first time.
    pub acked: u32,
    /// Payload bytes of them.
    pub acked_bytes: u64,
    /// Packets in flight afterwards.
    pub in_flight: u32,
    /// Packets that were in flight before; at the window's size, the window was the limit.
    pub in_flight_before: u32,
    /// A round-trip sample, if the acknowledgement gave one.
    pub rtt: Option<Duration>,
    /// The least round-trip time of the path's plane, as far as it is known to this connection;
    /// zero if unknown.
    pub min_rtt: Duration,
}

/// Packets arrived with a CE mark.
#[derive(Clone, Copy, Debug)]
pub struct MarkEvent {
    /// Now.
    pub now: Instant,
    /// Newly reported marked packets.
    pub marked: u32,
    /// Packets acknowledged by the same block, for the share that is marked.
    pub acked: u32,
    /// Packets in flight.
    pub in_flight: u32,
}

/// Packets were found lost.
#[derive(Clone, Copy, Debug)]
pub struct LossEvent {
    /// Now.
    pub now: Instant,
    /// How many.
    pub lost: u32,
    /// How they were found.
    pub cause: LossCause,
    /// Packets in flight afterwards.
    pub in_flight: u32,
}

/// A law of congestion control.
pub trait CongestionControl {
    /// Packets that may be in flight on the path, at least 1.
    fn window(&self) -> u32;

    /// The same in finer steps, and possibly below 1: what the pacer goes by.
    fn fine_window(&self) -> Window {
        Window::packets(self.window())
    }

    /// The share of packets that were marked of late, of 1024: where else there is room, others go
    /// first.
    fn marked_share(&self) -> u32 {
        0
    }

    /// Packets were acknowledged.
    fn on_ack(&mut self, event: &AckEvent);

    /// Packets were marked. Called before [`CongestionControl::on_ack`] of the same block.
    fn on_mark(&mut self, event: &MarkEvent);

    /// Packets were lost.
    fn on_loss(&mut self, event: &LossEvent);

    /// A packet that was taken for lost had arrived all the same.
    fn on_spurious(&mut self, now: Instant);

    /// The path has another route: what was learnt about the old one is void.
    fn on_route_change(&mut self, now: Instant);
}

/// Which law a path uses, and its state.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Controller {
    /// A window that does not change.
    Fixed(FixedWindow),
    /// ECN AIMD.
    Ecn(EcnAimd),
    /// A target of delay.
    Delay(DelayTarget),
}

impl Controller {
    /// Names of the laws, the default first.
    pub const NAMES: [&'static str; 3] = ["ecn", "delay", "fixed"];

    /// The law of that name, as for a new path; `None` if there is none.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "ecn" => Some(Controller::Ecn(EcnAimd::new())),
            "delay" => Some(Controller::Delay(DelayTarget::new())),
            "fixed" => Some(Controller::Fixed(FixedWindow::default())),
            _ => None,
        }
    }

    /// The name of the law.
    pub const fn name(&self) -> &'static str {
        match self {
            Controller::Ecn(_) => "ecn",
            Controller::Delay(_) => "delay",
            Controller::Fixed(_) => "fixed",
        }
    }

    /// Lets a law that knows nothing yet start with `window`, if that is less than its own start: a
    /// connection's paths all start at once.
    pub fn start_with(&mut self, window: Window) {
        match self {
            Controller::Fixed(_) => {}
            Controller::Ecn(c) => c.start_with(window),
            Controller::Delay(c) => c.start_with(window),
        }
    }

    /// Sets what of a delay is the hosts' doing, [`crate::recovery::Timers::granularity`].
    pub fn set_granularity(&mut self, grain: Duration) {
        match self {
            Controller::Fixed(_) => {}
            Controller::Ecn(c) => c.set_granularity(grain),
            Controller::Delay(c) => c.set_granularity(grain),
        }
    }

    fn law(&self) -> &dyn CongestionControl {
        match self {
            Controller::Fixed(c) => c,
            Controller::Ecn(c) => c,
            Controller::Delay(c) => c,
        }
    }

    fn law_mut(&mut self) -> &mut dyn CongestionControl {
        match self {
            Controller::Fixed(c) => c,
            Controller::Ecn(c) => c,
            Controller::Delay(c) => c,
        }
    }
}

impl Default for Controller {
    fn default() -> Self {
        Controller::Ecn(EcnAimd::new())
    }
}

impl CongestionControl for Controller {
    #[inline]
    fn window(&self) -> u32 {
        self.law().window()
    }

    #[inline]
    fn fine_window(&self) -> Window {
        self.law().fine_window()
    }

    #[inline]
    fn marked_share(&self) -> u32 {
        self.law().marked_share()
    }

    fn on_ack(&mut self, event: &AckEvent) {
        self.law_mut().on_ack(event);
    }

    fn on_mark(&mut self, event: &MarkEvent) {
        self.law_mut().on_mark(event);
    }

    fn on_loss(&mut self, event: &LossEvent) {
        self.law_mut().on_loss(event);
    }

    fn on_spurious(&mut self, now: Instant) {
        self.law_mut().on_spurious(now);
    }

    fn on_route_change(&mut self, now: Instant) {
        self.law_mut().on_route_change(now);
    }
}
