// SPDX-License-Identifier: GPL-2.0

//! Networking: devices and their addresses, kernel UDP sockets, packets in both directions.

pub mod account;
pub mod addr;
pub mod crc;
pub mod namespace;
pub mod netdev;
pub mod notifier;
pub mod page;
pub mod route;
pub mod skbuff;
mod tests;
pub mod tx;
pub mod udp;

/// Returns a random number out of `range`, its start if it is empty. Any context.
pub fn random_in(range: core::ops::Range<u32>) -> u32 {
    let size = range.end.saturating_sub(range.start);
    range.start + random_u32().checked_rem(size).unwrap_or(0)
}

/// Returns a random number. Any context.
pub fn random_u32() -> u32 {
    // SAFETY: An FFI call with no additional requirements.
    unsafe { bindings::get_random_u32() }
}
