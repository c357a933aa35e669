// SPDX-License-Identifier: GPL-2.0

//! Work requests of users in the kernel.

use core::marker::PhantomData;

use kernel::prelude::*;

use super::{
    object::Ah,
    ops::Operations, //
};

/// An element of a scatter/gather list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

impl From<&bindings::ib_sge> for Sge {
    fn from(sge: &bindings::ib_sge) -> Self {
        Self {
            addr: sge.addr,
            length: sge.length,
            lkey: sge.lkey,
        }
    }
}

/// Returns the elements of a list.
///
/// # Safety
///
/// `list` must be valid for reads of `len` elements during `'a`, if there are any.
unsafe fn elements<'a>(
    list: *const bindings::ib_sge,
    len: c_int,
) -> Result<&'a [bindings::ib_sge]> {
    let len = usize::try_from(len)?;
    if len == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: By the requirements of this function.
    Ok(unsafe { core::slice::from_raw_parts(list, len) })
}

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// A send.
    Send,
    /// A send with this immediate, as it is in memory.
    SendImm(u32),
    /// A send that invalidates this key of the peer.
    SendInv(u32),
    /// An RDMA write.
    Write(Remote),
    /// An RDMA write with this immediate, as it is in memory.
    WriteImm(Remote, u32),
    /// An RDMA read.
    Read(Remote),
    /// An atomic compare-and-swap.
    CmpSwap(Remote, Atomic),
    /// An atomic fetch-and-add.
    FetchAdd(Remote, Atomic),
    /// The invalidation of this key here.
    LocalInv(u32),
    /// The registration of the pages that were mapped to a region.
    RegMr(Registration),
}

/// Memory of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct Remote {
    pub addr: u64,
    pub rkey: u32,
}

/// The operands of an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct Atomic {
    pub compare_add: u64,
    pub swap: u64,
}

/// Where a datagram goes.
#[expect(missing_docs)]
pub struct Datagram<'a, T: Operations> {
    pub ah: &'a Ah<T>,
    pub qpn: u32,
    pub q_key: u32,
}

/// What a fast registration opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Key that the region gets; the part that its user cannot choose tells which region it is.
    pub key: u32,
    /// Address by which its first byte is named from then on. The user may have changed it since
    /// the pages were mapped (NFS puts the number of a call there).
    pub iova: u64,
    /// Of the values of `enum ib_access_flags`.
    pub access_flags: u32,
}

/// A send work request of a user in the kernel.
///
/// # Invariants
///
/// `raw` is live and, as ib_core wants it, the first member of the structure that its opcode and
/// the type of the queue pair call for. Its lists and what they name belong to the request.
pub struct SendRequest<'a, T: Operations> {
    raw: &'a bindings::ib_send_wr,
    /// Of a datagram queue pair.
    is_datagram: bool,
    _driver: PhantomData<T>,
}

impl<'a, T: Operations> SendRequest<'a, T> {
    /// Wraps a request.
    ///
    /// # Safety
    ///
    /// As the type invariants say, for a queue pair of `T`, during `'a`.
    pub(super) unsafe fn from_raw(raw: &'a bindings::ib_send_wr, is_datagram: bool) -> Self {
        // INVARIANT: By the requirements of this function.
        Self {
            raw,
            is_datagram,
            _driver: PhantomData,
        }
    }

    /// Returns the request's number.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Either member of the union is a number of 64 bits.
        unsafe { self.raw.__bindgen_anon_1.wr_id }
    }

    /// Returns the flags, of the values of `enum ib_send_flags`.
    pub fn flags(&self) -> u32 {
        // CAST: A bit mask that C happens to keep in a signed number.
        self.raw.send_flags as u32
    }

    /// Returns what is asked for.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for operations that are not known here, `EINVAL` for those that a datagram
    /// queue pair does not have.
    pub fn op(&self) -> Result<SendOp> {
        if self.is_datagram
            && !matches!(
                self.raw.opcode,
                bindings::ib_wr_opcode_IB_WR_SEND | bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM
            )
        {
            return Err(EINVAL);
        }
        // SAFETY: Either member of the union is a number of 32 bits.
        let extra = unsafe { self.raw.ex.invalidate_rkey };
        Ok(match self.raw.opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => SendOp::Send,
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => SendOp::SendImm(extra),
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => SendOp::SendInv(extra),
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => SendOp::Write(self.remote()),
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => {
                SendOp::WriteImm(self.remote(), extra)
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => SendOp::Read(self.remote()),
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
                let (remote, atomic) = self.atomic();
                SendOp::CmpSwap(remote, atomic)
            }
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                let (remote, atomic) = self.atomic();
                SendOp::FetchAdd(remote, atomic)
            }
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => SendOp::LocalInv(extra),
            bindings::ib_wr_opcode_IB_WR_REG_MR => SendOp::RegMr(self.registration()),
            _ => return Err(EOPNOTSUPP),
        })
    }

    /// Returns the memory that a write or a read names.
    fn remote(&self) -> Remote {
        // SAFETY: By the type invariant; the callers have looked at the opcode.
        let wr = unsafe { &*core::ptr::from_ref(self.raw).cast::<bindings::ib_rdma_wr>() };
        Remote {
            addr: wr.remote_addr,
            rkey: wr.rkey,
        }
    }

    /// Returns what is registered.
    fn registration(&self) -> Registration {
        // SAFETY: By the type invariant; the caller has looked at the opcode.
        let wr = unsafe { &*core::ptr::from_ref(self.raw).cast::<bindings::ib_reg_wr>() };
        // SAFETY: By the type invariant, the request names a live region.
        let iova = unsafe { (*wr.mr).iova };
        Registration {
            key: wr.key,
            iova,
            // CAST: A bit mask that C happens to keep in a signed number.
            access_flags: wr.access as u32,
        }
    }

    /// Returns the memory and the operands of an atomic operation.
    fn atomic(&self) -> (Remote, Atomic) {
        // SAFETY: By the type invariant; the callers have looked at the opcode.
        let wr = unsafe { &*core::ptr::from_ref(self.raw).cast::<bindings::ib_atomic_wr>() };
        (
            Remote {
                addr: wr.remote_addr,
                rkey: wr.rkey,
            },
            Atomic {
                compare_add: wr.compare_add,
                swap: wr.swap,
            },
        )
    }

    /// Returns where a request of a datagram queue pair goes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is another one, or the request has no address handle.
    pub fn datagram(&self) -> Result<Datagram<'a, T>> {
        if !self.is_datagram {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant.
        let wr = unsafe { &*core::ptr::from_ref(self.raw).cast::<bindings::ib_ud_wr>() };
        if wr.ah.is_null() {
            return Err(EINVAL);
        }
        Ok(Datagram {
            // SAFETY: By the type invariant the handle belongs to the request, and to a device of
            // the driver.
            ah: unsafe { Ah::<T>::from_raw(wr.ah) },
            qpn: wr.remote_qpn,
            q_key: wr.remote_qkey,
        })
    }

    /// Returns the scatter/gather list.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none where there should be one.
    pub fn list(&self) -> Result<impl ExactSizeIterator<Item = Sge> + Clone + 'a> {
        // SAFETY: By the type invariant.
        let list = unsafe { elements::<'a>(self.raw.sg_list, self.raw.num_sge) }?;
        Ok(list.iter().map(Sge::from))
    }

    /// Returns the pieces of the data of a request with `IB_SEND_INLINE`, whose list names them
    /// by their addresses in the kernel.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the request is another one, or has no list.
    pub fn inline_data(&self) -> Result<impl Iterator<Item = &'a [u8]>> {
        if self.raw.send_flags & bindings::ib_send_flags_IB_SEND_INLINE == 0 {
            return Err(EINVAL);
        }
        Ok(self.list()?.filter(|sge| sge.length != 0).map(|sge| {
            // CAST: Addresses of the kernel, and `usize` is no narrower than 32 bits.
            //
            // SAFETY: By the type invariant the data belong to the request, and so they are there
            // and do not change.
            unsafe {
                core::slice::from_raw_parts(
                    core::ptr::with_exposed_provenance(sge.addr as usize),
                    sge.length as usize,
                )
            }
        }))
    }
}

/// A receive work request of a user in the kernel.
///
/// # Invariants
///
/// `raw` is live, and its list is valid.
pub struct RecvRequest<'a> {
    raw: &'a bindings::ib_recv_wr,
}

impl<'a> RecvRequest<'a> {
    /// Wraps a request.
    ///
    /// # Safety
    ///
    /// As the type invariants say, during `'a`.
    pub(super) unsafe fn from_raw(raw: &'a bindings::ib_recv_wr) -> Self {
        // INVARIANT: By the requirements of this function.
        Self { raw }
    }

    /// Returns the request's number.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Either member of the union is a number of 64 bits.
        unsafe { self.raw.__bindgen_anon_1.wr_id }
    }

    /// Returns the scatter list.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none where there should be one.
    pub fn list(&self) -> Result<impl ExactSizeIterator<Item = Sge> + Clone + 'a> {
        // SAFETY: By the type invariant.
        let list = unsafe { elements::<'a>(self.raw.sg_list, self.raw.num_sge) }?;
        Ok(list.iter().map(Sge::from))
    }
}

/// Calls `post` with each work request of a list, up to the first that fails, which `bad` is set to
/// then.
///
/// # Safety
///
/// `first` must be null or a live work request, and so must be what `next` returns; `bad` must be
/// valid for writes.
pub(super) unsafe fn post_list<W>(
    first: *const W,
    bad: *mut *const W,
    next: impl Fn(&W) -> *const W,
    mut post: impl FnMut(&W) -> Result,
) -> Result {
    let mut at = first;
    // SAFETY: By the requirements of this function.
    while let Some(wr) = unsafe { at.as_ref() } {
        if let Err(e) = post(wr) {
            // SAFETY: By the requirements of this function.
            unsafe { *bad = wr };
            return Err(e);
        }
        at = next(wr);
    }
    Ok(())
}
