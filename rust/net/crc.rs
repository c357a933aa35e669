// SPDX-License-Identifier: GPL-2.0

//! CRC32C.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

use kernel::macros::kunit_tests;

/// Returns what the CRC32C `crc` becomes when `data` follow. Any context.
///
/// This is the bare polynomial division: begin with `!0` and invert the result for the CRC of
/// RFC 3720.
#[inline]
pub fn crc32c(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: The pointer and the length are those of a slice.
    unsafe { bindings::crc32c(crc, data.as_ptr().cast(), data.len()) }
}

#[kunit_tests(metaroce_crc)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_whole() {
        // The check value of CRC32C, as RFC 3720 seeds and inverts it.
        let data = b"123456789";
        assert_eq!(!crc32c(!0, data), 0xe306_9283);
        for at in 0..=data.len() {
            let (one, two) = data.split_at(at);
            assert_eq!(!crc32c(crc32c(!0, one), two), 0xe306_9283);
        }
    }
}
