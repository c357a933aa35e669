// SPDX-License-Identifier: GPL-2.0

//! Parameters of the module, brought into the ranges that they may have.

use crate::{
    datapath::conn::Transport,
    module_parameters,
    offload::policy::Policy,
    rdma, //
};
use kernel::prelude::*;
use proto::{
    congestion::{
        Controller,
        FixedWindow, //
    },
    path::SPAN,
    wire::MAX_PLANES, //
};

/// Most paths of a connection per plane.
pub(crate) const MAX_PATHS_PER_PLANE: u8 = 16;

/// Checks a number of paths per plane.
///
/// Errors: `EINVAL` if there cannot be so many.
pub(crate) fn check_paths_per_plane(paths: u8) -> Result<u8> {
    let fits = (1..=MAX_PATHS_PER_PLANE).contains(&paths);
    fits.then_some(paths).ok_or(EINVAL)
}

/// Returns the settings that the connections of a new device have at first.
pub(crate) fn transport() -> Transport {
    const { assert!(MAX_PLANES * MAX_PATHS_PER_PLANE as usize <= 128) };
    Transport {
        paths_per_plane: module_parameters::paths_per_plane
            .value()
            .clamp(1, MAX_PATHS_PER_PLANE),
        crc: module_parameters::crc.value() != 0,
    }
}

/// Returns the law of congestion control of that name, in its initial state.
///
/// Errors: `EINVAL` if there is none.
pub(crate) fn law(name: &str) -> Result<Controller> {
    let law = Controller::by_name(name).ok_or(EINVAL)?;
    Ok(match law {
        Controller::Fixed(_) => Controller::Fixed(FixedWindow::new(window())),
        law => law,
    })
}

/// Returns the packets in flight per path with a fixed window.
pub(crate) fn window() -> u32 {
    module_parameters::window.value().clamp(1, SPAN)
}

/// Returns the offload policy of new devices.
///
/// Errors: `EINVAL` if the parameter names none.
pub(crate) fn default_policy() -> Result<Policy> {
    let name = rdma::param::offload().to_str().map_err(|_| EINVAL)?;
    Policy::by_name(name).ok_or(EINVAL)
}

/// Returns the law of congestion control of new devices.
///
/// Errors: `EINVAL` if the parameter names none.
pub(crate) fn default_law() -> Result<Controller> {
    law(rdma::param::cc().to_str().map_err(|_| EINVAL)?)
}

/// Returns the UDP port of devices that are added from now on.
pub(crate) fn port() -> u16 {
    module_parameters::port.value()
}
