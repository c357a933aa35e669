// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs.

use kernel::prelude::*;

use super::{
    attr::Mtu,
    gid::{
        Gid,
        GidEntry, //
    }, //
};

/// State of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs)]
pub enum QpState {
    #[default]
    Reset = bindings::ib_qp_state_IB_QPS_RESET,
    Init = bindings::ib_qp_state_IB_QPS_INIT,
    ReadyToReceive = bindings::ib_qp_state_IB_QPS_RTR,
    ReadyToSend = bindings::ib_qp_state_IB_QPS_RTS,
    SendQueueDrain = bindings::ib_qp_state_IB_QPS_SQD,
    SendQueueError = bindings::ib_qp_state_IB_QPS_SQE,
    Error = bindings::ib_qp_state_IB_QPS_ERR,
}

impl TryFrom<u32> for QpState {
    type Error = Error;

    fn try_from(value: u32) -> Result<Self> {
        Ok(match value {
            bindings::ib_qp_state_IB_QPS_RESET => Self::Reset,
            bindings::ib_qp_state_IB_QPS_INIT => Self::Init,
            bindings::ib_qp_state_IB_QPS_RTR => Self::ReadyToReceive,
            bindings::ib_qp_state_IB_QPS_RTS => Self::ReadyToSend,
            bindings::ib_qp_state_IB_QPS_SQD => Self::SendQueueDrain,
            bindings::ib_qp_state_IB_QPS_SQE => Self::SendQueueError,
            bindings::ib_qp_state_IB_QPS_ERR => Self::Error,
            _ => return Err(EINVAL),
        })
    }
}

/// A set of attributes of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttrMask(u32);

macro_rules! attr_mask {
    ($($(#[$doc:meta])* $name:ident = $value:ident),* $(,)?) => {
        impl AttrMask {
            $($(#[$doc])* pub const $name: Self = Self(bindings::$value);)*
        }
    };
}

attr_mask! {
    /// [`QpAttr::state`].
    STATE = ib_qp_attr_mask_IB_QP_STATE,
    /// [`QpAttr::current_state`].
    CURRENT_STATE = ib_qp_attr_mask_IB_QP_CUR_STATE,
    /// [`QpAttr::sqd_async_notify`].
    SQD_ASYNC_NOTIFY = ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY,
    /// [`QpAttr::access_flags`].
    ACCESS_FLAGS = ib_qp_attr_mask_IB_QP_ACCESS_FLAGS,
    /// [`QpAttr::pkey_index`].
    PKEY_INDEX = ib_qp_attr_mask_IB_QP_PKEY_INDEX,
    /// [`QpAttr::port_num`].
    PORT = ib_qp_attr_mask_IB_QP_PORT,
    /// [`QpAttr::qkey`].
    QKEY = ib_qp_attr_mask_IB_QP_QKEY,
    /// [`QpAttr::address`].
    ADDRESS = ib_qp_attr_mask_IB_QP_AV,
    /// [`QpAttr::path_mtu`].
    PATH_MTU = ib_qp_attr_mask_IB_QP_PATH_MTU,
    /// [`QpAttr::timeout`].
    TIMEOUT = ib_qp_attr_mask_IB_QP_TIMEOUT,
    /// [`QpAttr::retry_cnt`].
    RETRY_CNT = ib_qp_attr_mask_IB_QP_RETRY_CNT,
    /// [`QpAttr::rnr_retry`].
    RNR_RETRY = ib_qp_attr_mask_IB_QP_RNR_RETRY,
    /// [`QpAttr::rq_psn`].
    RQ_PSN = ib_qp_attr_mask_IB_QP_RQ_PSN,
    /// [`QpAttr::max_rd_atomic`].
    MAX_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC,
    /// The alternate path, which RoCE does not have.
    ALT_PATH = ib_qp_attr_mask_IB_QP_ALT_PATH,
    /// [`QpAttr::min_rnr_timer`].
    MIN_RNR_TIMER = ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER,
    /// [`QpAttr::sq_psn`].
    SQ_PSN = ib_qp_attr_mask_IB_QP_SQ_PSN,
    /// [`QpAttr::max_dest_rd_atomic`].
    MAX_DEST_RD_ATOMIC = ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC,
    /// [`QpAttr::path_mig_state`].
    PATH_MIG_STATE = ib_qp_attr_mask_IB_QP_PATH_MIG_STATE,
    /// The sizes of the queues.
    CAP = ib_qp_attr_mask_IB_QP_CAP,
    /// [`QpAttr::dest_qp_num`].
    DEST_QPN = ib_qp_attr_mask_IB_QP_DEST_QPN,
}

impl AttrMask {
    /// The attributes of the InfiniBand specification.
    const STANDARD: u32 = bindings::ib_qp_attr_mask_IB_QP_STATE
        | bindings::ib_qp_attr_mask_IB_QP_CUR_STATE
        | bindings::ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY
        | bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS
        | bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX
        | bindings::ib_qp_attr_mask_IB_QP_PORT
        | bindings::ib_qp_attr_mask_IB_QP_QKEY
        | bindings::ib_qp_attr_mask_IB_QP_AV
        | bindings::ib_qp_attr_mask_IB_QP_PATH_MTU
        | bindings::ib_qp_attr_mask_IB_QP_TIMEOUT
        | bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT
        | bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY
        | bindings::ib_qp_attr_mask_IB_QP_RQ_PSN
        | bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC
        | bindings::ib_qp_attr_mask_IB_QP_ALT_PATH
        | bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER
        | bindings::ib_qp_attr_mask_IB_QP_SQ_PSN
        | bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC
        | bindings::ib_qp_attr_mask_IB_QP_PATH_MIG_STATE
        | bindings::ib_qp_attr_mask_IB_QP_CAP
        | bindings::ib_qp_attr_mask_IB_QP_DEST_QPN;

    pub(super) fn from_raw(mask: c_int) -> Self {
        // CAST: A bit mask that C happens to pass as a signed number.
        Self(mask as u32)
    }

    /// Returns whether all of `other` are in the set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether the set has only attributes of the InfiniBand specification.
    pub const fn is_standard(self) -> bool {
        self.0 & !Self::STANDARD == 0
    }

    /// Makes a set of bits of the values of `enum ib_qp_attr_mask`.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the set without what is in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the bits, of the values of `enum ib_qp_attr_mask`.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// Service type of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Unreliable datagram for general services, number 1 of a port.
    Gsi,
    /// Any other.
    Other(u32),
}

impl From<u32> for QpType {
    fn from(value: u32) -> Self {
        match value {
            bindings::ib_qp_type_IB_QPT_RC => Self::Rc,
            bindings::ib_qp_type_IB_QPT_UC => Self::Uc,
            bindings::ib_qp_type_IB_QPT_UD => Self::Ud,
            bindings::ib_qp_type_IB_QPT_GSI => Self::Gsi,
            other => Self::Other(other),
        }
    }
}

impl QpType {
    fn as_raw(self) -> u32 {
        match self {
            Self::Rc => bindings::ib_qp_type_IB_QPT_RC,
            Self::Uc => bindings::ib_qp_type_IB_QPT_UC,
            Self::Ud => bindings::ib_qp_type_IB_QPT_UD,
            Self::Gsi => bindings::ib_qp_type_IB_QPT_GSI,
            Self::Other(other) => other,
        }
    }

    /// Returns the state that a queue pair of this type, in state `from`, is to be in after a
    /// change of the attributes in `mask`.
    ///
    /// Errors: `EINVAL` if that state does not allow the change, or is not the one that the caller
    /// takes for the current.
    pub fn next_state(self, from: QpState, attr: &QpAttr, mask: AttrMask) -> Result<QpState> {
        let to = if mask.contains(AttrMask::STATE) {
            attr.state
        } else {
            from
        };
        let mistaken = mask.contains(AttrMask::CURRENT_STATE) && attr.current_state != from;
        if mistaken || !self.may_modify(from, to, mask) {
            return Err(EINVAL);
        }
        Ok(to)
    }

    /// Returns whether a queue pair of this type may go from one state to another with exactly
    /// these attributes; none of a type without a name here.
    fn may_modify(self, from: QpState, to: QpState, mask: AttrMask) -> bool {
        if matches!(self, Self::Other(_)) {
            return false;
        }
        // CAST: The enumeration has the values of the C one.
        //
        // SAFETY: States and type are what the callee's table is indexed by: it has all states, and
        // the types that have a name here.
        unsafe { bindings::ib_modify_qp_is_ok(from as u32, to as u32, self.as_raw(), mask.0) }
    }
}

/// Sizes of the queues of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

impl From<&bindings::ib_qp_cap> for QpCap {
    fn from(cap: &bindings::ib_qp_cap) -> Self {
        Self {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
        }
    }
}

impl QpCap {
    pub(super) fn fill(&self, cap: &mut bindings::ib_qp_cap) {
        cap.max_send_wr = self.max_send_wr;
        cap.max_recv_wr = self.max_recv_wr;
        cap.max_send_sge = self.max_send_sge;
        cap.max_recv_sge = self.max_recv_sge;
        cap.max_inline_data = self.max_inline_data;
    }
}

/// Where a connected queue pair sends to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct AddressVector {
    pub sgid: GidEntry,
    pub dgid: Gid,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub sl: u8,
    pub static_rate: u8,
    pub port_num: u32,
    /// Whether there is a GRH, which RoCE always has.
    pub has_grh: bool,
}

impl AddressVector {
    /// Reads the C structure.
    ///
    /// # Safety
    ///
    /// ib_core must have resolved the GID, and hold a reference to its entry.
    pub(super) unsafe fn from_raw(ah: &bindings::rdma_ah_attr) -> Self {
        // CAST: The flag is less than 256.
        let has_grh = ah.ah_flags & bindings::ib_ah_flags_IB_AH_GRH as u8 != 0;
        let sgid = if has_grh && !ah.grh.sgid_attr.is_null() {
            // SAFETY: By the requirements of this function.
            unsafe { GidEntry::from_raw(ah.grh.sgid_attr) }
        } else {
            GidEntry::default()
        };
        Self {
            sgid,
            dgid: (&ah.grh.dgid).into(),
            flow_label: ah.grh.flow_label,
            hop_limit: ah.grh.hop_limit,
            traffic_class: ah.grh.traffic_class,
            sl: ah.sl,
            static_rate: ah.static_rate,
            port_num: ah.port_num,
            has_grh,
        }
    }

    /// Fills the C structure for a query.
    pub(super) fn fill(&self, ah: &mut bindings::rdma_ah_attr) {
        ah.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
        // CAST: The flag is less than 256, and a GID table of RoCE has at most 255 entries.
        ah.ah_flags = if self.has_grh {
            bindings::ib_ah_flags_IB_AH_GRH as u8
        } else {
            0
        };
        ah.grh.sgid_index = self.sgid.index as u8;
        ah.grh.dgid = self.dgid.into();
        ah.grh.flow_label = self.flow_label;
        ah.grh.hop_limit = self.hop_limit;
        ah.grh.traffic_class = self.traffic_class;
        ah.sl = self.sl;
        ah.static_rate = self.static_rate;
        ah.port_num = self.port_num;
    }
}

/// Attributes of a queue pair that can be modified and queried.
///
/// The members have the meanings of those of `struct ib_qp_attr`.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs)]
pub struct QpAttr {
    pub state: QpState,
    pub current_state: QpState,
    pub path_mtu: Mtu,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qkey: u32,
    /// Of the values of `enum ib_access_flags`.
    pub access_flags: u32,
    pub cap: QpCap,
    pub address: AddressVector,
    pub pkey_index: u16,
    pub sqd_async_notify: bool,
    pub sq_draining: bool,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub path_mig_state: MigState,
}

/// Whether the next migration of the path is reported (IBTA 1.6, 17.2.8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum MigState {
    /// It is not.
    #[default]
    Migrated = bindings::ib_mig_state_IB_MIG_MIGRATED,
    /// An alternate path is to be agreed on.
    Rearm = bindings::ib_mig_state_IB_MIG_REARM,
    /// It is, and makes the state [`Self::Migrated`].
    Armed = bindings::ib_mig_state_IB_MIG_ARMED,
}

impl TryFrom<bindings::ib_mig_state> for MigState {
    type Error = Error;

    fn try_from(state: bindings::ib_mig_state) -> Result<Self> {
        match state {
            bindings::ib_mig_state_IB_MIG_MIGRATED => Ok(Self::Migrated),
            bindings::ib_mig_state_IB_MIG_REARM => Ok(Self::Rearm),
            bindings::ib_mig_state_IB_MIG_ARMED => Ok(Self::Armed),
            _ => Err(EINVAL),
        }
    }
}

impl QpAttr {
    /// Reads the attributes in `mask` of a modification.
    ///
    /// # Safety
    ///
    /// ib_core must have resolved the GID of the address, if there is one.
    pub(super) unsafe fn from_raw(attr: &bindings::ib_qp_attr, mask: AttrMask) -> Result<Self> {
        let mut this = Self::default();

        // Members that are not in the mask are whatever user space left there.
        if mask.contains(AttrMask::STATE) {
            this.state = attr.qp_state.try_into()?;
        }
        if mask.contains(AttrMask::CURRENT_STATE) {
            this.current_state = attr.cur_qp_state.try_into()?;
        }
        if mask.contains(AttrMask::PATH_MTU) {
            this.path_mtu = attr.path_mtu.try_into()?;
        }
        if mask.contains(AttrMask::PATH_MIG_STATE) {
            this.path_mig_state = attr.path_mig_state.try_into()?;
        }
        if mask.contains(AttrMask::ADDRESS) {
            // SAFETY: By the requirements of this function.
            this.address = unsafe { AddressVector::from_raw(&attr.ah_attr) };
        }
        // CAST: A bit mask that C happens to keep in a signed number.
        this.access_flags = attr.qp_access_flags as u32;
        this.rq_psn = attr.rq_psn;
        this.sq_psn = attr.sq_psn;
        this.dest_qp_num = attr.dest_qp_num;
        this.qkey = attr.qkey;
        this.cap = (&attr.cap).into();
        this.pkey_index = attr.pkey_index;
        this.sqd_async_notify = attr.en_sqd_async_notify != 0;
        this.max_rd_atomic = attr.max_rd_atomic;
        this.max_dest_rd_atomic = attr.max_dest_rd_atomic;
        this.min_rnr_timer = attr.min_rnr_timer;
        this.port_num = attr.port_num;
        this.timeout = attr.timeout;
        this.retry_cnt = attr.retry_cnt;
        this.rnr_retry = attr.rnr_retry;
        Ok(this)
    }

    /// Takes over the attributes in `mask`, but for the states.
    pub fn apply(&mut self, new: &Self, mask: AttrMask) {
        let mut set = |bit: AttrMask, f: fn(&mut Self, &Self)| {
            if mask.contains(bit) {
                f(self, new);
            }
        };
        set(AttrMask::SQD_ASYNC_NOTIFY, |a, n| {
            a.sqd_async_notify = n.sqd_async_notify
        });
        set(AttrMask::ACCESS_FLAGS, |a, n| {
            a.access_flags = n.access_flags
        });
        set(AttrMask::PKEY_INDEX, |a, n| a.pkey_index = n.pkey_index);
        set(AttrMask::PORT, |a, n| a.port_num = n.port_num);
        set(AttrMask::ADDRESS, |a, n| a.address = n.address);
        set(AttrMask::PATH_MTU, |a, n| a.path_mtu = n.path_mtu);
        set(AttrMask::TIMEOUT, |a, n| a.timeout = n.timeout);
        set(AttrMask::RETRY_CNT, |a, n| a.retry_cnt = n.retry_cnt);
        set(AttrMask::RNR_RETRY, |a, n| a.rnr_retry = n.rnr_retry);
        set(AttrMask::RQ_PSN, |a, n| a.rq_psn = n.rq_psn);
        set(AttrMask::MAX_RD_ATOMIC, |a, n| {
            a.max_rd_atomic = n.max_rd_atomic
        });
        set(AttrMask::MIN_RNR_TIMER, |a, n| {
            a.min_rnr_timer = n.min_rnr_timer
        });
        set(AttrMask::PATH_MIG_STATE, |a, n| {
            a.path_mig_state = n.path_mig_state
        });
        set(AttrMask::SQ_PSN, |a, n| a.sq_psn = n.sq_psn);
        set(AttrMask::MAX_DEST_RD_ATOMIC, |a, n| {
            a.max_dest_rd_atomic = n.max_dest_rd_atomic;
        });
        set(AttrMask::DEST_QPN, |a, n| a.dest_qp_num = n.dest_qp_num);
    }

    /// Fills the C structure for a query.
    pub(super) fn fill(&self, attr: &mut bindings::ib_qp_attr) {
        // CAST: The enumerations have the values of the C ones.
        attr.qp_state = self.state as u32;
        attr.cur_qp_state = self.current_state as u32;
        attr.path_mtu = self.path_mtu as u32;
        attr.path_mig_state = self.path_mig_state as u32;
        attr.rq_psn = self.rq_psn;
        attr.sq_psn = self.sq_psn;
        attr.dest_qp_num = self.dest_qp_num;
        attr.qkey = self.qkey;
        // CAST: As in `from_raw`.
        attr.qp_access_flags = self.access_flags as c_int;
        self.cap.fill(&mut attr.cap);
        self.address.fill(&mut attr.ah_attr);
        attr.pkey_index = self.pkey_index;
        attr.en_sqd_async_notify = self.sqd_async_notify.into();
        attr.sq_draining = self.sq_draining.into();
        attr.max_rd_atomic = self.max_rd_atomic;
        attr.max_dest_rd_atomic = self.max_dest_rd_atomic;
        attr.min_rnr_timer = self.min_rnr_timer;
        attr.port_num = self.port_num;
        attr.timeout = self.timeout;
        attr.retry_cnt = self.retry_cnt;
        attr.rnr_retry = self.rnr_retry;
    }
}
