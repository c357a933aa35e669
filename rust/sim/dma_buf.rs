// SPDX-License-Identifier: GPL-2.0

//! Memory of dma-bufs: the core gives none to devices.

use core::ptr::NonNull;
use kernel::prelude::*;

/// There is none.
pub(super) enum DmaBuf {}

impl DmaBuf {
    pub(super) fn at(&self, _off: usize) -> Result<(NonNull<u8>, usize)> {
        match *self {}
    }

    pub(super) fn drop_later(this: Pin<KBox<Self>>) {
        match *this {}
    }
}
