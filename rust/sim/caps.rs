// SPDX-License-Identifier: GPL-2.0

//! What a device says that it can do.

use crate::datapath::limits;
use kernel::prelude::*;
use proto::wire::MAX_PLANES;

/// `struct metaroce_ofl_caps`.
pub(crate) type Caps = bindings::metaroce_ofl_caps;

/// Paths of a connection at most: 16 for each plane.
const MAX_PATHS: u32 = 16 * MAX_PLANES as u32;

/// Everything that the firmware can do.
pub(crate) fn all() -> Caps {
    Caps {
        wire_version: bindings::METAROCE_OFL_WIRE_VERSION,
        flags: bindings::metaroce_ofl_flags_METAROCE_OFL_CAP_CRC
            | bindings::metaroce_ofl_flags_METAROCE_OFL_CAP_NO_CRC
            | bindings::metaroce_ofl_flags_METAROCE_OFL_CAP_IPV6
            | bindings::metaroce_ofl_flags_METAROCE_OFL_CAP_IMPORT,
        send_ops: [
            bindings::metaroce_send_opcode_METAROCE_OP_RDMA_WRITE,
            bindings::metaroce_send_opcode_METAROCE_OP_RDMA_WRITE_IMM,
            bindings::metaroce_send_opcode_METAROCE_OP_SEND,
            bindings::metaroce_send_opcode_METAROCE_OP_SEND_IMM,
            bindings::metaroce_send_opcode_METAROCE_OP_SEND_INV,
            bindings::metaroce_send_opcode_METAROCE_OP_RDMA_READ,
            bindings::metaroce_send_opcode_METAROCE_OP_ATOMIC_CMP_SWP,
            bindings::metaroce_send_opcode_METAROCE_OP_ATOMIC_FETCH_ADD,
            bindings::metaroce_send_opcode_METAROCE_OP_ATOMIC_WRITE,
            bindings::metaroce_send_opcode_METAROCE_OP_FLUSH,
        ]
        .into_iter()
        .fold(0, |ops, op| ops | 1 << op),
        cc: bindings::metaroce_ofl_cc_METAROCE_OFL_CC_ECN
            | bindings::metaroce_ofl_cc_METAROCE_OFL_CC_DELAY
            | bindings::metaroce_ofl_cc_METAROCE_OFL_CC_FIXED,
        mtus: (bindings::ib_mtu_IB_MTU_256..=bindings::ib_mtu_IB_MTU_4096)
            .fold(0, |mtus, mtu| mtus | 1 << mtu),
        psn_window: proto::path::SPAN,
        max_qp: 4096,
        max_cq: 4096,
        max_mr: limits::MAX_MR,
        max_conn: 8192,
        max_wr: limits::MAX_QP_WR,
        max_sge: limits::MAX_SGE,
        max_inline: limits::MAX_INLINE,
        max_rd_atomic: limits::MAX_RD_ATOMIC.into(),
        // CAST: A small constant.
        max_planes: MAX_PLANES as u32,
        max_paths: MAX_PATHS,
    }
}

/// Returns names and values.
pub(crate) fn list(caps: &Caps) -> [(&'static str, u32); 16] {
    [
        ("wire_version", caps.wire_version),
        ("flags", caps.flags),
        ("send_ops", caps.send_ops),
        ("cc", caps.cc),
        ("mtus", caps.mtus),
        ("psn_window", caps.psn_window),
        ("max_qp", caps.max_qp),
        ("max_cq", caps.max_cq),
        ("max_mr", caps.max_mr),
        ("max_conn", caps.max_conn),
        ("max_wr", caps.max_wr),
        ("max_sge", caps.max_sge),
        ("max_inline", caps.max_inline),
        ("max_rd_atomic", caps.max_rd_atomic),
        ("max_planes", caps.max_planes),
        ("max_paths", caps.max_paths),
    ]
}

/// Sets the capability of a name.
///
/// Errors: `EINVAL` if there is none.
pub(crate) fn set(caps: &mut Caps, name: &str, value: u32) -> Result {
    let member = match name {
        "wire_version" => &mut caps.wire_version,
        "flags" => &mut caps.flags,
        "send_ops" => &mut caps.send_ops,
        "cc" => &mut caps.cc,
        "mtus" => &mut caps.mtus,
        "psn_window" => &mut caps.psn_window,
        "max_qp" => &mut caps.max_qp,
        "max_cq" => &mut caps.max_cq,
        "max_mr" => &mut caps.max_mr,
        "max_conn" => &mut caps.max_conn,
        "max_wr" => &mut caps.max_wr,
        "max_sge" => &mut caps.max_sge,
        "max_inline" => &mut caps.max_inline,
        "max_rd_atomic" => &mut caps.max_rd_atomic,
        "max_planes" => &mut caps.max_planes,
        "max_paths" => &mut caps.max_paths,
        _ => return Err(EINVAL),
    };
    *member = value;
    Ok(())
}
