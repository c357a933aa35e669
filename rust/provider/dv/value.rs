// SPDX-License-Identifier: GPL-2.0

//! Values of the ABI, and what they stand for.

use crate::{
    offload::policy::Policy,
    params, //
};
use kernel::prelude::*;
use proto::congestion::Controller;

/// Laws of congestion control, bits by number.
pub(super) const LAWS: u32 = (1 << Controller::NAMES.len()) - 1;

const LAST_BYTE: u32 = bindings::metaroce_dv_ordering_METAROCE_DV_ORDER_LAST_BYTE;
const COMPLETION: u32 = bindings::metaroce_dv_ordering_METAROCE_DV_ORDER_COMPLETION;

/// Guarantees of order that all queue pairs have.
pub(super) const ORDER_OF_ALL: u32 = COMPLETION;

/// Guarantees of order that queue pairs may ask for.
pub(super) const ORDERS: u32 = COMPLETION | LAST_BYTE;

/// Returns the guarantees of order of a queue pair.
pub(super) fn of_order(last_byte: bool) -> u32 {
    if last_byte {
        ORDERS
    } else {
        ORDER_OF_ALL
    }
}

/// Returns whether the last bytes of Writes are to come last.
///
/// Errors: `EOPNOTSUPP` for an order that is not known.
pub(super) fn to_last_byte(order: u32) -> Result<bool> {
    if order & !ORDERS != 0 {
        return Err(EOPNOTSUPP);
    }
    Ok(order & LAST_BYTE != 0)
}

/// Returns the number of a law of congestion control.
pub(super) fn of_law(law: &str) -> Result<u32> {
    let at = Controller::NAMES.iter().position(|name| *name == law);
    Ok(u32::try_from(at.ok_or(EINVAL)?)?)
}

/// Returns the law of congestion control of a number.
///
/// Errors: `EINVAL` if there is none.
pub(super) fn to_law(number: u32) -> Result<Controller> {
    let name = Controller::NAMES.get(usize::try_from(number)?);
    params::law(name.ok_or(EINVAL)?)
}

/// Returns a set of planes.
///
/// Errors: `EINVAL` if it is empty, or has more than there can be.
pub(super) fn to_planes(planes: u32) -> Result<u8> {
    match u8::try_from(planes)? {
        0 => Err(EINVAL),
        planes => Ok(planes),
    }
}

/// Returns a number of paths per plane.
///
/// Errors: `EINVAL` if there cannot be so many.
pub(super) fn to_paths(paths: u32) -> Result<u8> {
    params::check_paths_per_plane(u8::try_from(paths)?)
}

/// Returns the number of a policy; of none of a queue pair's own, if that is [`None`].
pub(super) fn of_policy(policy: Option<Policy>) -> u32 {
    match policy {
        None => bindings::metaroce_dv_policy_METAROCE_DV_POLICY_DEVICE,
        Some(Policy::Off) => bindings::metaroce_dv_policy_METAROCE_DV_POLICY_OFF,
        Some(Policy::Prefer) => bindings::metaroce_dv_policy_METAROCE_DV_POLICY_PREFER,
        Some(Policy::Require) => bindings::metaroce_dv_policy_METAROCE_DV_POLICY_REQUIRE,
    }
}

/// Returns the policy of a number, [`None`] if that of the device is meant.
///
/// Errors: `EINVAL` if there is none.
pub(super) fn to_policy(number: u32) -> Result<Option<Policy>> {
    let all = [
        None,
        Some(Policy::Off),
        Some(Policy::Prefer),
        Some(Policy::Require),
    ];
    let found = all.into_iter().find(|policy| of_policy(*policy) == number);
    found.ok_or(EINVAL)
}
