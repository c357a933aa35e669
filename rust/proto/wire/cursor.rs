// SPDX-License-Identifier: GPL-2.0

//! Bounds-checked reading and writing in network byte order.

use super::WireError;

/// Reads from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, tail) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(WireError::BadHeaderLength)?;
        self.0 = tail;
        Ok(*head)
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (head, tail) = self
            .0
            .split_at_checked(n)
            .ok_or(WireError::BadHeaderLength)?;
        self.0 = tail;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[b]| b)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    /// One byte and a 24-bit number, packed in a word.
    pub(crate) fn u8_u24(&mut self) -> Result<(u8, u32), WireError> {
        let [a, b, c, d] = self.array()?;
        Ok((a, u32::from_be_bytes([0, b, c, d])))
    }

    /// Succeeds if everything was consumed.
    pub(crate) fn done(self) -> Result<(), WireError> {
        match self.0 {
            [] => Ok(()),
            _ => Err(WireError::BadHeaderLength),
        }
    }
}

/// Writes from the front of a slice; every operation fails once the slice is full.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    buf: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(buf: &'a mut [u8]) -> Self {
        Writer { buf, at: 0 }
    }

    pub(crate) fn bytes(&mut self, v: &[u8]) -> Option<()> {
        let end = self.at.checked_add(v.len())?;
        self.buf.get_mut(self.at..end)?.copy_from_slice(v);
        self.at = end;
        Some(())
    }

    pub(crate) fn u8(&mut self, v: u8) -> Option<()> {
        self.bytes(&[v])
    }

    pub(crate) fn u16(&mut self, v: u16) -> Option<()> {
        self.bytes(&v.to_be_bytes())
    }

    pub(crate) fn u32(&mut self, v: u32) -> Option<()> {
        self.bytes(&v.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, v: u64) -> Option<()> {
        self.bytes(&v.to_be_bytes())
    }

    /// One byte and a 24-bit number; higher bits of `n` are cut off.
    pub(crate) fn u8_u24(&mut self, b: u8, n: u32) -> Option<()> {
        let [_, x, y, z] = n.to_be_bytes();
        self.bytes(&[b, x, y, z])
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.at
    }
}
