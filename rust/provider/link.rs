// SPDX-License-Identifier: GPL-2.0

//! How devices come and go: `rdma link add NAME type metaroce netdev NETDEV`, and what happens to
//! the network devices below them.
//!
//! Adding a link that is there already, with another network device, adds that as a plane. A
//! device that has lost its last plane is unregistered.
//!
//! Locks: ib_core's, then the one that serialises additions, then the RTNL (not taken here, but
//! held during notifications), then the list of devices, then the planes of a device.

use super::{
    device::Traffic,
    planes::Left,
    Device, //
};
use crate::{
    net::{
        netdev::{
            NetDevice,
            Rtnl, //
        },
        notifier::{
            self,
            Event,
            NetdevNotifier, //
        }, //
    },
    offload,
    rdma::{
        self,
        device::{
            Description,
            DeviceRef,
            PortEvent,
            UnregisteredDevice, //
        },
        link::LinkType, //
    }, //
};
use kernel::{
    cpu,
    impl_has_work,
    new_work,
    prelude::*,
    sync::Arc,
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

impl LinkType for Device {
    const NAME: &'static CStr = c"metaroce";

    fn new_link(name: &CStr, ndev: &NetDevice) -> Result {
        if !ndev.is_ethernet() {
            return Err(EINVAL);
        }
        if ndev.is_vlan() {
            // ib_core gives the device below the GIDs of a VLAN, and the VLAN none.
            return Err(EOPNOTSUPP);
        }
        if DeviceRef::<Self>::find(|dev| dev.planes.has(ndev)).is_some() {
            return Err(EEXIST);
        }
        // A network device that goes away, or to another namespace, meanwhile: the notification of
        // that came too early to find the plane, and is made up for.
        let net = ndev.net();
        let is_gone = || !ndev.is_registered() || ndev.net() != net;

        let named = |dev: &rdma::Device<Self>| dev.has_name(name) && dev.is_visible_from(ndev);
        let dev = if let Some(dev) = DeviceRef::<Self>::find(named) {
            add_plane(&dev, ndev)?;
            Some(dev)
        } else {
            add_device(name, ndev)?;
            DeviceRef::<Self>::find(|dev| dev.planes.has(ndev))
        };
        if is_gone() {
            if let Some(dev) = dev {
                lose(dev, ndev);
            }
            return Err(ENODEV);
        }
        Ok(())
    }
}

/// Makes and registers a device.
fn add_device(name: &CStr, ndev: &NetDevice) -> Result {
    let traffic = Traffic::new(ndev, crate::params::port())?;
    let desc = Description {
        node_desc: c"MetaRoCE",
        num_comp_vectors: cpu::nr_cpu_ids(),
    };
    let dir = {
        let net = ndev.net().ok_or(ENODEV)?;
        rdma::debugfs::device_dir(Device::NAME, name, &net)?
    };
    let dev = UnregisteredDevice::new(ndev, &desc, Device::new(traffic, &dir))?;
    dev.planes.add(ndev)?;
    // Nobody wants to be told of the initial state.
    dev.planes.take_change();
    dev.register(name)
}

/// Adds a plane to a device.
fn add_plane(dev: &rdma::Device<Device>, ndev: &NetDevice) -> Result {
    // All planes are in one namespace, that of the first.
    if dev.netdev().is_none_or(|first| first.net() != ndev.net()) {
        return Err(EXDEV);
    }
    dev.planes.add(ndev)?;
    dev.endpoint
        .add_plane(ndev)
        .inspect_err(|_| drop(dev.planes.remove(ndev)))?;
    dev.offload.planes_changed();
    report_state(dev);
    Ok(())
}

/// Takes a network device that goes away out of the device that it is a plane of.
fn lose(dev: DeviceRef<Device>, ndev: &NetDevice) {
    dev.endpoint.remove_plane(ndev.ifindex());
    dev.offload.planes_changed();
    match dev.planes.remove(ndev) {
        Left::Same => report_state(&dev),
        Left::Primary(next) => {
            // Cannot fail with a port that there is.
            let _ = dev.set_netdev(Some(&next));
            report_state(&dev);
            Rescan::queue(dev);
        }
        Left::None => {
            let _ = dev.set_netdev(None);
            dev.offload.leave_soon();
            // The sockets must not outlive the namespace, which may go next.
            dev.endpoint.shutdown();
            dev.unregister_queued();
        }
    }
}

/// Takes the network device called `name` out of a device that has others. Process context.
///
/// Errors: `ENODEV` if it is no plane, `EBUSY` if it is the only one.
pub(super) fn remove_plane(dev: &rdma::Device<Device>, name: &[u8]) -> Result {
    let same = |other: &rdma::Device<Device>| core::ptr::eq(other, dev);
    let dev = DeviceRef::<Device>::find(same).ok_or(ENODEV)?;
    // As in a notification: what is the primary plane afterwards cannot go at the same time.
    let _rtnl = Rtnl::lock();
    let ndev = dev.planes.dispensable(name)?;
    lose(dev, &ndev);
    Ok(())
}

/// Reports the port's state if it has changed.
fn report_state(dev: &rdma::Device<Device>) {
    match dev.planes.take_change() {
        Some(true) => dev.report(PortEvent::Active),
        Some(false) => dev.report(PortEvent::Error),
        None => {}
    }
}

/// Gives the port the GIDs of its new network device, where the RTNL is not held.
#[pin_data]
struct Rescan {
    dev: DeviceRef<Device>,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Rescan { self.work }
}

impl Rescan {
    /// If there is no memory, the GIDs come with the next change of an address.
    fn queue(dev: DeviceRef<Device>) {
        let rescan = Arc::pin_init(
            pin_init!(Self {
                dev,
                work <- new_work!("Rescan::work"),
            }),
            GFP_KERNEL,
        );
        if let Ok(rescan) = rescan {
            let _ = rdma::work::queue().enqueue(rescan);
        }
    }
}

impl WorkItem for Rescan {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.dev.rescan_gids();
    }
}

/// Tells the connections of addresses that have come or gone, where one may sleep.
#[pin_data]
struct Readdress {
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Readdress { self.work }
}

impl Readdress {
    /// Any context. If there is no memory, the connections learn it with the next change.
    fn queue() {
        let work = pin_init!(Self {
            work <- new_work!("Readdress::work"),
        });
        if let Ok(readdress) = Arc::pin_init(work, GFP_ATOMIC) {
            let _ = rdma::work::queue().enqueue(readdress);
        }
    }
}

impl WorkItem for Readdress {
    type Pointer = Arc<Self>;

    fn run(_this: Arc<Self>) {
        // None is wanted: each is looked at.
        let _ = DeviceRef::<Device>::find(|dev| {
            dev.endpoint.refresh_planes();
            dev.offload.planes_changed();
            false
        });
    }
}

/// Watches the network devices.
pub(crate) struct Watch;

impl Watch {
    /// Starts to watch.
    pub(crate) fn start() -> Result<Pin<KBox<NetdevNotifier<Self>>>> {
        NetdevNotifier::new(Arc::new(Self, GFP_KERNEL)?)
    }
}

impl notifier::Callback for Watch {
    fn event(&self, event: Event, ndev: &NetDevice) {
        match event {
            Event::Unregister | Event::Up | Event::Down | Event::Change => {}
            // ib_core makes GIDs of the addresses by itself.
            Event::AddressAdded(_) | Event::AddressRemoved(_) => return Readdress::queue(),
            // The MTU is asked for when it is wanted, and nobody remembers names.
            _ => return,
        }
        if event == Event::Unregister {
            offload::netdev_gone(ndev);
        }
        let Some(dev) = DeviceRef::<Device>::find(|dev| dev.planes.has(ndev)) else {
            return;
        };
        if event == Event::Unregister {
            lose(dev, ndev);
        } else {
            dev.endpoint.set_plane_up(ndev.ifindex(), ndev.is_up());
            dev.offload.planes_changed();
            report_state(&dev);
        }
    }
}
