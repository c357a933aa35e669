// SPDX-License-Identifier: GPL-2.0

//! Completions.

use super::bytes::{
    put,
    u32_at,
    u64_at, //
};
use proto::stream::WcStatus;

/// Bytes of a completion, `struct metaroce_cqe`.
pub(crate) const CQE_SIZE: usize = 64;

/// `IB_WC_GRH`.
pub(crate) const WC_GRH: u32 = 1 << 0;

/// `IB_WC_WITH_IMM`.
pub(crate) const WC_WITH_IMM: u32 = 1 << 1;

/// `IB_WC_WITH_INVALIDATE`.
pub(crate) const WC_WITH_INVALIDATE: u32 = 1 << 2;

/// `IB_WC_WITH_VLAN`.
pub(crate) const WC_WITH_VLAN: u32 = 1 << 5;

/// `IB_WC_WITH_NETWORK_HDR_TYPE`.
pub(crate) const WC_WITH_NETWORK_HDR_TYPE: u32 = 1 << 6;

/// One completion; members as in `struct ib_wc`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Completion {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm: u32,
    pub(crate) qp_num: u32,
    pub(crate) wc_flags: u32,
    pub(crate) src_qp: u32,
    pub(crate) vendor_err: u32,
    /// Of the values of `enum rdma_network_type`.
    pub(crate) network_hdr_type: u32,
    /// Number of the VLAN, see [`WC_WITH_VLAN`].
    pub(crate) vlan_id: u32,
}

impl Completion {
    /// That of a work request that was flushed.
    pub(super) fn flushed(wr_id: u64, qp_num: u32) -> Self {
        Self {
            wr_id,
            status: WcStatus::Flushed.to_ib(),
            qp_num,
            ..Self::default()
        }
    }

    pub(super) fn encode(&self, now: u64) -> [u8; CQE_SIZE] {
        let mut b = [0u8; CQE_SIZE];
        put(&mut b, 0, &self.wr_id.to_ne_bytes());
        put(&mut b, 8, &self.status.to_ne_bytes());
        put(&mut b, 12, &self.opcode.to_ne_bytes());
        put(&mut b, 16, &self.byte_len.to_ne_bytes());
        put(&mut b, 20, &self.imm.to_ne_bytes());
        put(&mut b, 24, &self.qp_num.to_ne_bytes());
        put(&mut b, 28, &self.wc_flags.to_ne_bytes());
        put(&mut b, 32, &self.src_qp.to_ne_bytes());
        put(&mut b, 36, &self.vendor_err.to_ne_bytes());
        put(&mut b, 40, &now.to_ne_bytes());
        put(&mut b, 48, &self.network_hdr_type.to_ne_bytes());
        put(&mut b, 52, &self.vlan_id.to_ne_bytes());
        b
    }

    pub(super) fn decode(b: &[u8; CQE_SIZE]) -> Option<Self> {
        Some(Self {
            wr_id: u64_at(b, 0)?,
            status: u32_at(b, 8)?,
            opcode: u32_at(b, 12)?,
            byte_len: u32_at(b, 16)?,
            imm: u32_at(b, 20)?,
            qp_num: u32_at(b, 24)?,
            wc_flags: u32_at(b, 28)?,
            src_qp: u32_at(b, 32)?,
            vendor_err: u32_at(b, 36)?,
            network_hdr_type: u32_at(b, 48)?,
            vlan_id: u32_at(b, 52)?,
        })
    }
}

/// The completion could not be stored, now or ever after: the queue has overrun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overrun;
