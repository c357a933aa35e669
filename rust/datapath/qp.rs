// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{
    cq::Cq,
    endpoint::Endpoint, //
};
use crate::rdma::{
    event::QpEvents,
    mmap::SharedMem,
    qp::{
        AttrMask,
        QpAttr,
        QpState,
        QpType, //
    }, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

/// What a queue pair is made of.
#[expect(dead_code)]
pub(crate) struct QpInit {
    /// Number of the protection domain.
    pub(crate) pd: u32,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) sq: (SharedMem, ring::Geometry),
    /// [`None`] if nothing can be received.
    pub(crate) rq: Option<(SharedMem, ring::Geometry)>,
    /// Every send work request has a completion.
    pub(crate) signal_all: bool,
    pub(crate) events: QpEvents,
}

/// A reliable connected queue pair.
#[pin_data]
pub(crate) struct Qp {
    qpn: u32,
    #[pin]
    attr: SpinLock<QpAttr>,
    _init: QpInit,
}

impl Qp {
    /// Makes a queue pair in the RESET state and gives it a number.
    pub(crate) fn new(endpoint: &Arc<Endpoint>, init: QpInit) -> Result<Arc<Self>> {
        let qpn = endpoint.next_number();
        Arc::pin_init(
            pin_init!(Self {
                qpn,
                attr <- new_spinlock!(QpAttr::default()),
                _init: init,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the queue pair's number.
    pub(crate) fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Returns the state and the attributes, those that were never set being zero.
    pub(crate) fn query(&self) -> QpAttr {
        let mut attr = *self.attr.lock();
        attr.current_state = attr.state;
        attr
    }

    /// Sets the attributes in `mask` and moves to the state among them.
    pub(crate) fn modify(self: &Arc<Self>, attr: &QpAttr, mask: AttrMask) -> Result {
        let mut own = self.attr.lock();
        let to = if mask.contains(AttrMask::STATE) {
            attr.state
        } else {
            own.state
        };
        if !QpType::Rc.may_modify(own.state, to, mask) {
            return Err(EINVAL);
        }
        if !matches!(to, QpState::Reset | QpState::Init | QpState::Error) {
            return Err(EOPNOTSUPP);
        }
        own.state = to;
        Ok(())
    }

    /// User space has posted something.
    pub(crate) fn doorbell(self: &Arc<Self>) {}

    /// Takes the queue pair out of everything.
    pub(crate) fn destroy(&self) {}
}
