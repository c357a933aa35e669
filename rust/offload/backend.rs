// SPDX-License-Identifier: GPL-2.0

//! What carries out the work of a connected queue pair.

use crate::{
    datapath::qp::Qp,
    net::netdev::Name,
    rdma::qp::{
        AttrMask,
        QpAttr, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Who carries a queue pair, for those who look.
#[derive(Clone, Copy)]
pub(crate) enum Carrier {
    /// Nobody yet: it is not connected.
    Nobody,
    /// The host.
    Software,
    /// The device that registered for a network device of this name.
    Device(Name),
}

/// What carries out the work of a connected queue pair: software, or a device.
pub(crate) trait Backend {
    /// Changes attributes, which were checked each for itself. Process context.
    ///
    /// Errors: `EINVAL` if the state does not allow the change, and others; nothing is changed.
    fn modify(&self, attr: &QpAttr, mask: AttrMask) -> Result;

    /// Returns state and attributes.
    fn query(&self) -> QpAttr;

    /// Something was posted. Process or softirq context.
    fn ring(&self);
}

/// Software.
impl Backend for Arc<Qp> {
    fn modify(&self, attr: &QpAttr, mask: AttrMask) -> Result {
        Qp::modify(self, attr, mask)
    }

    fn query(&self) -> QpAttr {
        Qp::query(self)
    }

    fn ring(&self) {
        self.doorbell();
    }
}
