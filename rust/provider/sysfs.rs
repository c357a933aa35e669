// SPDX-License-Identifier: GPL-2.0

//! Planes in sysfs, in the folder `planes` of the device: a file for each number with the name of
//! the network device in it, as ib_core has it for GIDs, and one to remove a plane.
//!
//! ib_core's netlink interface adds and removes whole links only.

use super::{
    link,
    Device, //
};
use crate::{
    datapath::limits::MAX_PLANES,
    rdma::{
        self,
        sysfs::{
            Attribute,
            AttributeGroup,
            AttributeList, //
        }, //
    }, //
};
use kernel::prelude::*;

static ATTRIBUTES: [Attribute<Device>; MAX_PLANES + 1] = [
    Attribute::readable(c"0", 0, show),
    Attribute::readable(c"1", 1, show),
    Attribute::readable(c"2", 2, show),
    Attribute::readable(c"3", 3, show),
    Attribute::readable(c"4", 4, show),
    Attribute::readable(c"5", 5, show),
    Attribute::readable(c"6", 6, show),
    Attribute::readable(c"7", 7, show),
    Attribute::writable(c"remove", link::remove_plane),
];

static LIST: AttributeList<Device, { MAX_PLANES + 2 }> = AttributeList::new(&ATTRIBUTES);

/// The folder.
pub(super) static GROUP: AttributeGroup<Device> = AttributeGroup::new(c"planes", &LIST);

/// Prints the name of a plane's network device; nothing if there is no such plane.
fn show(dev: &rdma::Device<Device>, number: usize, out: &mut [u8]) -> Result<usize> {
    let id = u8::try_from(number)?;
    let Some(name) = dev.endpoint.plane_name(id) else {
        return Ok(0);
    };
    let name = name.as_bytes();
    let line = out.get_mut(..name.len() + 1).ok_or(ENOSPC)?;
    let (newline, text) = line.split_last_mut().ok_or(ENOSPC)?;
    text.copy_from_slice(name);
    *newline = b'\n';
    Ok(line.len())
}
