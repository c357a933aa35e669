// SPDX-License-Identifier: GPL-2.0

//! The rate control of DCQCN's reaction point.
//!
//! Written from Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015),
//! section 5, with the timers that later work of its users gives for 100 Gbit/s (Li et al., "HPCC",
//! SIGCOMM 2019, section 5.1).

use crate::time::{Ps, US};

/// Weight of a new estimate of the marked share.
const G: f64 = 1.0 / 256.0;
/// Without a CNP for so long, the estimate decays.
const ALPHA_TIMER: Ps = 55 * US;
/// The timer that raises the rate.
const RATE_TIMER: Ps = 300 * US;
/// The byte counter that raises the rate.
const RATE_BYTES: u64 = 10 << 20;
/// Raises of fast recovery.
const FAST: u32 = 5;
/// Additive raise, as a share of the line rate: 40 Mbit/s of 40 Gbit/s in the paper.
const ADDITIVE: f64 = 0.001;
/// Raise once both counters are through fast recovery, likewise.
const HYPER: f64 = 0.01;
/// Least rate, likewise.
const LEAST: f64 = 0.001;

/// Rates are in bytes per picosecond.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    line: f64,
    current: f64,
    target: f64,
    alpha: f64,
    alpha_at: Ps,
    rate_at: Ps,
    timer_raises: u32,
    byte_raises: u32,
    bytes: u64,
    /// No CNP came yet: the flow goes at line rate.
    free: bool,
}

impl Dcqcn {
    /// A flow that starts at line rate.
    pub fn new(line: f64) -> Self {
        Dcqcn {
            line,
            current: line,
            target: line,
            alpha: 1.0,
            alpha_at: 0,
            rate_at: 0,
            timer_raises: 0,
            byte_raises: 0,
            bytes: 0,
            free: true,
        }
    }

    /// The rate now.
    pub fn rate(&self) -> f64 {
        self.current
    }

    /// A congestion notification came.
    pub fn on_cnp(&mut self, now: Ps) {
        self.advance(now);
        self.free = false;
        self.target = self.current;
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(self.line * LEAST);
        self.alpha = (1.0 - G) * self.alpha + G;
        self.alpha_at = now + ALPHA_TIMER;
        self.rate_at = now + RATE_TIMER;
        self.timer_raises = 0;
        self.byte_raises = 0;
        self.bytes = 0;
    }

    /// `bytes` were sent.
    pub fn on_sent(&mut self, now: Ps, bytes: u64) {
        self.advance(now);
        if self.free {
            return;
        }
        self.bytes += bytes;
        if self.bytes >= RATE_BYTES {
            self.bytes -= RATE_BYTES;
            self.byte_raises += 1;
            self.raise();
        }
    }

    /// Lets the timers run up to `now`.
    pub fn advance(&mut self, now: Ps) {
        if self.free {
            return;
        }
        while self.alpha_at <= now {
            self.alpha *= 1.0 - G;
            self.alpha_at += ALPHA_TIMER;
        }
        while self.rate_at <= now {
            self.timer_raises += 1;
            self.rate_at += RATE_TIMER;
            self.raise();
        }
    }

    fn raise(&mut self) {
        let (most, least) = (
            self.timer_raises.max(self.byte_raises),
            self.timer_raises.min(self.byte_raises),
        );
        if least > FAST {
            self.target += f64::from(least - FAST) * HYPER * self.line;
        } else if most > FAST {
            self.target += ADDITIVE * self.line;
        }
        self.target = self.target.min(self.line);
        self.current = (self.current + self.target) / 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_halves_and_time_brings_it_back() {
        let mut d = Dcqcn::new(1.0);
        d.on_cnp(0);
        assert!((d.rate() - 0.5).abs() < 1e-9);
        d.advance(RATE_TIMER * u64::from(FAST));
        assert!(d.rate() > 0.95 && d.rate() < 1.0, "{}", d.rate());
        for k in 0..10_000 {
            d.on_cnp(RATE_TIMER * u64::from(FAST) + k);
        }
        assert!((d.rate() - LEAST).abs() < 1e-9);
    }
}
