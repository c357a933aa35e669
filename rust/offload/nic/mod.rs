// SPDX-License-Identifier: GPL-2.0

//! A registration: a device, and what it has been given.

mod add;
mod conns;
mod leave;

use super::{
    abi::{
        Ops,
        RawStats,
        Shared, //
    },
    caps::Caps,
    objects::{
        to_raw_attr,
        NicConn,
        NicCq,
        NicQp, //
    },
    site::Site,
};
use crate::{
    datapath::cq::{
        Completion,
        Overrun, //
    },
    net::netdev::{
        Name,
        NetDevice,
        NetDeviceRef, //
    },
    rdma::{
        self,
        qp::{
            AttrMask,
            QpAttr,
            QpState, //
        }, //
    },
    sync::{
        hrtimer::{
            self,
            Timer,
            TimerCallback, //
        },
        id_table::IdTable, //
    },
};
use kernel::{
    impl_has_work,
    new_mutex,
    new_work,
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

pub(super) use self::{
    add::Offer,
    conns::needs_cc, //
};

/// Why a change of a queue pair was not made.
pub(super) enum NotModified {
    /// The device has it no more.
    Gone,
    /// The device does not want to.
    Refused(Error),
}

/// A device that was registered.
#[repr(C)]
#[pin_data]
pub(crate) struct Nic {
    /// First, so that a pointer to it is one to the whole.
    pub(super) raw: Shared<bindings::metaroce_ofl>,
    pub(super) ops: Ops,
    caps: Caps,
    /// The name of the network device at first.
    name: Name,
    /// Where the network device is, only to be compared.
    address: usize,
    /// Nothing is added any more.
    dead: Atomic<bool>,
    /// The driver has said that the device does not work.
    faulted: Atomic<bool>,
    /// The RDMA device goes away.
    leave: Atomic<bool>,
    /// Planes have changed.
    planes: Atomic<bool>,
    /// By number.
    #[pin]
    qps: IdTable<NicQp>,
    #[pin]
    inner: Mutex<Inner>,
    /// For connections that have outlived their queue pairs.
    #[pin]
    timer: Timer<Self>,
    #[pin]
    work: Work<Self>,
}

/// What the registration's mutex guards, beside the calls of the driver's operations.
struct Inner {
    /// Until it is unregistered.
    ndev: Option<NetDeviceRef>,
    /// The RDMA device that uses the device: it has one at a time.
    site: Option<Arc<Site>>,
    /// Keys of the memory regions that the device knows.
    mrs: RBTree<u32, ()>,
    n_mrs: u32,
    /// There may be regions that it does not know.
    lacks_mrs: bool,
    cqs: KVec<Arc<NicCq>>,
    conns: KVec<Arc<NicConn>>,
    qps: KVec<Arc<NicQp>>,
}

impl_has_work! {
    impl HasWork<Self> for Nic { self.work }
}

impl Nic {
    pub(super) fn new(
        ndev: &NetDevice,
        ops: Ops,
        caps: Caps,
        priv_: *mut c_void,
    ) -> Result<Arc<Self>> {
        let raw = bindings::metaroce_ofl {
            ndev: ndev.as_raw(),
            priv_,
        };
        let nic = Arc::pin_init(
            pin_init!(Self {
                raw: Shared::new(raw),
                ops,
                caps,
                name: ndev.name(),
                address: ndev.as_raw().addr(),
                dead: Atomic::new(false),
                faulted: Atomic::new(false),
                leave: Atomic::new(false),
                planes: Atomic::new(false),
                qps <- IdTable::new(),
                inner <- new_mutex!(Inner {
                    ndev: Some(ndev.into()),
                    site: None,
                    mrs: RBTree::new(),
                    n_mrs: 0,
                    lacks_mrs: false,
                    cqs: KVec::new(),
                    conns: KVec::new(),
                    qps: KVec::new(),
                }),
                timer <- Timer::new(),
                work <- new_work!("Nic::work"),
            }),
            GFP_KERNEL,
        )?;
        nic.timer.attach(nic.clone());
        Ok(nic)
    }

    /// Returns the name that the network device had at first, for messages.
    pub(super) fn first_name(&self) -> Name {
        self.name
    }

    /// Returns the name of the network device. Process context.
    pub(super) fn name(&self) -> Name {
        let inner = self.inner.lock();
        inner.ndev.as_ref().map_or(self.name, |ndev| ndev.name())
    }

    /// Whether it is that of a network device, and works.
    pub(super) fn is_of(&self, ndev: &NetDevice) -> bool {
        // It has a reference until it is dead, so the address is that of no other device.
        self.address == ndev.as_raw().addr() && !self.is_dead()
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    /// Changes a queue pair. Process context.
    pub(super) fn modify(
        &self,
        qp: &NicQp,
        attr: &QpAttr,
        mask: AttrMask,
    ) -> Result<(), NotModified> {
        // What is called below excludes that the queue pair goes.
        let _inner = self.inner.lock();
        if !qp.open.load(Relaxed) {
            return Err(NotModified::Gone);
        }
        if u32::from(attr.max_rd_atomic) > self.caps.max_rd_atomic {
            return Err(NotModified::Refused(EINVAL));
        }
        if attr.state == QpState::SendQueueDrain && attr.current_state != attr.state {
            qp.drained.store(false, Relaxed);
        }
        qp.notify.store(attr.sqd_async_notify, Relaxed);
        let raw = to_raw_attr(attr);
        self.op_qp_modify(qp, &raw, mask.bits())
            .map_err(NotModified::Refused)?;
        qp.keep_attr(&raw);
        qp.front.follow(attr);
        Ok(())
    }

    /// Whether the device has queue pairs of a protection domain. Process context.
    pub(super) fn has_qps_of(&self, pd: u32) -> bool {
        let inner = self.inner.lock();
        inner.qps.iter().any(|qp| qp.front.pd() == pd)
    }

    /// Returns what the device has counted. Process context.
    pub(super) fn stats(&self) -> RawStats {
        let _inner = self.inner.lock();
        if self.is_dead() {
            return RawStats::default();
        }
        self.op_get_stats()
    }

    /// A work request has completed. Any context but NMI.
    pub(super) fn complete(
        &self,
        cq: &NicCq,
        completion: &Completion,
        solicited: bool,
    ) -> Result<(), Overrun> {
        if completion.status != 0 {
            self.qps.with(completion.qp_num, |qp| qp.set_failed());
        }
        cq.cq.push(completion, solicited)
    }

    /// The planes have changed. Any context but NMI.
    pub(super) fn planes_changed(self: &Arc<Self>) {
        self.planes.store(true, Relaxed);
        self.wake();
    }

    fn wake(self: &Arc<Self>) {
        // If it is queued already, then it has yet to run.
        let _ = rdma::work::queue().enqueue(self.clone());
    }
}

impl WorkItem for Nic {
    type Pointer = Arc<Self>;

    /// Does what has come due.
    fn run(this: Arc<Self>) {
        let mut inner = this.inner.lock();
        let leave = this.leave.xchg(false, Full);
        if this.is_dead() || leave {
            this.drain(&mut inner);
        }
        if this.is_dead() {
            // Its unregistration waits for the reference.
            this.forget_netdev();
            inner.ndev = None;
        }
        if this.planes.xchg(false, Full) {
            this.refresh_planes(&mut inner);
        }
        this.reap(&mut inner, hrtimer::now());
    }
}

impl TimerCallback for Nic {
    /// Runs in softirq context.
    fn expired(this: ArcBorrow<'_, Self>) {
        let nic: Arc<Self> = this.into();
        nic.wake();
    }
}
