// SPDX-License-Identifier: GPL-2.0

//! Changing the route, trying one out, and probes.

use core::ops::DerefMut;

use super::{index, Trial, TxHalf, TxSlot};
use crate::congestion::CongestionControl;
use crate::path::Route;
use crate::psn::Psn;
use crate::recovery::LossCause;
use crate::time::{Instant, Stamp};
use crate::wire::AckBlock;

impl<S: DerefMut<Target = [TxSlot]>> TxHalf<S> {
    /// Replaces the route; PSNs and what is outstanding stay. `old_dead` says that nothing sent on
    /// the old route can still arrive. A probe becomes due, so that what was lost on the old route
    /// is found within a round trip of the new one.
    pub fn change_route(&mut self, now: Instant, route: Route, old_dead: bool) {
        self.route = Route {
            epoch: self.route.epoch.wrapping_add(1),
            ..route
        };
        self.local = false;
        self.old_route_dead = old_dead;
        self.trial = None;
        self.rtt.on_route_change();
        self.cc.on_route_change(now);
        self.stats.route_changes += 1;
        if !self.outstanding.is_empty() {
            self.probe_due = true;
            // The new route gets its time; what ran out or was about to was the old one's.
            self.waiting.since = now;
            self.waiting.probed = true;
        }
    }

    /// Whatever was sent on earlier routes is lost: their planes are down, or were silent for longer
    /// than a timeout. So it need not wait until a probe has proved that, a round trip. The
    /// controller is not told, it has started over with the route.
    pub fn write_off(&mut self) {
        let epoch = self.route.epoch;
        let una = index(self.una);
        let mut rest = self.in_flight_bits();
        while let Some(i) = rest.take_from(una) {
            let Some(slot) = self.slot_mut(i) else {
                break;
            };
            if slot.route_epoch != epoch {
                slot.cause = LossCause::Timeout;
                self.lost.set(i);
            }
        }
        self.count_in_flight();
    }

    /// Puts a route on trial: a probe becomes due on it, under the epoch that it will have. If that
    /// is answered, the path moves there; the present route stays in use until then.
    pub fn try_route(&mut self, route: Route) {
        let epoch = self.route.epoch.wrapping_add(1);
        self.trial = Some(Trial {
            route: Route { epoch, ..route },
            sent: None,
        });
    }

    pub(super) fn end_trial(&mut self, now: Instant, block: &AckBlock) -> bool {
        let answered = self.trial.filter(|t| t.sent == Some(block.stamp));
        let Some(trial) = answered else {
            return false;
        };
        self.change_route(now, trial.route, false);
        true
    }

    /// Whether a probe should go out.
    pub fn probe_due(&self) -> bool {
        self.probe_due || self.trial.is_some_and(|t| t.sent.is_none())
    }

    /// Makes a probe due whatever the timer says, e.g. to find out whether the peer lives.
    pub fn request_probe(&mut self) {
        self.probe_due = true;
    }

    /// Sends a probe if one is due: its stamp, the route to take, whose epoch it carries, and one
    /// past the highest PSN sent.
    pub fn probe(&mut self, now: Instant) -> Option<(Stamp, Route, Psn)> {
        let route = if core::mem::take(&mut self.probe_due) {
            self.route
        } else {
            self.trial.filter(|t| t.sent.is_none())?.route
        };
        let stamp = self.stamp(now);
        if route.epoch == self.route.epoch {
            self.probe_stamp = Some(stamp);
        } else if let Some(t) = &mut self.trial {
            t.sent = Some(stamp);
        }
        self.stats.probes += 1;
        Some((stamp, route, self.next))
    }
}
