// SPDX-License-Identifier: GPL-2.0

//! The integrity check: CRC32C over the UDP payload with the CRC field read as zero.
//!
//! The field sits in the header and not behind the payload, so that a packet takes no further
//! buffer fragment. A kernel computes the same with its own `crc32c()`, which like [`crc32c`]
//! neither inverts its seed nor its result.

use super::{CRC_OFFSET, ZERO_CRC};

/// Seed of the register.
pub const CRC_SEED: u32 = !0;

/// CRC32C polynomial (Castagnoli), bit-reflected: RFC 3720 appendix B.4.
const POLY: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = table();

#[allow(clippy::indexing_slicing)] // Evaluated at compile time only.
const fn table() -> [u32; 256] {
    let mut t = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        // CAST: below 256.
        let mut c = i as u32;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 != 0 { c >> 1 ^ POLY } else { c >> 1 };
            bit += 1;
        }
        t[i] = c;
        i += 1;
    }
    t
}

/// Feeds `data` to the register `crc`; start with [`CRC_SEED`], end with [`finish`].
pub fn crc32c(crc: u32, data: &[u8]) -> u32 {
    data.iter().fold(crc, |c, &b| {
        let [low, ..] = c.to_le_bytes();
        let entry = TABLE.get(usize::from(low ^ b)).copied().unwrap_or(0);
        c >> 8 ^ entry
    })
}

/// Turns the register into the value of the field.
pub const fn finish(crc: u32) -> u32 {
    !crc
}

/// Over what the check runs, in order: these three slices of the header, then the payload. `None`
/// if `header` is shorter than a base header.
pub fn covered(header: &[u8]) -> Option<[&[u8]; 3]> {
    let (front, rest) = header.split_at_checked(CRC_OFFSET)?;
    let (_, back) = rest.split_at_checked(ZERO_CRC.len())?;
    Some([front, &ZERO_CRC, back])
}

/// The field's value for a packet of `header` and `payload` parts, with the plain implementation.
/// `None` if `header` is shorter than a base header.
pub fn packet_crc(header: &[u8], payload: &[&[u8]]) -> Option<u32> {
    let [a, b, c] = covered(header)?;
    let mut crc = CRC_SEED;
    for part in [a, b, c].iter().chain(payload) {
        crc = crc32c(crc, part);
    }
    Some(finish(crc))
}

/// Stores a computed value in the field. `None` if `header` is shorter than a base header.
pub fn set_crc(header: &mut [u8], crc: u32) -> Option<()> {
    header
        .get_mut(CRC_OFFSET..CRC_OFFSET + 4)?
        .copy_from_slice(&crc.to_be_bytes());
    Some(())
}
