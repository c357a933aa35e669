// SPDX-License-Identifier: GPL-2.0

//! What a device can do, compared with what a queue pair needs.

use kernel::prelude::*;

/// Capabilities as the driver has told them, `struct metaroce_ofl_caps`.
pub(super) type Caps = bindings::metaroce_ofl_caps;

/// Work requests that any queue pair of a process may be given. Those that change memory windows
/// are not among them: there are none in a domain with queue pairs at a device.
pub(super) const SEND_OPS: u32 = 1 << bindings::metaroce_send_opcode_METAROCE_OP_RDMA_WRITE
    | 1 << bindings::metaroce_send_opcode_METAROCE_OP_RDMA_WRITE_IMM
    | 1 << bindings::metaroce_send_opcode_METAROCE_OP_SEND
    | 1 << bindings::metaroce_send_opcode_METAROCE_OP_SEND_IMM
    | 1 << bindings::metaroce_send_opcode_METAROCE_OP_RDMA_READ
    | 1 << bindings::metaroce_send_opcode_METAROCE_OP_ATOMIC_CMP_SWP
    | 1 << bindings::metaroce_send_opcode_METAROCE_OP_ATOMIC_FETCH_ADD
    | 1 << bindings::metaroce_send_opcode_METAROCE_OP_SEND_INV
    | 1 << bindings::metaroce_send_opcode_METAROCE_OP_ATOMIC_WRITE
    | 1 << bindings::metaroce_send_opcode_METAROCE_OP_FLUSH;

/// What a queue pair and its connection need.
#[derive(Clone, Copy, Default)]
pub(super) struct Needs {
    /// `enum ib_mtu`.
    pub(super) mtu: u32,
    pub(super) entries: u32,
    pub(super) sge: u32,
    pub(super) inline: u32,
    pub(super) rd_atomic: u32,
    pub(super) planes: u32,
    pub(super) paths: u32,
    /// One of `enum metaroce_ofl_cc`.
    pub(super) cc: u32,
    pub(super) crc: bool,
    pub(super) ipv6: bool,
}

impl Needs {
    /// Compares with what a device can do.
    ///
    /// Errors: `EOPNOTSUPP` if that is not enough.
    pub(super) fn check(&self, caps: &Caps) -> Result {
        let crc = if self.crc {
            bindings::metaroce_ofl_flags_METAROCE_OFL_CAP_CRC
        } else {
            bindings::metaroce_ofl_flags_METAROCE_OFL_CAP_NO_CRC
        };
        let ipv6 = bindings::metaroce_ofl_flags_METAROCE_OFL_CAP_IPV6;
        let enough = caps.flags & crc != 0
            && (!self.ipv6 || caps.flags & ipv6 != 0)
            && caps.send_ops & SEND_OPS == SEND_OPS
            && caps.cc & self.cc != 0
            && caps.mtus & (1 << self.mtu) != 0
            && caps.psn_window >= proto::path::SPAN
            && caps.max_wr >= self.entries
            && caps.max_sge >= self.sge
            && caps.max_inline >= self.inline
            && caps.max_rd_atomic >= self.rd_atomic
            && caps.max_planes >= self.planes
            && caps.max_paths >= self.paths;
        if enough {
            Ok(())
        } else {
            Err(EOPNOTSUPP)
        }
    }
}
