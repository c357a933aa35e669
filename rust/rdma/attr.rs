// SPDX-License-Identifier: GPL-2.0

//! Attributes of devices and ports.

use kernel::prelude::*;

/// What a device guarantees about the atomicity of its atomic operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum AtomicCap {
    /// There are no atomic operations.
    #[default]
    None = bindings::ib_atomic_cap_IB_ATOMIC_NONE,
    /// Atomic among the operations of this device.
    Device = bindings::ib_atomic_cap_IB_ATOMIC_HCA,
    /// Atomic with the CPUs and other devices too.
    Global = bindings::ib_atomic_cap_IB_ATOMIC_GLOB,
}

/// Attributes of a device.
///
/// The members have the names and meanings of those of `struct ib_device_attr`.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs)]
pub struct DeviceAttr {
    pub fw_ver: u64,
    pub sys_image_guid: [u8; 8],
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: u32,
    pub max_qp_wr: u32,
    pub device_cap_flags: u64,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_sge_rd: u32,
    pub max_cq: u32,
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_mw: u32,
    pub max_pd: u32,
    pub max_ah: u32,
    pub max_qp_rd_atom: u32,
    pub max_res_rd_atom: u32,
    pub max_qp_init_rd_atom: u32,
    pub atomic_cap: AtomicCap,
    pub max_fast_reg_page_list_len: u32,
    pub max_cq_moderation_count: u16,
    /// In microseconds.
    pub max_cq_moderation_period: u16,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_srq_sge: u32,
    /// Of all operations of connected queue pairs, for memory that is registered so.
    pub on_demand_paging: bool,
    pub max_mcast_grp: u32,
    pub max_mcast_qp_attach: u32,
    pub max_total_mcast_qp_attach: u32,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub timestamp_mask: u64,
    pub hca_core_clock: u64,
    /// Whether the administrator may remove the device (`rdma link delete`).
    pub allow_user_unregister: bool,
}

impl DeviceAttr {
    /// Fills the C structure, which is zeroed.
    pub(super) fn fill(&self, attr: &mut bindings::ib_device_attr) {
        attr.fw_ver = self.fw_ver;
        attr.sys_image_guid = u64::from_ne_bytes(self.sys_image_guid);
        attr.max_mr_size = self.max_mr_size;
        attr.page_size_cap = self.page_size_cap;
        attr.vendor_id = self.vendor_id;
        attr.vendor_part_id = self.vendor_part_id;
        attr.hw_ver = self.hw_ver;
        attr.max_qp = self.max_qp;
        attr.max_qp_wr = self.max_qp_wr;
        attr.device_cap_flags = self.device_cap_flags;
        attr.max_send_sge = self.max_send_sge;
        attr.max_recv_sge = self.max_recv_sge;
        attr.max_sge_rd = self.max_sge_rd;
        attr.max_cq = self.max_cq;
        attr.max_cqe = self.max_cqe;
        attr.max_mr = self.max_mr;
        attr.max_mw = self.max_mw;
        attr.max_pd = self.max_pd;
        attr.max_ah = self.max_ah;
        attr.max_qp_rd_atom = self.max_qp_rd_atom;
        attr.max_res_rd_atom = self.max_res_rd_atom;
        attr.max_qp_init_rd_atom = self.max_qp_init_rd_atom;
        // CAST: The enumeration has the values of the C one.
        attr.atomic_cap = self.atomic_cap as u32;
        attr.max_fast_reg_page_list_len = self.max_fast_reg_page_list_len;
        attr.cq_caps.max_cq_moderation_count = self.max_cq_moderation_count;
        attr.cq_caps.max_cq_moderation_period = self.max_cq_moderation_period;
        attr.max_srq = self.max_srq;
        attr.max_srq_wr = self.max_srq_wr;
        attr.max_srq_sge = self.max_srq_sge;
        attr.max_mcast_grp = self.max_mcast_grp;
        attr.max_mcast_qp_attach = self.max_mcast_qp_attach;
        attr.max_total_mcast_qp_attach = self.max_total_mcast_qp_attach;
        attr.max_pkeys = self.max_pkeys;
        attr.local_ca_ack_delay = self.local_ca_ack_delay;
        attr.timestamp_mask = self.timestamp_mask;
        attr.hca_core_clock = self.hca_core_clock;
        if self.allow_user_unregister {
            attr.kernel_cap_flags |= u64::from(bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG);
        }
        if self.on_demand_paging {
            const DATAGRAM: u32 = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND
                | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_RECV
                | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SRQ_RECV;
            const CONNECTED: u32 = bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND
                | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_RECV
                | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_WRITE
                | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SRQ_RECV;
            const RELIABLE: u32 = CONNECTED
                | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_READ
                | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC
                | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_FLUSH
                | bindings::ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC_WRITE;

            attr.kernel_cap_flags |= u64::from(bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING);
            attr.odp_caps.general_caps =
                u64::from(bindings::ib_odp_general_cap_bits_IB_ODP_SUPPORT);
            attr.odp_caps.per_transport_caps.rc_odp_caps = RELIABLE;
            attr.odp_caps.per_transport_caps.uc_odp_caps = CONNECTED;
            attr.odp_caps.per_transport_caps.ud_odp_caps = DATAGRAM;
        }
    }
}

/// A path MTU that InfiniBand knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
#[expect(missing_docs)]
pub enum Mtu {
    #[default]
    Mtu256 = bindings::ib_mtu_IB_MTU_256,
    Mtu512 = bindings::ib_mtu_IB_MTU_512,
    Mtu1024 = bindings::ib_mtu_IB_MTU_1024,
    Mtu2048 = bindings::ib_mtu_IB_MTU_2048,
    Mtu4096 = bindings::ib_mtu_IB_MTU_4096,
}

impl Mtu {
    /// All of them, the smallest first.
    const ALL: [Self; 5] = [
        Self::Mtu256,
        Self::Mtu512,
        Self::Mtu1024,
        Self::Mtu2048,
        Self::Mtu4096,
    ];

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u32 {
        // CAST: The enumeration has the values of the C one, 1 to 5.
        128 << (self as u32)
    }

    /// Returns the largest MTU of at most `bytes`, the smallest if there is none.
    pub fn fitting(bytes: u32) -> Self {
        Self::ALL
            .into_iter()
            .rev()
            .find(|mtu| mtu.bytes() <= bytes)
            .unwrap_or_default()
    }
}

impl TryFrom<u32> for Mtu {
    type Error = Error;

    fn try_from(value: u32) -> Result<Self> {
        // CAST: The enumeration has the values of the C one.
        Self::ALL
            .into_iter()
            .find(|mtu| *mtu as u32 == value)
            .ok_or(EINVAL)
    }
}

/// Logical state of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs)]
pub enum PortState {
    Down = bindings::ib_port_state_IB_PORT_DOWN,
    Active = bindings::ib_port_state_IB_PORT_ACTIVE,
}

/// Physical state of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs)]
pub enum PhysicalState {
    Polling = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING as u8,
    Disabled = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED as u8,
    LinkUp = bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP as u8,
}

/// Attributes of a port.
///
/// The members have the names and meanings of those of `struct ib_port_attr`.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs)]
pub struct PortAttr {
    pub state: PortState,
    pub phys_state: PhysicalState,
    pub max_mtu: Mtu,
    pub active_mtu: Mtu,
    pub gid_tbl_len: u16,
    pub pkey_tbl_len: u16,
    pub max_msg_sz: u32,
    pub max_vl_num: u8,
    pub active_width: u8,
    pub active_speed: u16,
}

impl PortAttr {
    /// Fills the C structure, which is zeroed.
    pub(super) fn fill(&self, attr: &mut bindings::ib_port_attr) {
        // CAST: The enumerations have the values of the C ones.
        attr.state = self.state as u32;
        attr.phys_state = self.phys_state as u8;
        attr.max_mtu = self.max_mtu as u32;
        attr.active_mtu = self.active_mtu as u32;
        attr.gid_tbl_len = c_int::from(self.gid_tbl_len);
        attr.pkey_tbl_len = self.pkey_tbl_len;
        attr.set_ip_gids(1);
        attr.port_cap_flags = bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP;
        attr.max_msg_sz = self.max_msg_sz;
        attr.max_vl_num = self.max_vl_num;
        attr.active_width = self.active_width;
        attr.active_speed = self.active_speed;
    }
}
