// SPDX-License-Identifier: GPL-2.0

//! Completion statuses.

use crate::packet::NakCode;
use crate::state::numbered;

/// How a work request ended. The numbers are those of `enum ib_wc_status` (`rdma/ib_verbs.h`),
/// their meaning that of IBTA 1.4, 10.10.3 and 11.6.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum WcStatus {
    /// Completed as asked.
    #[default]
    Success = 0,
    /// Local Length Error: a message was longer than its receive, or longer than allowed.
    LocalLength = 1,
    /// Local QP Operation Error: the work request cannot be carried out on this QP.
    LocalQpOperation = 2,
    /// Local Protection Error: a local buffer may not be used so.
    LocalProtection = 4,
    /// Work Request Flushed Error: the QP was in the error state.
    Flushed = 5,
    /// Memory Window Bind Error.
    MwBind = 6,
    /// Bad Response Error: the responder sent something that does not answer the request.
    BadResponse = 7,
    /// Local Access Error.
    LocalAccess = 8,
    /// Remote Invalid Request Error.
    RemoteInvalidRequest = 9,
    /// Remote Access Error.
    RemoteAccess = 10,
    /// Remote Operation Error.
    RemoteOperation = 11,
    /// Transport Retry Counter Exceeded.
    RetryExceeded = 12,
    /// RNR Retry Counter Exceeded.
    RnrRetryExceeded = 13,
    /// Remote Aborted Error.
    RemoteAborted = 16,
    /// Fatal Error.
    Fatal = 19,
    /// General Error.
    General = 21,
}

impl WcStatus {
    /// The value for `struct ib_wc`.
    pub const fn to_ib(self) -> u32 {
        // CAST: the discriminants are the values.
        self as u32
    }

    /// The status that a message ends with when its retries are used up, or at once if the code is
    /// not one to retry.
    pub(super) const fn from_nak(code: NakCode) -> Self {
        match code {
            NakCode::Rnr => WcStatus::RnrRetryExceeded,
            NakCode::NotReady => WcStatus::RetryExceeded,
            NakCode::InvalidRequest => WcStatus::RemoteInvalidRequest,
            NakCode::RemoteAccess => WcStatus::RemoteAccess,
            NakCode::RemoteOperation => WcStatus::RemoteOperation,
        }
    }
}

numbered!(WcStatus {
    Success,
    LocalLength,
    LocalQpOperation,
    LocalProtection,
    Flushed,
    MwBind,
    BadResponse,
    LocalAccess,
    RemoteInvalidRequest,
    RemoteAccess,
    RemoteOperation,
    RetryExceeded,
    RnrRetryExceeded,
    RemoteAborted,
    Fatal,
    General,
});
