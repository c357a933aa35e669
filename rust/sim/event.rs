// SPDX-License-Identifier: GPL-2.0

//! Events of the firmware's objects: they are reported to the core.

pub use super::event_kind::{
    QpEvent,
    SrqEvent, //
};
use crate::abi::QpRef;

/// Reports events about a queue pair of the core's. Any context but NMI.
pub struct QpEvents(QpRef);

impl QpEvents {
    /// Makes those of a queue pair.
    pub(crate) fn new(qp: QpRef) -> Self {
        Self(qp)
    }

    /// Reports `event`.
    pub fn report(&self, event: QpEvent) {
        let event = match event {
            QpEvent::Fatal => bindings::metaroce_ofl_event_METAROCE_OFL_QP_FATAL,
            QpEvent::RequestError => bindings::metaroce_ofl_event_METAROCE_OFL_QP_REQ_ERR,
            QpEvent::AccessError => bindings::metaroce_ofl_event_METAROCE_OFL_QP_ACCESS_ERR,
            QpEvent::SqDrained => bindings::metaroce_ofl_event_METAROCE_OFL_SQ_DRAINED,
            // The core knows the state; shared receive queues are not for devices, nor is it told of
            // migrations.
            QpEvent::Established | QpEvent::PathMigrated | QpEvent::LastWqeReached => return,
        };
        self.0.report(event);
    }
}

/// Shared receive queues are not for devices.
#[derive(Clone, Copy)]
pub enum SrqEvents {}

impl SrqEvents {
    /// Is never called.
    pub fn report(&self, _event: SrqEvent) {
        match *self {}
    }
}
