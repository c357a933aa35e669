// SPDX-License-Identifier: GPL-2.0

//! Reads integers out of byte slices in host byte order, and writes bytes, bounds checked.

/// Returns the `N` bytes at `off`.
fn array<const N: usize>(b: &[u8], off: usize) -> Option<[u8; N]> {
    b.get(off..off.checked_add(N)?)?.try_into().ok()
}

/// Returns the byte at `off`.
pub(crate) fn u8_at(b: &[u8], off: usize) -> Option<u8> {
    b.get(off).copied()
}

/// Returns the 16-bit integer at `off`.
pub(crate) fn u16_at(b: &[u8], off: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(array(b, off)?))
}

/// Returns the 32-bit integer at `off`.
pub(crate) fn u32_at(b: &[u8], off: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(array(b, off)?))
}

/// Returns the 64-bit integer at `off`.
pub(crate) fn u64_at(b: &[u8], off: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(array(b, off)?))
}

/// Writes `bytes` at `off`, if they fit: callers stay inside.
pub(super) fn put(to: &mut [u8], off: usize, bytes: &[u8]) {
    if let Some(to) = to.get_mut(off..off + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}
