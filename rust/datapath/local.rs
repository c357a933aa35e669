// SPDX-License-Identifier: GPL-2.0

//! Work requests that send nothing: memory windows are bound, regions registered, keys
//! invalidated.

use super::{
    mw::BindError,
    now,
    qp::{
        Locked,
        Qp,
        QpInner, //
    },
    wqe::{
        SendOp,
        SendWr, //
    },
};
use proto::stream::WcStatus;

impl Qp {
    /// Carries out the local operations whose turn it is. Returns whether there were any: their
    /// completions are out, and there may be room for more work requests.
    pub(super) fn run_local(&self, inner: &mut Locked<'_>) -> bool {
        let mut any = false;
        while let Some(cookie) = inner.send.next_local() {
            let result = self.local(inner, cookie);
            inner.send.local_done(now(), result);
            any = true;
        }
        if any {
            self.complete_sent(inner);
        }
        any
    }

    fn local(&self, inner: &QpInner, cookie: u32) -> Result<(), WcStatus> {
        let wr = inner
            .sq
            .entry(cookie)
            .and_then(SendWr::parse)
            .ok_or(WcStatus::LocalQpOperation)?;
        match wr.op {
            SendOp::LocalInv if self.invalidate(wr.imm) => Ok(()),
            SendOp::BindMw => self.bind(&wr).map_err(|_| WcStatus::MwBind),
            SendOp::RegMr if self.register(&wr) => Ok(()),
            _ => Err(WcStatus::LocalQpOperation),
        }
    }

    fn bind(&self, wr: &SendWr) -> Result<(), BindError> {
        let bind = wr.bind();
        let mr = self.endpoint.mrs().lookup(bind.lkey);
        let owner = (self.pd, self.serial);
        self.endpoint.mws().bind(owner, &bind, mr.as_ref())
    }

    /// Opens a region for fast registration. Its domain is not that of any process, so processes
    /// cannot.
    fn register(&self, wr: &SendWr) -> bool {
        let bind = wr.bind();
        let regions = self.endpoint.fast_mrs();
        regions.register(self.pd, &bind)
    }

    /// Whether a key is one that the queue pair, or its peer through it, can invalidate.
    pub(super) fn may_invalidate(&self, key: u32) -> bool {
        self.endpoint.may_invalidate((self.pd, self.serial), key)
    }

    /// Invalidates a key; returns whether it could be.
    pub(super) fn invalidate(&self, key: u32) -> bool {
        self.endpoint.invalidate((self.pd, self.serial), key)
    }
}
