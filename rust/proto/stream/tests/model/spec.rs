// SPDX-License-Identifier: GPL-2.0

//! What the messages of a run are to do, and what goes wrong with them.

use super::*;

/// What goes wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The work request is invalid at the requester.
    Local,
    /// The remote key is not valid.
    Key,
    /// The key of a Read becomes invalid while the response is sent.
    KeyLater,
    /// The receive is too short.
    Short,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) op: SendOp,
    pub(super) len: u32,
    pub(super) fence: bool,
    pub(super) fault: Option<Fault>,
    pub(super) msn: Msn,
    pub(super) rsn: Option<Rsn>,
}

impl Spec {
    pub(super) fn packets(&self) -> u32 {
        self.len.div_ceil(MTU).max(1)
    }

    pub(super) fn failure(&self) -> Option<WcStatus> {
        Some(match self.fault? {
            Fault::Local => WcStatus::LocalProtection,
            Fault::Key | Fault::KeyLater => WcStatus::RemoteAccess,
            Fault::Short => WcStatus::RemoteInvalidRequest,
        })
    }
}
