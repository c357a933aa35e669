// SPDX-License-Identifier: GPL-2.0

//! Memory that is not pinned: the core gives none to devices.

use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// There is none.
pub(super) enum OnDemand {}

impl OnDemand {
    pub(super) fn page(&self, _index: usize, _write: bool) -> Result<NonNull<bindings::page>> {
        match *self {}
    }

    pub(super) fn want(self: &Arc<Self>, _offset: usize, _len: usize, _write: bool) {
        match **self {}
    }

    pub(super) fn enqueue(self: &Arc<Self>) {
        match **self {}
    }

    pub(super) fn prefetch(&self, _offset: usize, _len: usize, _write: bool) -> Result {
        match *self {}
    }
}
