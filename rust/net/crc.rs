// SPDX-License-Identifier: GPL-2.0

//! CRC32C.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

/// Returns what the CRC32C `crc` becomes when `data` follow. Any context.
///
/// This is the bare polynomial division: begin with `!0` and invert the result for the CRC of
/// RFC 3720.
#[inline]
pub fn crc32c(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: The pointer and the length are those of a slice.
    unsafe { bindings::crc32c(crc, data.as_ptr().cast(), data.len()) }
}
