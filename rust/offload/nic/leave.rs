// SPDX-License-Identifier: GPL-2.0

//! How a device loses what it had: piece by piece, or all at once.

use super::{
    super::{
        counters::Count,
        objects::{
            NicCq,
            NicQp, //
        },
        site::Site, //
    },
    conns::LINGER_NS,
    Inner,
    Nic, //
};
use crate::{
    datapath::handover::TakeBack,
    sync::{
        hrtimer,
        work, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// What became of a queue pair whose state the device was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Exported {
    /// The device goes on with it.
    Stays,
    /// Software goes on with it.
    Moved,
    /// The device does nothing any more, and software could not take it.
    StandsStill,
}

impl Nic {
    pub(super) fn release_cq(&self, inner: &mut Inner, cq: &Arc<NicCq>) {
        if cq.users.fetch_sub(1, Relaxed) == 1 {
            self.op_cq_del(cq);
            inner.cqs.retain(|other| !Arc::ptr_eq(other, cq));
        }
    }

    /// Takes a queue pair from the device; `moved`: software has gone on with it.
    pub(super) fn release(&self, inner: &mut Inner, qp: &Arc<NicQp>, how: TakeBack, moved: bool) {
        qp.close();
        // Waits for those who are ringing.
        drop(self.qps.remove(qp.front.qpn()));
        self.op_qp_del(qp);
        inner.qps.retain(|other| !Arc::ptr_eq(other, qp));
        for cq in &qp.cqs {
            self.release_cq(inner, cq);
        }
        if moved {
            // Its number is another one's now.
            self.disconnect(inner, &qp.conn);
        } else {
            let ends = hrtimer::now().saturating_add(LINGER_NS);
            qp.conn.ends.store(ends, Relaxed);
            self.timer.arm_by(ends);
        }
        let lost = how == TakeBack::Lost && !qp.has_failed() && !moved;
        if !moved {
            qp.front.take_back(match how {
                TakeBack::Lost if !lost => TakeBack::Failed,
                how => how,
            });
        }
        if let Some(site) = &inner.site {
            site.counts.inc(Count::Del);
            site.counts.dec(Count::Active);
            if lost {
                site.counts.inc(Count::Lost);
            }
        }
    }

    /// Has software go on with a queue pair, if that can be.
    pub(super) fn export(&self, inner: &Inner, qp: &Arc<NicQp>) -> Exported {
        let Some(site) = &inner.site else {
            return Exported::Stays;
        };
        // What has failed answers nothing.
        if !qp.may_move || qp.has_failed() || self.faulted.load(Relaxed) {
            return Exported::Stays;
        }
        let saved = || {
            // CAST: A small constant.
            let size = bindings::METAROCE_OFL_STATE_MAX as usize;
            let mut buf = KVVec::from_elem(0u8, size, GFP_KERNEL)?;
            let len = self.op_qp_export(qp, &mut buf)?;
            Ok::<_, Error>((buf, len))
        };
        let exported = match saved() {
            Err(_) => Exported::Stays,
            Ok((buf, len)) => {
                // Until the device has let go of the connection, packets for it are dropped.
                let resume = |state| qp.front.resume(state);
                match buf.get(..len).ok_or(EINVAL).and_then(resume) {
                    Ok(()) => Exported::Moved,
                    Err(_) => Exported::StandsStill,
                }
            }
        };
        site.counts.inc(match exported {
            Exported::Moved => Count::Exported,
            _ => Count::NotExported,
        });
        exported
    }

    /// Takes a queue pair from the device, for its user resets or destroys it. Process context.
    pub(in super::super) fn remove(&self, qp: &Arc<NicQp>) {
        let mut inner = self.inner.lock();
        if qp.open.load(Relaxed) {
            self.release(&mut inner, qp, TakeBack::Discard, false);
        }
    }

    /// Has software go on with a queue pair, if that can be; else the device does. Process context.
    pub(in super::super) fn hand_back(&self, qp: &Arc<NicQp>) {
        let mut inner = self.inner.lock();
        if !qp.open.load(Relaxed) {
            return;
        }
        match self.export(&inner, qp) {
            Exported::Stays => {}
            Exported::Moved => self.release(&mut inner, qp, TakeBack::Discard, true),
            // Nobody would do anything for it any more.
            Exported::StandsStill => self.release(&mut inner, qp, TakeBack::Lost, false),
        }
    }

    /// A region was deregistered. Process context.
    pub(in super::super) fn mr_removed(&self, key: u32) {
        let mut inner = self.inner.lock();
        if inner.mrs.remove(&key).is_some() {
            inner.n_mrs -= 1;
            self.op_mr_del(key);
        }
    }

    /// Takes everything from the device.
    pub(super) fn drain(&self, inner: &mut Inner) {
        if let (Some(site), false) = (&inner.site, inner.qps.is_empty()) {
            site.counts.inc(Count::Fault);
        }
        while let Some(qp) = inner.qps.first().cloned() {
            let moved = self.export(inner, &qp) == Exported::Moved;
            self.release(inner, &qp, TakeBack::Lost, moved);
        }
        while let Some(conn) = inner.conns.first().cloned() {
            self.disconnect(inner, &conn);
        }
        for key in core::mem::take(&mut inner.mrs).keys() {
            self.op_mr_del(*key);
        }
        inner.n_mrs = 0;
        if let Some(site) = inner.site.take() {
            site.end(self);
        }
    }

    /// Nothing more is added; what there is goes soon. Any context but NMI.
    pub(in super::super) fn kill(self: &Arc<Self>) {
        self.dead.store(true, Relaxed);
        self.wake();
    }

    /// As above, and nothing is to be expected of the device. Any context but NMI.
    pub(in super::super) fn fault(self: &Arc<Self>) {
        self.faulted.store(true, Relaxed);
        self.kill();
    }

    /// The RDMA device goes away: it is left soon. Any context but NMI.
    pub(in super::super) fn leave_soon(self: &Arc<Self>) {
        self.leave.store(true, Relaxed);
        self.wake();
    }

    /// Takes everything of an RDMA device from the device. Process context, the RTNL is not held.
    pub(in super::super) fn leave(&self, site: &Arc<Site>) {
        let mut inner = self.inner.lock();
        if inner
            .site
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, site))
        {
            self.drain(&mut inner);
        }
    }

    /// Takes everything from the device for good; the driver is called no more on return. Process
    /// context, the RTNL is not held.
    pub(in super::super) fn end(self: &Arc<Self>) {
        self.dead.store(true, Relaxed);
        {
            let mut inner = self.inner.lock();
            self.drain(&mut inner);
            inner.ndev = None;
        }
        self.timer.stop();
        work::cancel_sync(self);
    }
}
