// SPDX-License-Identifier: GPL-2.0

//! The side of an RDMA device: its policy, its counters, and the device that it uses.

use super::{
    counters::{
        Count,
        Counts,
        NAMES, //
    },
    front::Front,
    nic::Nic,
    policy::Policy,
    registry, //
};
use crate::{
    datapath::{
        endpoint::Endpoint,
        mr::Mr, //
    },
    params,
    sync::id_table::IdTable, //
};
use kernel::{
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLock, //
    }, //
};

/// What an RDMA device has to do with offload.
#[pin_data]
pub(crate) struct Site {
    pub(super) endpoint: Arc<Endpoint>,
    #[pin]
    policy: SpinLock<Policy>,
    pub(super) counts: Counts,
    /// The connected queue pairs, by number.
    #[pin]
    pub(super) fronts: IdTable<Front>,
    /// The device that has memory regions, connections or queue pairs of this one's.
    #[pin]
    nic: Mutex<Option<Arc<Nic>>>,
}

impl Site {
    /// Makes that of a new RDMA device, with the policy that the module's parameter names.
    ///
    /// Errors: `EINVAL` if it names none, `ENOMEM`.
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Result<Arc<Self>> {
        let policy = params::default_policy()?;
        Arc::pin_init(
            pin_init!(Self {
                endpoint,
                policy <- new_spinlock!(policy),
                counts: Counts::new(),
                fronts <- IdTable::new(),
                nic <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the policy.
    pub(crate) fn policy(&self) -> Policy {
        *self.policy.lock()
    }

    /// Sets the policy, for queue pairs without one of their own: those that are connected from now
    /// on, and those that can be moved.
    /// Process context.
    pub(crate) fn set_policy(&self, policy: Policy) {
        *self.policy.lock() = policy;
        self.fronts.for_each(|_, front| front.reconsider());
    }

    /// Sets the policy of a queue pair, see [`Front::set_policy`]. Process context.
    ///
    /// Errors: `ENOENT` if there is no connected queue pair of that number.
    pub(crate) fn set_policy_of(&self, qpn: u32, policy: Option<Policy>) -> Result {
        let front = self.fronts.lookup(qpn).ok_or(ENOENT)?;
        front.set_policy(policy);
        Ok(())
    }

    /// Calls `f` with each queue pair that has a policy of its own, by number. Process context.
    pub(crate) fn for_each_policy(&self, mut f: impl FnMut(u32, Policy)) {
        self.fronts.for_each(|qpn, front| {
            if let Some(policy) = front.own_policy() {
                f(qpn, policy);
            }
        });
    }

    /// Begins to use a device: it is told of everything from now on. Process context.
    ///
    /// Errors: `EOPNOTSUPP` while another one is in use.
    pub(super) fn begin(&self, nic: &Arc<Nic>) -> Result {
        let mut used = self.nic.lock();
        match &*used {
            Some(other) if !Arc::ptr_eq(other, nic) => Err(EOPNOTSUPP),
            _ => {
                *used = Some(nic.clone());
                Ok(())
            }
        }
    }

    /// Ends the use of a device. Process context.
    pub(super) fn end(&self, nic: &Nic) {
        let old = self.nic.lock().take_if(|used| core::ptr::eq(&**used, nic));
        drop(old);
    }

    fn nic(&self) -> Option<Arc<Nic>> {
        self.nic.lock().clone()
    }

    /// Returns the device to be asked: the one in use, else that of the network device with the
    /// GIDs. Process context.
    ///
    /// Errors: `ENODEV` if there is none.
    pub(super) fn choose(&self) -> Result<Arc<Nic>> {
        if let Some(nic) = self.nic() {
            return Ok(nic);
        }
        let primary = self.endpoint.primary().ok_or(ENODEV)?;
        registry::find(&primary).ok_or(ENODEV)
    }

    /// A memory region was registered. Process context.
    ///
    /// Errors: what the device says that has queue pairs of this one's.
    pub(crate) fn mr_added(self: &Arc<Self>, mr: &Mr) -> Result {
        match self.nic() {
            Some(nic) => nic.mr_added(self, mr),
            None => Ok(()),
        }
    }

    /// The region of a key was deregistered; a device uses it no more on return. Process context.
    pub(crate) fn mr_removed(&self, key: u32) {
        if let Some(nic) = self.nic() {
            nic.mr_removed(key);
        }
    }

    /// Whether memory windows may be made in a protection domain: not if a device has queue pairs
    /// of it. Process context.
    pub(crate) fn may_have_windows(&self, pd: u32) -> bool {
        self.nic().is_none_or(|nic| !nic.has_qps_of(pd))
    }

    /// Returns the data path's side of the device.
    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Has connections use these planes, see [`Endpoint::set_used_planes`], in software and at a
    /// device. Process context.
    ///
    /// Errors: `EINVAL` if none of them is there.
    pub(crate) fn use_planes(&self, planes: u8) -> Result {
        self.endpoint.set_used_planes(planes)?;
        self.planes_changed();
        Ok(())
    }

    /// The planes have changed. Process context.
    pub(crate) fn planes_changed(&self) {
        if let Some(nic) = self.nic() {
            nic.planes_changed();
        }
    }

    /// The RDMA device loses its network devices; the RTNL may be held. Process context.
    pub(crate) fn leave_soon(&self) {
        if let Some(nic) = self.nic() {
            nic.leave_soon();
        }
    }

    /// The RDMA device goes: no device has anything of it on return. Process context, the RTNL is
    /// not held.
    pub(crate) fn leave(self: &Arc<Self>) {
        if let Some(nic) = self.nic() {
            nic.leave(self);
        }
    }

    pub(super) fn count(&self, count: Count) {
        self.counts.inc(count);
    }

    /// Fills in the counters in the order of [`NAMES`]. Process context.
    pub(crate) fn counters(&self, out: &mut [u64]) {
        let s = self.nic().map(|nic| nic.stats()).unwrap_or_default();
        let device = [
            s.tx_packets,
            s.tx_bytes,
            s.rx_packets,
            s.rx_bytes,
            s.retransmits,
            s.rx_errors,
        ];
        const { assert!(NAMES.len() == super::counters::COUNTS + super::counters::DEVICE) };
        let values = Iterator::chain(self.counts.values(), device);
        for (out, value) in out.iter_mut().zip(values) {
            *out = value;
        }
    }
}
