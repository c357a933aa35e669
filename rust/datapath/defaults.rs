// SPDX-License-Identifier: GPL-2.0

//! What holds for the connections of an endpoint, unless a queue pair wants something else of its
//! own: see [`super::wishes`]. These are the settings themselves; module parameters only say what
//! they begin with.

use super::{
    conn::Transport,
    endpoint::Endpoint, //
};
use kernel::prelude::*;
use proto::congestion::Controller;

/// The settings of an endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    /// Of connections that are made from now on.
    pub(crate) transport: Transport,
    /// The law of congestion control, in its initial state.
    pub(crate) law: Controller,
    /// Planes that are used, bits by number, also for those that there are not yet.
    pub(crate) planes: u8,
}

impl Defaults {
    /// Those of a new endpoint: all planes are used.
    pub(super) fn new(transport: Transport, law: Controller) -> Self {
        Self {
            transport,
            law,
            planes: u8::MAX,
        }
    }
}

impl Endpoint {
    /// Returns the settings.
    pub(crate) fn defaults(&self) -> Defaults {
        *self.defaults.lock()
    }

    /// Returns the law of congestion control.
    pub(crate) fn law(&self) -> Controller {
        self.defaults().law
    }

    /// Returns the planes that are used, bits by number.
    pub(crate) fn used_planes(&self) -> u8 {
        self.defaults().planes
    }

    /// Changes the law of congestion control, also of the connections that there are, but for those
    /// whose queue pair has chosen one. Process context.
    pub(crate) fn set_law(&self, law: Controller) {
        self.defaults.lock().law = law;
        // Not `law`: of several who set one at once, the last is to have its way everywhere.
        self.for_each_conn(|conn| conn.set_law(self.law(), false));
    }

    /// Sets the number of paths per plane of connections that are made from now on.
    pub(crate) fn set_paths_per_plane(&self, paths: u8) {
        self.defaults.lock().transport.paths_per_plane = paths;
    }

    /// Sets the planes that are used, bits by number. Connections whose queue pair has not chosen its
    /// own leave the others at once. Process context.
    ///
    /// Errors: `EINVAL` if none of them is there.
    pub(crate) fn set_used_planes(&self, planes: u8) -> Result {
        if planes & self.plane_masks().there == 0 {
            return Err(EINVAL);
        }
        self.defaults.lock().planes = planes;
        self.refresh_planes();
        Ok(())
    }
}
