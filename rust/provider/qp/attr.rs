// SPDX-License-Identifier: GPL-2.0

//! Attributes of queue pairs: what values there are.

use crate::{
    datapath::limits,
    provider::port,
    rdma::{
        device::PORT,
        qp::{
            AddressVector,
            AttrMask,
            MigState,
            QpAttr, //
        },
    },
};
use kernel::prelude::*;

/// Access that a remote side can be given, and what programs pass along with it that means nothing
/// here: how memory is registered.
const ACCESS: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
    | bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL
    | bindings::ib_access_flags_IB_ACCESS_FLUSH_PERSISTENT
    | bindings::ib_access_flags_IB_ACCESS_ON_DEMAND;

/// Checks the values of attributes, each for itself; `EINVAL` as verbs want it.
pub(super) fn check(attr: &QpAttr, mask: AttrMask) -> Result {
    // RoCE has no alternate path; what a path migrates to are the other planes.
    let rearm = mask.contains(AttrMask::PATH_MIG_STATE) && attr.path_mig_state == MigState::Rearm;
    if mask.contains(AttrMask::ALT_PATH) || rearm {
        return Err(EOPNOTSUPP);
    }
    let limits = [
        (AttrMask::PORT, attr.port_num == PORT),
        (AttrMask::PKEY_INDEX, attr.pkey_index < port::PKEYS),
        (AttrMask::ACCESS_FLAGS, attr.access_flags & !ACCESS == 0),
        (AttrMask::PATH_MTU, attr.path_mtu <= port::MAX_MTU),
        (AttrMask::DEST_QPN, is_24_bits(attr.dest_qp_num)),
        (AttrMask::RQ_PSN, is_24_bits(attr.rq_psn)),
        (AttrMask::SQ_PSN, is_24_bits(attr.sq_psn)),
        (AttrMask::TIMEOUT, attr.timeout <= 31),
        (AttrMask::RETRY_CNT, attr.retry_cnt <= 7),
        (AttrMask::RNR_RETRY, attr.rnr_retry <= 7),
        (AttrMask::MIN_RNR_TIMER, attr.min_rnr_timer <= 31),
        (
            AttrMask::MAX_RD_ATOMIC,
            attr.max_rd_atomic <= limits::MAX_RD_ATOMIC,
        ),
        (
            AttrMask::MAX_DEST_RD_ATOMIC,
            attr.max_dest_rd_atomic <= limits::MAX_RD_ATOMIC,
        ),
        (AttrMask::ADDRESS, is_reachable(&attr.address)),
    ];
    if limits
        .iter()
        .any(|(bit, fine)| mask.contains(*bit) && !fine)
    {
        return Err(EINVAL);
    }
    Ok(())
}

fn is_24_bits(value: u32) -> bool {
    value >> 24 == 0
}

/// Whether a connected queue pair can have this address.
fn is_reachable(address: &AddressVector) -> bool {
    address.has_grh
        && address.sgid.udp_encap
        && address.port_num == PORT
        && address.dgid.is_unicast()
}
