// SPDX-License-Identifier: GPL-2.0

//! Completion queues of the firmware: completions are handed to the core.

pub(crate) use super::completion::{
    Completion,
    Overrun,
    WC_GRH,
    WC_WITH_IMM,
    WC_WITH_INVALIDATE,
    WC_WITH_NETWORK_HDR_TYPE,
    WC_WITH_VLAN, //
};
use crate::abi::CqRef;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A completion queue of the core's.
pub(crate) struct Cq(CqRef);

impl Cq {
    /// Makes the firmware's side of a queue. Process context.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new(cq: CqRef) -> Result<Arc<Self>> {
        Ok(Arc::new(Self(cq), GFP_KERNEL)?)
    }

    /// Adds a completion. Any context but NMI.
    pub(crate) fn push(&self, completion: &Completion, solicited: bool) -> Result<(), Overrun> {
        self.0.complete(completion, solicited)
    }

    /// Adds the completion of a work request that was flushed. Context as for [`Self::push`].
    pub(super) fn push_flushed(&self, wr_id: u64, qp_num: u32) {
        // A queue that overruns tells so itself.
        let _ = self.push(&Completion::flushed(wr_id, qp_num), false);
    }
}
