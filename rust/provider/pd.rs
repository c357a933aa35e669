// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::Device;
use crate::{
    datapath::limits::MAX_PD,
    rdma::{
        self,
        udata::UserData, //
    },
    sync::id_table::IdTable, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The numbers of the protection domains of a device.
pub(super) type Numbers = IdTable<Taken>;

/// Stands in the table for a number that is in use; aligned as the table wants it.
#[repr(align(8))]
pub(super) struct Taken;

/// A protection domain: a number that no other one of the device has.
pub(crate) struct Pd {
    numbers: Arc<Numbers>,
    number: u32,
}

/// Makes a domain.
pub(super) fn alloc(
    dev: &rdma::Device<Device>,
    mut udata: Option<UserData<'_, Device>>,
) -> Result<Pd> {
    if let Some(udata) = &mut udata {
        udata.no_request()?;
    }
    let number = dev
        .pds
        .alloc(0..MAX_PD, Arc::new(Taken, GFP_KERNEL)?)
        // As verbs want it.
        .map_err(|_| ENOMEM)?;
    let pd = Pd {
        numbers: dev.pds.clone(),
        number,
    };
    if let Some(udata) = &mut udata {
        udata.no_response()?;
    }
    Ok(pd)
}

impl Pd {
    /// Returns the number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        self.numbers.remove(self.number);
    }
}
