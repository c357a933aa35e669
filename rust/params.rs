// SPDX-License-Identifier: GPL-2.0

//! Parameters of the module, brought into the ranges that they may have.

use crate::module_parameters;
use proto::{
    congestion::{
        Controller,
        FixedWindow, //
    },
    path::SPAN,
    wire::MAX_PLANES, //
};

/// Most paths of a connection per plane.
const MAX_PATHS_PER_PLANE: u8 = 16;

/// Settings that connections are made with.
#[derive(Clone, Copy)]
pub(crate) struct Transport {
    /// Paths per plane.
    pub(crate) paths_per_plane: u8,
    /// Whether to ask peers for the CRC.
    pub(crate) crc: bool,
    /// Packets in flight per path.
    window: u32,
}

impl Transport {
    /// Returns the congestion control that paths start with.
    pub(crate) fn controller(&self) -> Controller {
        Controller::Fixed(FixedWindow::new(self.window))
    }
}

/// Returns the settings for a new connection.
pub(crate) fn transport() -> Transport {
    const { assert!(MAX_PLANES * MAX_PATHS_PER_PLANE as usize <= 128) };
    Transport {
        paths_per_plane: module_parameters::paths_per_plane
            .value()
            .clamp(1, MAX_PATHS_PER_PLANE),
        crc: module_parameters::crc.value() != 0,
        window: module_parameters::window.value().clamp(1, SPAN),
    }
}

/// Returns the UDP port of devices that are added from now on.
pub(crate) fn port() -> u16 {
    module_parameters::port.value()
}
