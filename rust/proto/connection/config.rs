// SPDX-License-Identifier: GPL-2.0

//! What the owner of a connection decides.

use super::MAX_PATHS;
use crate::congestion::Controller;
use crate::recovery::Timers;
use crate::wire::PlaneList;

/// Settings of a connection, fixed when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The id that the peer puts into every packet: random, unique on this host, not 0.
    pub local_id: u32,
    /// Random; picks UDP source ports.
    pub seed: u32,
    /// The local planes, at least one.
    pub planes: PlaneList,
    /// Paths per local plane. How many there are is settled with the planes that there are then.
    pub paths_per_plane: u8,
    /// Largest payload of a data packet that this side takes, bytes.
    pub payload_mtu: u16,
    /// Whether this side wants packets protected by the CRC. One side's wish is enough.
    pub crc: bool,
    /// Whether the connection is for one pair of queue pairs only. Both sides must see it so.
    pub own: bool,
    /// Congestion control that paths start with.
    pub controller: Controller,
    /// Most packets of one burst ([`super::Connection::reserve`]).
    pub burst: u32,
    /// Bounds of the timers.
    pub timers: Timers,
}

impl Config {
    /// Paths per plane unless set otherwise.
    pub const PATHS_PER_PLANE: u8 = 8;

    /// Defaults for what is not particular to a connection.
    pub fn new(local_id: u32, seed: u32, planes: PlaneList) -> Self {
        Config {
            local_id,
            seed,
            planes,
            paths_per_plane: Self::PATHS_PER_PLANE,
            payload_mtu: 4096,
            crc: true,
            own: false,
            controller: Controller::default(),
            burst: 16,
            timers: Timers::default(),
        }
    }

    /// Paths that a connection with this configuration needs storage for: so many per plane of its
    /// own, at most [`MAX_PATHS`].
    pub fn paths(&self) -> u16 {
        (u16::from(self.planes.len()) * u16::from(self.paths_per_plane)).min(MAX_PATHS)
    }
}

/// Why no connection can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No plane, or a path count of zero.
    NoPath,
    /// The local id is 0.
    BadId,
    /// Less storage than [`Config::paths`].
    Storage,
}
