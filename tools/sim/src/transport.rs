// SPDX-License-Identifier: GPL-2.0

//! What connections are, and how MetaRoCE is set.

use proto::congestion::{Controller, DelayTarget, EcnAimd, FixedWindow};
use proto::connection::Config;
use proto::recovery::Timers;
use proto::time::Duration;
use proto::wire::PlaneList;

/// Which transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The project's.
    MetaRoce,
    /// Go-back-N on a single path with DCQCN.
    Rc,
}

impl Transport {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Transport::MetaRoce => "MetaRoCE",
            Transport::Rc => "RC",
        }
    }
}

/// Law of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// ECN AIMD.
    Ecn,
    /// A target of delay.
    Delay,
    /// A window of so many packets a path.
    Fixed(u32),
}

/// Settings of MetaRoCE.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Paths per plane.
    pub paths: u8,
    /// Law of congestion control.
    pub law: Law,
    /// Packets of a burst.
    pub burst: u32,
    /// Bounds of the timers.
    pub timers: Timers,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            paths: Config::PATHS_PER_PLANE,
            law: Law::Ecn,
            burst: 1,
            // For hardware and round trips of some 10 us; the module's defaults allow for the
            // scheduling of virtual machines.
            timers: Timers {
                rto_initial: Duration::from_millis(1),
                rto_min: Duration::from_micros(30),
                rto_patient: Duration::from_micros(100),
                rto_cap: Duration::from_millis(4),
                rto_max: Duration::from_millis(100),
                probe_min: Duration::from_micros(15),
                granularity: Duration::from_micros(2),
            },
        }
    }
}

impl Settings {
    /// The configuration of one end.
    pub fn config(&self, id: u32, seed: u32, planes: PlaneList, mtu: u32) -> Config {
        let mut cfg = Config::new(id, seed, planes);
        cfg.paths_per_plane = self.paths;
        cfg.payload_mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        cfg.crc = false;
        cfg.burst = self.burst;
        cfg.timers = self.timers;
        cfg.controller = match self.law {
            Law::Ecn => Controller::Ecn(EcnAimd::new()),
            Law::Delay => Controller::Delay(DelayTarget::new()),
            Law::Fixed(n) => Controller::Fixed(FixedWindow::new(n)),
        };
        cfg
    }
}
