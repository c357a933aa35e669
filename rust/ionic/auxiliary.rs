// SPDX-License-Identifier: GPL-2.0

//! The auxiliary devices that `ionic` makes for other drivers.
//!
//! `ionic.metaroce` would be the place for a driver like this one; no `ionic` makes one today.
//! `ionic.rdma` is there on NICs with RoCE and is that of the RoCE driver, which cannot have it any
//! more when another driver has: so it is taken only if the user wants that. Either goes when
//! firmware is reset, and comes again after that.

use super::cards;
use kernel::{
    auxiliary,
    device::Core,
    prelude::*, //
};

/// A registered driver.
pub(crate) type Registration<T> = kernel::driver::Registration<auxiliary::Adapter<T>>;

/// Something bound: the NIC counts as ready as long as this is there.
pub(crate) struct Bound {
    parent: usize,
}

impl Bound {
    fn new(dev: &auxiliary::Device<Core<'_>>) -> Self {
        // Compared with that of the network device, never followed.
        let parent = core::ptr::from_ref(dev.parent()).addr();
        cards::ready(parent);
        Self { parent }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        cards::reset(self.parent);
    }
}

/// The driver of `ionic.metaroce`.
pub(crate) struct MetaRoce;

kernel::auxiliary_device_table!(
    METAROCE,
    <MetaRoce as auxiliary::Driver>::IdInfo,
    [(auxiliary::DeviceId::new(c"ionic", c"metaroce"), ())]
);

impl auxiliary::Driver for MetaRoce {
    type IdInfo = ();
    type Data<'bound> = Bound;
    const ID_TABLE: auxiliary::IdTable<Self::IdInfo> = &METAROCE;

    fn probe<'bound>(
        dev: &'bound auxiliary::Device<Core<'_>>,
        _info: &'bound (),
    ) -> impl PinInit<Bound, Error> + 'bound {
        Ok(Bound::new(dev))
    }
}

/// The driver of `ionic.rdma`. It has no alias: it is not loaded for it.
pub(crate) struct Rdma;

static RDMA: kernel::device_id::IdArray<auxiliary::DeviceId, (), 1> =
    kernel::device_id::IdArray::new([(auxiliary::DeviceId::new(c"ionic", c"rdma"), &())]);

impl auxiliary::Driver for Rdma {
    type IdInfo = ();
    type Data<'bound> = Bound;
    const ID_TABLE: auxiliary::IdTable<Self::IdInfo> = &RDMA;

    fn probe<'bound>(
        dev: &'bound auxiliary::Device<Core<'_>>,
        _info: &'bound (),
    ) -> impl PinInit<Bound, Error> + 'bound {
        Ok(Bound::new(dev))
    }
}
