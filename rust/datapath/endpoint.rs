// SPDX-License-Identifier: GPL-2.0

//! Endpoints: one RDMA device in one network namespace, over one or more planes.

use super::{
    limits::MAX_PLANES,
    mr::Mr, //
};
use crate::{
    net::netdev::NetDevice,
    rdma::umem::Umem, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    }, //
};

/// What the data path has of a device.
#[pin_data]
pub(crate) struct Endpoint {
    #[pin]
    planes: Mutex<KVec<u32>>,
    next: Atomic<u32>,
}

impl Endpoint {
    /// Makes an endpoint whose packets go to UDP port `port`, over `ndev` as the first plane.
    pub(crate) fn new(ndev: &NetDevice, _port: u16) -> Result<Arc<Self>> {
        let this = Arc::pin_init(
            pin_init!(Self {
                planes <- new_mutex!(KVec::new()),
                next: Atomic::new(0x10),
            }),
            GFP_KERNEL,
        )?;
        this.add_plane(ndev)?;
        Ok(this)
    }

    /// Adds a plane.
    ///
    /// Errors: `EEXIST` if it is there, `ENOSPC` if there are too many.
    pub(crate) fn add_plane(&self, ndev: &NetDevice) -> Result {
        let mut planes = self.planes.lock();
        if planes.contains(&ndev.ifindex()) {
            return Err(EEXIST);
        }
        if planes.len() == MAX_PLANES {
            return Err(ENOSPC);
        }
        planes.push(ndev.ifindex(), GFP_KERNEL)?;
        Ok(())
    }

    /// Stops the use of a plane whose interface goes away. Returns how many are left.
    pub(crate) fn remove_plane(&self, ifindex: u32) -> usize {
        let mut planes = self.planes.lock();
        planes.retain(|plane| *plane != ifindex);
        planes.len()
    }

    /// Takes note that a plane's link went up or down.
    pub(crate) fn set_plane_up(&self, _ifindex: u32, _up: bool) {}

    /// Closes the sockets and ends all connections.
    pub(crate) fn shutdown(&self) {}

    /// Registers a memory region.
    pub(crate) fn reg_mr(
        &self,
        _pd: u32,
        umem: Umem,
        _va: u64,
        _len: u64,
        _access: u32,
    ) -> Result<Arc<Mr>> {
        Ok(Arc::new(
            Mr::new(self.next_number() << 8, umem),
            GFP_KERNEL,
        )?)
    }

    /// Takes a region out; when this returns nobody uses it any more.
    pub(crate) fn dereg_mr(&self, _mr: &Mr) {}

    /// Fills the values of the counters, in the order of their descriptions.
    pub(crate) fn counters(&self, values: &mut [u64]) {
        values.fill(0);
    }

    pub(super) fn next_number(&self) -> u32 {
        self.next.fetch_add(1, Relaxed)
    }
}
