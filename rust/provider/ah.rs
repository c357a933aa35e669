// SPDX-License-Identifier: GPL-2.0

//! Address handles.

use super::{
    quota::{
        Kind,
        Permit, //
    },
    Device, //
};
use crate::{
    datapath::{
        self,
        ah::Destination,
        endpoint::Endpoint, //
    },
    rdma::{
        self,
        device::PORT,
        qp::AddressVector,
        udata::UserData, //
    },
};
use bindings::metaroce_create_ah_resp;
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};

/// An address handle.
pub(crate) struct Ah {
    ah: Arc<datapath::ah::Ah>,
    /// Of a handle that the work requests of a process name; those of users in the kernel name the
    /// handle itself.
    _number: Option<Number>,
    _permit: Permit,
}

/// The number of an address handle.
struct Number {
    endpoint: Arc<Endpoint>,
    number: u32,
}

impl Drop for Number {
    /// Processes destroy their handles in process context.
    fn drop(&mut self) {
        self.endpoint.remove_ah(self.number);
    }
}

/// Checks an address; `EINVAL` as verbs want it.
fn check(address: &AddressVector) -> Result {
    if !address.has_grh || !address.sgid.udp_encap || address.port_num != PORT || address.sl > 15 {
        return Err(EINVAL);
    }
    if !address.dgid.is_unicast() && !address.dgid.is_multicast() {
        return Err(EINVAL);
    }
    Ok(())
}

/// Makes a handle. The context is one in which memory can be allocated with `flags`.
pub(super) fn create(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    address: &AddressVector,
    flags: Flags,
    udata: Option<UserData<'_, Device>>,
) -> Result<Ah> {
    check(address)?;
    let permit = Permit::new(&dev.quotas, Kind::Ah)?;
    let ah = datapath::ah::Ah::new(pd.number(), address, flags)?;
    let number = match udata {
        Some(mut udata) => {
            udata.no_request()?;
            let endpoint = (*dev.endpoint).clone();
            let number = endpoint.add_ah(ah.clone())?;
            let number = Number { endpoint, number };
            udata.respond(&metaroce_create_ah_resp {
                ah: number.number,
                reserved: 0,
            })?;
            Some(number)
        }
        None => None,
    };
    Ok(Ah {
        ah,
        _number: number,
        _permit: permit,
    })
}

impl Ah {
    /// Changes where it leads.
    pub(super) fn modify(&self, address: &AddressVector) -> Result {
        check(address)?;
        self.ah.modify(address);
        Ok(())
    }

    /// Returns where it leads.
    pub(super) fn query(&self) -> AddressVector {
        self.ah.address()
    }

    /// Returns where datagrams go that name it. Any context.
    pub(super) fn destination(&self) -> Destination {
        self.ah.destination()
    }
}
