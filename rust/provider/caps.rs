// SPDX-License-Identifier: GPL-2.0

//! What a device can do.

use super::{
    port,
    Device, //
};
use crate::{
    datapath::limits,
    rdma::{
        self,
        attr::{
            AtomicCap,
            DeviceAttr, //
        },
    },
};
use kernel::page::PAGE_SIZE;

/// There is no vendor: an identifier of the locally administered ones.
const VENDOR_ID: u32 = 0x02_4d52;

/// Says what the device can do.
pub(super) fn query(dev: &rdma::Device<Device>) -> DeviceAttr {
    let flags = bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_RC_RNR_NAK_GEN
        | bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_SYS_IMAGE_GUID
        | bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_SRQ_RESIZE
        | bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_FLUSH_GLOBAL
        | bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_ATOMIC_WRITE
        | bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS
        | bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_MEM_WINDOW
        | bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B
        | bindings::ib_uverbs_device_cap_flags_IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT;
    DeviceAttr {
        fw_ver: 0,
        sys_image_guid: dev.node_guid(),
        max_mr_size: limits::MAX_MR_SIZE,
        // CAST: `u64` has at least the bits of `usize`.
        page_size_cap: PAGE_SIZE as u64,
        vendor_id: VENDOR_ID,
        vendor_part_id: 0,
        hw_ver: 0,
        max_qp: limits::MAX_QP,
        max_qp_wr: limits::MAX_QP_WR,
        // CAST: `u64` has at least the bits of `c_ulong`.
        device_cap_flags: flags as u64,
        max_send_sge: limits::MAX_SGE,
        max_recv_sge: limits::MAX_SGE,
        max_sge_rd: limits::MAX_SGE,
        max_cq: limits::MAX_CQ,
        max_cqe: limits::MAX_CQE,
        max_mr: limits::MAX_MR,
        max_mw: limits::MAX_MW,
        max_pd: limits::MAX_PD,
        max_ah: limits::MAX_AH,
        max_qp_rd_atom: limits::MAX_RD_ATOMIC.into(),
        max_res_rd_atom: u32::from(limits::MAX_RD_ATOMIC) * limits::MAX_QP,
        max_qp_init_rd_atom: limits::MAX_RD_ATOMIC.into(),
        atomic_cap: AtomicCap::Global,
        max_fast_reg_page_list_len: limits::MAX_FAST_PAGES,
        max_cq_moderation_count: u16::MAX,
        max_cq_moderation_period: u16::MAX,
        max_srq: limits::MAX_SRQ,
        max_srq_wr: limits::MAX_QP_WR,
        max_srq_sge: limits::MAX_SGE,
        on_demand_paging: true,
        max_mcast_grp: limits::MAX_GROUPS,
        max_mcast_qp_attach: limits::MAX_GROUP_MEMBERS,
        max_total_mcast_qp_attach: limits::MAX_MEMBERS,
        max_pkeys: port::PKEYS,
        // In units of 4.096 µs times a power of two.
        local_ca_ack_delay: 15,
        // Completions carry nanoseconds.
        timestamp_mask: u64::MAX,
        hca_core_clock: 1_000_000,
        allow_user_unregister: true,
    }
}
