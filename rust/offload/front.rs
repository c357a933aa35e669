// SPDX-License-Identifier: GPL-2.0

//! Connected queue pairs as verbs see them, whoever carries them.

use super::{
    backend::{
        Backend,
        Carrier, //
    },
    caps::Needs,
    counters::Count,
    nic::{
        self,
        NotModified,
        Offer, //
    },
    objects::{
        is_device_state,
        NicQp, //
    },
    policy::{
        Outcome,
        Policy, //
    },
    site::Site,
};
use crate::{
    datapath::{
        foreign::Foreign,
        handover::TakeBack,
        qp::Qp,
        qp_counters::QpCounters,
        wishes::{
            ConnFacts,
            Wishes, //
        }, //
    },
    rdma::{
        event::QpEvent,
        qp::{
            AttrMask,
            QpAttr,
            QpCap,
            QpState, //
        }, //
    },
    sync::lock_bh::{
        new_spinlock_bh,
        SpinLockBh, //
    },
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
use proto::connection::MAX_PATHS;

/// What matters of where a queue pair comes from.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    /// A process has it, not a user in the kernel.
    pub(crate) is_user: bool,
    pub(crate) cap: QpCap,
}

/// A connected queue pair.
#[pin_data]
pub(crate) struct Front {
    software: Arc<Qp>,
    site: Arc<Site>,
    origin: Origin,
    /// If it is not to be that of its device.
    #[pin]
    policy: SpinLock<Option<Policy>>,
    /// Held during changes; whether the queue pair is gone.
    #[pin]
    change: Mutex<bool>,
    #[pin]
    device: SpinLockBh<Option<Arc<NicQp>>>,
}

/// A device's queue pair, through its [`Front`].
struct AtDevice<'a> {
    front: &'a Front,
    qp: Arc<NicQp>,
}

impl Backend for AtDevice<'_> {
    fn modify(&self, attr: &QpAttr, mask: AttrMask) -> Result {
        let merged = self.front.software.preview(attr, mask)?;
        if !is_device_state(merged.state) {
            // It is reset: everything begins anew, and is decided anew.
            self.qp.nic.remove(&self.qp);
            return self.front.software.modify(attr, mask);
        }
        match self.qp.nic.modify(&self.qp, &merged, mask) {
            Ok(()) => Ok(()),
            Err(NotModified::Refused(e)) => Err(e),
            // It was taken back meanwhile, in the error state.
            Err(NotModified::Gone) => self.front.software.modify(attr, mask),
        }
    }

    fn query(&self) -> QpAttr {
        let mut attr = self.front.software.query();
        if attr.state == QpState::SendQueueDrain {
            attr.sq_draining = !self.qp.is_drained();
        }
        attr
    }

    fn ring(&self) {
        self.qp.ring();
    }
}

impl Front {
    /// Makes the front of a queue pair that is not connected yet. Process context.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new(software: Arc<Qp>, site: Arc<Site>, origin: Origin) -> Result<Arc<Self>> {
        let front = Arc::pin_init(
            pin_init!(Self {
                software,
                site,
                origin,
                policy <- new_spinlock!(None),
                change <- new_mutex!(false),
                device <- new_spinlock_bh!(None),
            }),
            GFP_KERNEL,
        )?;
        front.site.fronts.insert(front.qpn(), front.clone())?;
        Ok(front)
    }

    /// Returns the queue pair's number.
    pub(crate) fn qpn(&self) -> u32 {
        self.software.qpn()
    }

    /// Returns the number of its protection domain.
    pub(super) fn pd(&self) -> u32 {
        self.software.pd()
    }

    /// Counts by `counters` from now on, or by none: what software does, for devices count no queue
    /// pair by itself. Process context.
    pub(crate) fn set_counters(&self, counters: Option<Arc<QpCounters>>) {
        self.software.set_counters(counters);
    }

    /// Returns the policy of its own, if it has one.
    pub(crate) fn own_policy(&self) -> Option<Policy> {
        *self.policy.lock()
    }

    /// Returns the policy.
    fn policy(&self) -> Policy {
        self.own_policy().unwrap_or_else(|| self.site.policy())
    }

    /// Sets a policy of its own, or [`None`] for that of its device: for when it is connected, and
    /// if it is, it moves, in the middle of everything, if that can be. Process context.
    pub(crate) fn set_policy(self: &Arc<Self>, policy: Option<Policy>) {
        *self.policy.lock() = policy;
        self.reconsider();
    }

    /// Has the connection, when it is made, be as `wishes` says: one of software. Process context.
    ///
    /// Errors: as for [`Qp::wish`].
    pub(crate) fn wish(&self, wishes: &Wishes) -> Result {
        let _change = self.change.lock();
        self.software.wish(wishes)
    }

    /// Returns what the queue pair wants of its connection, and what it has of software.
    pub(crate) fn facts(&self) -> (Wishes, ConnFacts) {
        self.software.facts()
    }

    /// Calls `f` with what carries the queue pair just now.
    fn with_backend<R>(&self, f: impl FnOnce(&dyn Backend) -> R) -> R {
        let qp = self.device.lock().clone();
        match qp {
            Some(qp) => {
                if qp.has_failed() {
                    self.software.follow_error();
                }
                f(&AtDevice { front: self, qp })
            }
            None => f(&self.software),
        }
    }

    /// Changes attributes. Whether the state allows that is seen by what carries the queue pair.
    /// Process context.
    ///
    /// Errors: `EINVAL` if it does not; what connecting, or a device, returns.
    pub(crate) fn modify(self: &Arc<Self>, attr: &QpAttr, mask: AttrMask) -> Result {
        let _change = self.change.lock();
        let connects = mask.contains(AttrMask::STATE) && attr.state == QpState::ReadyToReceive;
        if connects && self.offer(attr, mask)? {
            return Ok(());
        }
        self.with_backend(|backend| backend.modify(attr, mask))
    }

    /// Offers the queue pair to a device, as the policy says. Returns whether one carries it now.
    ///
    /// Errors: if nobody is to carry it.
    fn offer(self: &Arc<Self>, attr: &QpAttr, mask: AttrMask) -> Result<bool> {
        let policy = self.policy();
        if policy == Policy::Off {
            return Ok(false);
        }
        let merged = self.software.preview(attr, mask)?;
        match policy.judge(self.try_offer(policy, &merged, None)) {
            Outcome::Device => Ok(true),
            Outcome::Fallback => {
                self.site.count(Count::Fallback);
                Ok(false)
            }
            Outcome::Fail(e) => {
                self.site.count(Count::Fail);
                Err(e)
            }
        }
    }

    fn try_offer(self: &Arc<Self>, policy: Policy, attr: &QpAttr, state: Option<&[u8]>) -> Result {
        let nic = self.site.choose()?;
        let parts = self.software.parts();
        let endpoint = &self.site.endpoint;
        if !self.origin.is_user
            || !parts.is_reliable
            || parts.is_shared
            || self.software.has_wishes()
            || endpoint.mws().has_any(parts.pd)
        {
            return Err(EOPNOTSUPP);
        }
        let settings = endpoint.defaults().transport;
        let planes = endpoint.plane_count();
        let cap = &self.origin.cap;
        let needs = Needs {
            // CAST: The enumeration has the values of the C one.
            mtu: attr.path_mtu as u32,
            entries: cap.max_send_wr.max(cap.max_recv_wr),
            sge: cap.max_send_sge.max(cap.max_recv_sge),
            inline: cap.max_inline_data,
            // Those of the requester may follow later.
            rd_atomic: attr.max_dest_rd_atomic.max(attr.max_rd_atomic).into(),
            planes,
            paths: (planes * u32::from(settings.paths_per_plane)).min(MAX_PATHS.into()),
            cc: nic::needs_cc(endpoint),
            crc: settings.crc,
            ipv6: !proto::wire::Gid(attr.address.sgid.gid.0).is_v4(),
        };
        nic.add(Offer {
            front: self,
            site: &self.site,
            qpn: self.qpn(),
            parts,
            cqs: self.software.cqs(),
            attr,
            needs,
            may_move: policy == Policy::Prefer,
            state,
        })
    }

    /// The policy has changed: moves the queue pair, in the middle of everything, if that can be.
    /// Process context.
    pub(super) fn reconsider(self: &Arc<Self>) {
        let is_gone = self.change.lock();
        if *is_gone {
            return;
        }
        let policy = self.policy();
        let qp = self.device.lock().clone();
        match (qp, policy) {
            (Some(qp), Policy::Off) => qp.nic.hand_back(&qp),
            (None, Policy::Prefer | Policy::Require) => {
                // If not, then software goes on.
                let _ = self.move_in(policy);
            }
            _ => {}
        }
    }

    /// Moves the queue pair from software to a device.
    ///
    /// Errors: if that cannot be, and software goes on.
    fn move_in(self: &Arc<Self>, policy: Policy) -> Result {
        // Before anything stands still.
        self.site.choose()?;
        // CAST: A small constant.
        let size = bindings::METAROCE_OFL_STATE_MAX as usize;
        let mut buf = KVVec::from_elem(0u8, size, GFP_KERNEL)?;
        let mut attr = self.software.query();
        let (len, conn) = self.software.save(&mut buf)?;
        let state = buf.get(..len).ok_or(EINVAL)?;
        attr.current_state = attr.state;
        match self.try_offer(policy, &attr, Some(state)) {
            Ok(()) => {
                self.software.let_go(&conn);
                self.site.count(Count::Imported);
                // What was posted meanwhile has rung for nobody.
                self.doorbell();
                Ok(())
            }
            Err(e) => self.software.unsave(&conn, state).and(Err(e)),
        }
    }

    /// A device has taken the queue pair. Called with the registration's mutex held.
    pub(super) fn give(&self, attr: &QpAttr, qp: Arc<NicQp>, foreign: Arc<Foreign>) {
        self.software.park(attr, foreign);
        *self.device.lock() = Some(qp);
    }

    /// A device has changed attributes. Called with the registration's mutex held.
    pub(super) fn follow(&self, attr: &QpAttr) {
        self.software.follow(attr);
    }

    /// A device has let go of the queue pair. Called with the registration's mutex held.
    pub(super) fn take_back(&self, how: TakeBack) {
        let qp = self.device.lock().take();
        self.software.take_back(how);
        drop(qp);
    }

    /// Software goes on from the state that a device has saved. Called with the registration's mutex
    /// held.
    ///
    /// Errors: if it cannot; nothing has changed then.
    pub(super) fn resume(&self, state: &[u8]) -> Result {
        self.software.resume(state)?;
        let qp = self.device.lock().take();
        drop(qp);
        // What was posted meanwhile has rung for nobody.
        self.software.doorbell();
        Ok(())
    }

    /// Returns state and attributes.
    pub(crate) fn query(&self) -> QpAttr {
        self.with_backend(|backend| backend.query())
    }

    /// Something was posted. Process or softirq context.
    pub(crate) fn doorbell(&self) {
        self.with_backend(|backend| backend.ring());
    }

    /// As [`Self::doorbell`], for a user in the kernel. Any context.
    pub(crate) fn kick(&self) {
        // Devices are given queue pairs of processes only.
        self.software.kick();
    }

    /// Returns who carries the queue pair. Process context.
    pub(crate) fn carrier(&self) -> Carrier {
        let qp = self.device.lock().clone();
        match qp {
            Some(qp) => Carrier::Device(qp.nic.name()),
            None => match self.software.query().state {
                QpState::Reset | QpState::Init => Carrier::Nobody,
                _ => Carrier::Software,
            },
        }
    }

    /// The device reports. Any context but NMI.
    pub(super) fn report(&self, event: QpEvent) {
        self.software.report(event);
    }

    /// The device has drained the send queue. Any context but NMI.
    pub(super) fn tell_drained(&self, wanted: bool) {
        if wanted {
            self.software.report(QpEvent::SqDrained);
        }
    }

    /// Ends the use of the queue pair: nothing finds it any more on return. Process context.
    pub(crate) fn destroy(&self) {
        drop(self.site.fronts.remove(self.qpn()));
        // Whoever is about to move it has come too late.
        let mut is_gone = self.change.lock();
        *is_gone = true;
        let qp = self.device.lock().clone();
        if let Some(qp) = qp {
            qp.nic.remove(&qp);
        }
        self.software.destroy();
    }
}
