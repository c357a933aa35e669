// SPDX-License-Identifier: GPL-2.0

//! Network devices of Pensando NICs come and go.

use super::cards;
use crate::net::{
    netdev::NetDevice,
    notifier::{
        Callback,
        Event, //
    }, //
};
use kernel::prelude::*;

/// Pensando Systems.
const VENDOR: u16 = 0x1dd8;

/// Physical and virtual function of the Ethernet NICs, as in `ionic.h`.
const DEVICES: [u16; 2] = [0x1002, 0x1003];

/// Whether this is a network device of such a NIC. It is registered, or just being so.
fn is_ionic(ndev: &NetDevice) -> bool {
    let known = |(vendor, device)| vendor == VENDOR && DEVICES.contains(&device);
    ndev.pci_id().is_some_and(known) && ndev.is_of_driver(c"ionic")
}

/// Follows the network devices.
pub(crate) struct Watch;

impl Callback for Watch {
    fn event(&self, event: Event, ndev: &NetDevice) {
        match event {
            // Those that there are already are announced, too; and those that come to another
            // namespace, which is no news here, and neither is that they leave one.
            Event::Register if is_ionic(ndev) && !cards::has(ndev) => {
                if let Err(e) = cards::add(ndev) {
                    pr_warn!("{}: not registered: {e:?}\n", ndev.name());
                }
            }
            Event::Unregister if !ndev.is_registered() => cards::remove(ndev),
            _ => {}
        }
    }
}
