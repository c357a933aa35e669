// SPDX-License-Identifier: GPL-2.0

//! `rdma link add NAME type metaroce netdev NETDEV`.
//!
//! Adding a link that is there already, with another network device, adds that as a plane.

use super::Device;
use crate::{
    datapath::endpoint::Endpoint,
    rdma::{
        device::{
            Description,
            DeviceRef,
            UnregisteredDevice, //
        },
        link::LinkType,
        NetDevice, //
    }, //
};
use kernel::{
    cpu,
    prelude::*, //
};

impl LinkType for Device {
    const NAME: &'static CStr = c"metaroce";

    fn new_link(name: &CStr, ndev: &NetDevice) -> Result {
        if !ndev.is_ethernet() {
            return Err(EINVAL);
        }
        // CAST: A small constant.
        let port = bindings::METAROCE_DEFAULT_UDP_PORT as u16;
        let ifindex = ndev.ifindex();

        let of_name =
            |dev: &crate::rdma::Device<Self>| dev.has_name(name) && dev.is_visible_from(ndev);
        if let Some(dev) = DeviceRef::<Self>::find(of_name) {
            return dev.endpoint.add_plane(ndev);
        }
        let over_ndev = |dev: &crate::rdma::Device<Self>| dev.endpoint.has_plane(ifindex);
        if DeviceRef::<Self>::find(over_ndev).is_some() {
            return Err(EEXIST);
        }

        let desc = Description {
            node_desc: c"MetaRoCE",
            num_comp_vectors: cpu::nr_cpu_ids(),
        };
        let data = Device::new(Endpoint::new(ndev, port)?)?;
        UnregisteredDevice::new(ndev, &desc, data)?.register(name)
    }
}
