// SPDX-License-Identifier: GPL-2.0

//! Completions for users in the kernel.

use core::marker::PhantomData;

use super::{
    device::PORT,
    event::QpEvents, //
};

/// A completion; the members are those of `struct ib_wc`.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs)]
pub struct Wc {
    pub wr_id: u64,
    /// Of the values of `enum ib_wc_status`.
    pub status: u32,
    /// Of the values of `enum ib_wc_opcode`.
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// The immediate, as it is in memory, or the invalidated key.
    pub imm_or_key: u32,
    pub src_qp: u32,
    /// Of the values of `enum ib_wc_flags`.
    pub flags: u32,
    /// Of the values of `enum rdma_network_type`.
    pub network_hdr_type: u8,
    /// Number of the VLAN, if the flags say so.
    pub vlan_id: u16,
}

/// The places for completions that a poll fills.
///
/// # Invariants
///
/// `first` is valid for writes of `len` completions, of which `filled` are filled.
pub struct Completions<'a> {
    first: *mut bindings::ib_wc,
    len: usize,
    filled: usize,
    _places: PhantomData<&'a mut bindings::ib_wc>,
}

impl Completions<'_> {
    /// Wraps the places of a poll.
    ///
    /// # Safety
    ///
    /// `first` must be valid for writes of `len` completions during the life of the result.
    pub(super) unsafe fn from_raw(first: *mut bindings::ib_wc, len: usize) -> Self {
        // INVARIANT: By the requirements of this function.
        Self {
            first,
            len,
            filled: 0,
            _places: PhantomData,
        }
    }

    /// Returns whether there is no place left.
    pub fn is_full(&self) -> bool {
        self.filled == self.len
    }

    /// Returns how many places are filled.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Fills a place with a completion of the queue pair that `qp` reports about.
    ///
    /// A queue pair that is gone has no completions any more: such a one is left out, and so is
    /// one for which there is no place.
    pub fn push(&mut self, wc: &Wc, qp: &QpEvents) {
        if self.is_full() {
            return;
        }
        let Some(qp) = qp.object() else {
            return;
        };
        let raw = bindings::ib_wc {
            __bindgen_anon_1: bindings::ib_wc__bindgen_ty_1 { wr_id: wc.wr_id },
            status: wc.status,
            opcode: wc.opcode,
            vendor_err: wc.vendor_err,
            byte_len: wc.byte_len,
            qp: qp.as_ptr(),
            ex: bindings::ib_wc__bindgen_ty_2 {
                invalidate_rkey: wc.imm_or_key,
            },
            src_qp: wc.src_qp,
            // CAST: A bit mask that C happens to keep in a signed number.
            wc_flags: wc.flags as i32,
            port_num: PORT,
            network_hdr_type: wc.network_hdr_type,
            vlan_id: wc.vlan_id,
            ..Default::default()
        };
        // SAFETY: By the type invariant there is a place.
        unsafe { self.first.add(self.filled).write(raw) };
        // INVARIANT: Just filled.
        self.filled += 1;
    }
}
