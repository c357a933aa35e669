// SPDX-License-Identifier: GPL-2.0

//! What a registration has: completion queues, connections, queue pairs.

use super::{
    abi::{
        RawAttr,
        RawConn,
        RawCq,
        RawPlane,
        RawQp,
        Shared, //
    },
    front::Front,
    nic::Nic,
};
use crate::{
    datapath::{
        cq::Cq,
        foreign::{
            Foreign,
            Owner, //
        },
        handover::Parts,
        plane::PlaneInfo, //
    },
    net::{
        netdev::NetDeviceRef,
        skbuff::RxSkb, //
    },
    rdma::{
        event::QpEvent,
        qp::{
            QpAttr,
            QpState, //
        }, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        rcu,
        Arc,
        Mutex, //
    },
};
use proto::wire::Gid;

/// A completion queue that queue pairs of a device use.
#[repr(C)]
pub(super) struct NicCq {
    /// First, so that a pointer to it is one to the whole.
    pub(super) raw: Shared<RawCq>,
    pub(super) cq: Arc<Cq>,
    /// Uses by queue pairs. Changed under the registration's mutex.
    pub(super) users: Atomic<u32>,
}

/// A connection that a device has.
#[repr(C)]
#[pin_data]
pub(super) struct NicConn {
    /// As in [`NicCq`].
    pub(super) raw: Shared<RawConn>,
    nic: Arc<Nic>,
    pub(super) id: u32,
    pub(super) local: Gid,
    /// What the device knows of the planes, and their network devices.
    #[pin]
    pub(super) planes: Mutex<Planes>,
    /// When it is to be deleted, [`u64::MAX`] while it has its queue pair. Changed under the
    /// registration's mutex.
    pub(super) ends: Atomic<u64>,
    /// Packets with its number are handed over. Changed under the registration's mutex.
    pub(super) claimed: Atomic<bool>,
}

/// Planes of a connection. The references are held for the driver.
pub(super) struct Planes {
    pub(super) infos: KVec<PlaneInfo>,
    pub(super) devices: KVec<Option<NetDeviceRef>>,
}

impl Planes {
    /// Returns them in the form of the driver's.
    pub(super) fn to_raw(&self) -> Result<KVec<RawPlane>> {
        let mut list = KVec::with_capacity(self.infos.len(), GFP_KERNEL)?;
        for (info, ndev) in self.infos.iter().zip(&self.devices) {
            let plane = RawPlane {
                ndev: ndev
                    .as_ref()
                    .map_or(core::ptr::null_mut(), |ndev| ndev.as_raw()),
                gid: info.gid.0,
                speed: info.speed,
                up: info.up && ndev.is_some(),
            };
            list.push(plane, GFP_KERNEL)?;
        }
        Ok(list)
    }
}

impl NicConn {
    /// Makes a connection; `raw` says all but the planes.
    pub(super) fn new(
        nic: &Arc<Nic>,
        raw: RawConn,
        local: Gid,
        planes: Planes,
    ) -> Result<Arc<Self>> {
        let list = planes.to_raw()?;
        let nic = nic.clone();
        let id = raw.id;
        let conn = Arc::pin_init(
            pin_init!(Self {
                raw: Shared::new(raw),
                nic,
                id,
                local,
                planes <- new_mutex!(planes),
                ends: Atomic::new(u64::MAX),
                claimed: Atomic::new(false),
            }),
            GFP_KERNEL,
        )?;
        conn.keep_planes(&list);
        Ok(conn)
    }

    /// Makes the entry by which packets find it.
    pub(super) fn entry(this: &Arc<Self>) -> Result<Arc<Foreign>> {
        let owner: Arc<dyn Owner> = this.clone();
        Foreign::new(owner)
    }
}

impl Owner for NicConn {
    fn take(&self, skb: &RxSkb, at: (usize, usize)) {
        self.nic.op_rx(self, skb, at);
    }
}

/// A queue pair that a device has.
#[repr(C)]
pub(crate) struct NicQp {
    /// As in [`NicCq`].
    pub(super) raw: Shared<RawQp>,
    pub(super) nic: Arc<Nic>,
    pub(super) front: Arc<Front>,
    pub(super) conn: Arc<NicConn>,
    pub(super) cqs: [Arc<NicCq>; 2],
    /// If the device goes, software may go on.
    pub(super) may_move: bool,
    /// Keeps the rings.
    pub(super) _parts: Parts,
    /// The driver may be called. Cleared before a grace period and `qp_del`.
    pub(super) open: Atomic<bool>,
    /// The device has brought it to the error state.
    failed: Atomic<bool>,
    /// The device has drained the send queue.
    pub(super) drained: Atomic<bool>,
    /// Whether the user wants to be told of that.
    pub(super) notify: Atomic<bool>,
}

impl NicQp {
    pub(super) fn new(
        raw: RawQp,
        front: &Arc<Front>,
        conn: (&Arc<Nic>, &Arc<NicConn>),
        cqs: [Arc<NicCq>; 2],
        (parts, may_move): (Parts, bool),
    ) -> Result<Arc<Self>> {
        let qp = Self {
            raw: Shared::new(raw),
            nic: conn.0.clone(),
            front: front.clone(),
            conn: conn.1.clone(),
            cqs,
            may_move,
            _parts: parts,
            open: Atomic::new(true),
            failed: Atomic::new(false),
            drained: Atomic::new(false),
            notify: Atomic::new(false),
        };
        Ok(Arc::new(qp, GFP_KERNEL)?)
    }

    /// Whether the device has brought it to the error state.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Whether the device has drained the send queue.
    pub(super) fn is_drained(&self) -> bool {
        self.drained.load(Relaxed)
    }

    pub(super) fn set_failed(&self) {
        self.failed.store(true, Relaxed);
    }

    /// Tells the device that something was posted. Any context but NMI.
    pub(super) fn ring(&self) {
        // Whoever closes waits until nobody is in here.
        let _guard = rcu::read_lock();
        if self.open.load(Acquire) {
            self.nic.op_qp_ring(self);
        }
    }

    /// The driver is called by [`Self::ring`] no more, as soon as a grace period has passed.
    pub(super) fn close(&self) {
        self.open.store(false, Release);
    }

    /// The device tells of something. Any context but NMI.
    pub(super) fn on_event(&self, event: bindings::metaroce_ofl_event) {
        let event = match event {
            bindings::metaroce_ofl_event_METAROCE_OFL_SQ_DRAINED => {
                self.drained.store(true, Relaxed);
                return self.front.tell_drained(self.notify.load(Relaxed));
            }
            bindings::metaroce_ofl_event_METAROCE_OFL_QP_REQ_ERR => QpEvent::RequestError,
            bindings::metaroce_ofl_event_METAROCE_OFL_QP_ACCESS_ERR => QpEvent::AccessError,
            _ => QpEvent::Fatal,
        };
        self.set_failed();
        self.front.report(event);
    }
}

/// The form in which drivers take attributes.
pub(super) fn to_raw_attr(attr: &QpAttr) -> RawAttr {
    RawAttr {
        // CAST: The enumeration has the values of the C one.
        state: attr.state as u32,
        path_mtu: attr.path_mtu.bytes(),
        dest_qpn: attr.dest_qp_num,
        sq_psn: attr.sq_psn,
        rq_psn: attr.rq_psn,
        access: attr.access_flags,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        min_rnr_timer: attr.min_rnr_timer,
        sqd_async_notify: attr.sqd_async_notify,
    }
}

/// Whether a state is one that a device may be brought to.
pub(super) fn is_device_state(state: QpState) -> bool {
    matches!(
        state,
        QpState::ReadyToReceive | QpState::ReadyToSend | QpState::SendQueueDrain | QpState::Error
    )
}
