// SPDX-License-Identifier: GPL-2.0

//! Objects of the core's, as the firmware knows them.

use super::Ofl;
use crate::datapath::cq::{
    Completion,
    Overrun, //
};
use core::ptr::NonNull;

/// A completion queue of the core's.
pub(crate) struct CqRef {
    pub(super) ofl: NonNull<Ofl>,
    pub(super) cq: NonNull<bindings::metaroce_ofl_cq>,
}

// SAFETY: Two addresses; `metaroce_ofl_complete()`, all that they are used for, may be called in any
// context but NMI, also by several at once.
unsafe impl Send for CqRef {}

// SAFETY: As above.
unsafe impl Sync for CqRef {}

impl CqRef {
    /// Hands a completion over. Any context but NMI.
    pub(crate) fn complete(&self, c: &Completion, solicited: bool) -> Result<(), Overrun> {
        let cqe = bindings::metaroce_cqe {
            wr_id: c.wr_id,
            status: c.status,
            opcode: c.opcode,
            byte_len: c.byte_len,
            imm_data: c.imm,
            qp_num: c.qp_num,
            wc_flags: c.wc_flags,
            src_qp: c.src_qp,
            vendor_err: c.vendor_err,
            network_hdr_type: c.network_hdr_type,
            ..Default::default()
        };
        // SAFETY: Queue pairs use a queue between `cq_add` and `cq_del` only: the core deletes them
        // first, and nothing of one runs any more when `qp_del` has returned.
        let ret = unsafe {
            bindings::metaroce_ofl_complete(self.ofl.as_ptr(), self.cq.as_ptr(), &cqe, solicited)
        };
        if ret == 0 {
            Ok(())
        } else {
            Err(Overrun)
        }
    }
}

/// A queue pair of the core's.
pub(crate) struct QpRef {
    pub(super) ofl: NonNull<Ofl>,
    pub(super) qp: NonNull<bindings::metaroce_ofl_qp>,
}

// SAFETY: Two addresses; `metaroce_ofl_qp_event()`, all that they are used for, may be called in any
// context but NMI, also by several at once.
unsafe impl Send for QpRef {}

// SAFETY: As above.
unsafe impl Sync for QpRef {}

impl QpRef {
    /// Reports an event. Any context but NMI.
    pub(crate) fn report(&self, event: bindings::metaroce_ofl_event) {
        // SAFETY: Nothing of a queue pair runs any more when `qp_del` has returned.
        unsafe { bindings::metaroce_ofl_qp_event(self.ofl.as_ptr(), self.qp.as_ptr(), event) };
    }
}
