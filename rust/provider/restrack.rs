// SPDX-License-Identifier: GPL-2.0

//! What `rdma resource show qp -dd` says beside what ib_core knows.

use super::Device;
use crate::{
    offload::Carrier,
    rdma::{
        self,
        restrack::Attributes, //
    }, //
};
use kernel::{
    prelude::*,
    str::CString, //
};

/// Adds the attributes of a memory region.
pub(super) fn fill_mr(mr: &rdma::Mr<Device>, attributes: &mut Attributes<'_>) -> Result {
    attributes.put_u32(c"windows", mr.windows())
}

/// Adds the attributes of a queue pair.
pub(super) fn fill_qp(qp: &rdma::Qp<Device>, attributes: &mut Attributes<'_>) -> Result {
    let queried = qp.query();
    attributes.put_u32(c"path_mtu", queried.attr.path_mtu.bytes())?;
    attributes.put_u32_hex(c"dest_qpn", queried.attr.dest_qp_num)?;
    if let Ok(connected) = qp.connected() {
        let (_, conn) = connected.facts();
        attributes.put_u32(c"connection", conn.id)?;
        attributes.put_u32(c"paths", conn.paths.into())?;
        attributes.put_u32_hex(c"planes_up", conn.planes_up.into())?;
    }
    match qp.carrier() {
        Some(Carrier::Device(name)) => {
            let name = CString::try_from_fmt(fmt!("{name}"))?;
            attributes.put_string(c"offload", &name)
        }
        Some(Carrier::Software) => attributes.put_string(c"offload", c"software"),
        Some(Carrier::Nobody) => attributes.put_string(c"offload", c"none"),
        None => Ok(()),
    }
}
