// SPDX-License-Identifier: GPL-2.0

//! Memory that work requests and peers name: which kind of key it is, and where the bytes are.

use super::{
    endpoint::Endpoint,
    fast::FastTable,
    mr::{
        access,
        AccessError, //
    },
    mw::MwTable,
    requester::Source,
    wqe::{
        SgList, //
        Sge,
    },
};
use crate::rdma::umem::Umem;

/// Who names memory: the number of the protection domain, and [`super::qp::Qp::serial`].
pub(super) type Owner = (u32, u64);

/// A range that a key opens, and what is to be done with it.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) key: u32,
    pub(super) va: u64,
    pub(super) len: u32,
    /// Of [`super::mr::access`].
    pub(super) rights: u32,
}

impl Endpoint {
    /// Calls `f` with each piece of the memory of a local scatter/gather element: where the piece
    /// is, and how long. The caller has bottom halves disabled.
    ///
    /// Errors: what `f` returns, and why the memory may not be used; then `f` was not called.
    pub(super) fn with_local<E: From<AccessError>>(
        &self,
        pd: u32,
        sge: &Sge,
        rights: u32,
        mut f: impl FnMut(&Umem, usize, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        if sge.length == 0 {
            // IB: a zero length names no memory, so the key is not looked at.
            return Ok(());
        }
        let (va, len) = (sge.addr, sge.length);
        if FastTable::owns(sge.lkey) {
            let range = Range {
                key: sge.lkey,
                va,
                len,
                rights,
            };
            return self.fast_mrs().with_pieces(pd, &range, f);
        }
        let mr = self.mrs().get(pd, sge.lkey, va, len.into(), rights)?;
        f(mr.memory(), mr.offset_of(va, len.into())?, len)
    }

    /// Copies data to `offset` of a local scatter list, whose memory is in domain `pd`. Context as
    /// for [`Self::with_local`].
    ///
    /// Errors: why the memory may not be used, [`AccessError::Bounds`] if the list is too short.
    pub(super) fn scatter(
        &self,
        pd: u32,
        list: SgList<'_>,
        offset: u32,
        source: &Source<'_>,
    ) -> Result<(), AccessError> {
        let mut done = 0;
        list.walk(offset.into(), source.len().into(), |sge| {
            self.with_local(pd, &sge, access::LOCAL_WRITE, |memory, at, len| {
                source.copy_to(done, memory, at, len)?;
                done += len;
                Ok(())
            })
        })
        .unwrap_or(Err(AccessError::Bounds))
    }

    /// Has the first `len` bytes of a local scatter list fetched, of which some are not there.
    /// Context and errors as for [`Self::scatter`].
    pub(super) fn touch_list(
        &self,
        pd: u32,
        list: SgList<'_>,
        len: u32,
    ) -> Result<(), AccessError> {
        let mut ahead = Umem::AHEAD;
        list.walk(0, len.into(), |sge| {
            self.touch_local(pd, &sge, access::LOCAL_WRITE, &mut ahead)
        })
        .unwrap_or(Err(AccessError::Bounds))
    }

    /// Checks a local scatter/gather element. Context and errors as for [`Self::with_local`].
    pub(super) fn check_local(&self, pd: u32, sge: &Sge, rights: u32) -> Result<(), AccessError> {
        self.with_local(pd, sge, rights, |_, _, _| Ok(()))
    }

    /// Checks a local scatter/gather element, and has memory fetched that is not there, unless
    /// `ahead` is used up, in bytes. Context and errors as for [`Self::with_local`].
    pub(super) fn touch_local(
        &self,
        pd: u32,
        sge: &Sge,
        rights: u32,
        ahead: &mut usize,
    ) -> Result<(), AccessError> {
        self.with_local(pd, sge, rights, |memory, at, len| {
            // CAST: `usize` is 64 bits wide here.
            let len = len as usize;
            if *ahead != 0 {
                memory.touch(at, len, rights & access::LOCAL_WRITE != 0);
                *ahead = ahead.saturating_sub(len);
            }
            Ok(())
        })
    }

    /// Calls `f` with each piece of memory that a peer names. Context and errors as for
    /// [`Self::with_local`].
    pub(super) fn with_remote<E: From<AccessError>>(
        &self,
        owner: Owner,
        range: &Range,
        mut f: impl FnMut(&Umem, usize, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let Range {
            key,
            va,
            len,
            rights,
        } = *range;
        if FastTable::owns(key) {
            return self.fast_mrs().with_pieces(owner.0, range, f);
        }
        if MwTable::owns(key) {
            let found = self.mws().get(owner, key, va, len.into(), rights)?;
            let at = found.mr.offset_of(found.va, len.into())?;
            return f(found.mr.memory(), at, len);
        }
        let mr = self.mrs().get(owner.0, key, va, len.into(), rights)?;
        f(mr.memory(), mr.offset_of(va, len.into())?, len)
    }

    /// Whether a queue pair, or its peer through it, may invalidate a key.
    pub(super) fn may_invalidate(&self, owner: Owner, key: u32) -> bool {
        if FastTable::owns(key) {
            self.fast_mrs().may_invalidate(owner.0, key)
        } else {
            MwTable::owns(key) && self.mws().may_invalidate(owner.1, key)
        }
    }

    /// Invalidates a key, which nobody uses any more on return; returns whether it could be.
    pub(super) fn invalidate(&self, owner: Owner, key: u32) -> bool {
        if FastTable::owns(key) {
            self.fast_mrs().invalidate(owner.0, key)
        } else {
            MwTable::owns(key) && self.mws().invalidate(owner.1, key)
        }
    }
}
