// SPDX-License-Identifier: GPL-2.0

//! Path migration (IBTA 1.6, 17.2.8), as far as there is anything to it here.
//!
//! A connection goes over to its other planes by itself, and nobody has to know. A queue pair whose
//! migration state is `ARMED` is told when it has happened, and is `MIGRATED` from then on.

use super::qp::{
    Locked,
    Qp,
    QpInner, //
};
use crate::rdma::{
    event::QpEvent,
    qp::MigState, //
};

impl QpInner {
    /// To be called when the attributes or the connection may have changed.
    pub(super) fn watch_planes(&self) {
        if self.attr.path_mig_state == MigState::Armed {
            if let Some(conn) = &self.conn {
                conn.watch_planes();
            }
        }
    }
}

impl Qp {
    /// The connection has gone over to other planes.
    pub(super) fn migrated(&self, inner: &mut Locked<'_>) {
        if inner.attr.path_mig_state == MigState::Armed {
            inner.attr.path_mig_state = MigState::Migrated;
            self.events.report(QpEvent::PathMigrated);
        }
    }
}
