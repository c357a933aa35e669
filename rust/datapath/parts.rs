// SPDX-License-Identifier: GPL-2.0

//! What queue pairs of every service are made of.

use super::{
    cq::Cq,
    recv_queue::RecvQueue,
    srq::{
        Bound,
        Srq, //
    },
    work_queue::WorkQueue,
};
use crate::rdma::{
    event::QpEvents,
    mmap::SharedMem, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a queue pair is made of, whatever its service.
pub(crate) struct QpParts {
    /// Number of the protection domain.
    pub(crate) pd: u32,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    /// Where its work requests are posted.
    pub(crate) rings: QpRings,
    /// Every send work request has a completion.
    pub(crate) signal_all: bool,
    pub(crate) events: QpEvents,
}

/// Where the work requests of a queue pair are posted.
pub(crate) struct QpRings {
    pub(crate) sq: (SharedMem, ring::Geometry),
    /// [`None`] if nothing can be received, or from the shared receive queue.
    pub(crate) rq: Option<(SharedMem, ring::Geometry)>,
    pub(crate) srq: Option<Arc<Srq>>,
}

impl QpRings {
    /// Opens the queues: of sends, and of receives if there can be any. Up to `window` receives
    /// of a shared queue, a power of two, are taken ahead. Process context.
    ///
    /// Errors: `ENOMEM`; `EINVAL` if a ring has no room for its geometry.
    pub(super) fn open(self, window: u32) -> Result<(WorkQueue, Option<RecvQueue>)> {
        let (ring, geometry) = self.sq;
        let sq = WorkQueue::new(ring, geometry)?;
        // The first work request finds the kernel asleep.
        let _ = sq.sleep();
        let rq = match (self.srq, self.rq) {
            (Some(srq), _) => Some(RecvQueue::Shared(Bound::new(srq, window)?)),
            (None, Some((ring, geometry))) => Some(RecvQueue::Own(WorkQueue::new(ring, geometry)?)),
            (None, None) => None,
        };
        Ok((sq, rq))
    }
}
