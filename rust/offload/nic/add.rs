// SPDX-License-Identifier: GPL-2.0

//! What a device is given: memory regions, completion queues, queue pairs.

use super::{
    super::{
        abi::{
            RawCq,
            RawMr,
            RawQp,
            RawRing,
            Shared, //
        },
        caps::Needs,
        counters::Count,
        front::Front,
        objects::{
            to_raw_attr,
            NicConn,
            NicCq,
            NicQp, //
        },
        site::Site,
    },
    Inner,
    Nic, //
};
use crate::{
    datapath::{
        cq::Cq,
        handover::{
            Parts,
            Ring, //
        },
        mr::Mr, //
    },
    rdma::qp::QpAttr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

/// A queue pair on offer.
pub(in super::super) struct Offer<'a> {
    pub(in super::super) front: &'a Arc<Front>,
    pub(in super::super) site: &'a Arc<Site>,
    pub(in super::super) qpn: u32,
    pub(in super::super) parts: Parts,
    pub(in super::super) cqs: [&'a Arc<Cq>; 2],
    pub(in super::super) attr: &'a QpAttr,
    pub(in super::super) needs: Needs,
    /// If the device goes, software may go on.
    pub(in super::super) may_move: bool,
    /// What the device is to go on from.
    pub(in super::super) state: Option<&'a [u8]>,
}

impl Nic {
    /// Offers a queue pair to the device. Process context.
    ///
    /// Errors: what the device says, `ENODEV` if it is dead, `ENOSPC` beyond its limits,
    /// `EOPNOTSUPP` beyond its capabilities.
    pub(in super::super) fn add(self: &Arc<Self>, offer: Offer<'_>) -> Result {
        let mut inner = self.inner.lock();
        if self.is_dead() {
            return Err(ENODEV);
        }
        offer.needs.check(&self.caps)?;
        let import = bindings::metaroce_ofl_flags_METAROCE_OFL_CAP_IMPORT;
        if offer.state.is_some() && self.caps.flags & import == 0 {
            return Err(EOPNOTSUPP);
        }
        if inner.qps.len() >= self.caps.max_qp as usize {
            return Err(ENOSPC);
        }
        self.attach(&mut inner, offer.site)?;
        let [send, recv] = offer.cqs;
        let send = self.use_cq(&mut inner, send)?;
        let recv = self
            .use_cq(&mut inner, recv)
            .inspect_err(|_| self.release_cq(&mut inner, &send))?;
        let cqs = [send, recv];
        let release = |inner: &mut Inner| cqs.iter().for_each(|cq| self.release_cq(inner, cq));
        let conn = self
            .connect(&mut inner, &offer)
            .inspect_err(|_| release(&mut inner))?;
        let added = self.add_on(&mut inner, offer, &conn, cqs.clone());
        added.inspect_err(|_| {
            self.disconnect(&mut inner, &conn);
            release(&mut inner);
        })
    }

    /// Adds a queue pair whose connection and queues are there.
    pub(super) fn add_on(
        self: &Arc<Self>,
        inner: &mut Inner,
        offer: Offer<'_>,
        conn: &Arc<NicConn>,
        cqs: [Arc<NicCq>; 2],
    ) -> Result {
        inner.qps.reserve(1, GFP_KERNEL)?;
        let foreign = NicConn::entry(conn)?;
        let imported = offer.state.is_some();
        let endpoint = &offer.site.endpoint;
        endpoint.claim(conn.id, foreign.clone(), imported)?;
        conn.claimed.store(true, Relaxed);
        let [send, recv] = &cqs;
        let raw = RawQp {
            drv: core::ptr::null_mut(),
            qpn: offer.qpn,
            pd: offer.parts.pd,
            signal_all: offer.parts.signal_all,
            conn: conn.raw.get(),
            send_cq: send.raw.get(),
            recv_cq: recv.raw.get(),
            sq: to_raw_ring(&offer.parts.sq),
            rq: offer
                .parts
                .rq
                .as_ref()
                .map_or_else(RawRing::default, to_raw_ring),
            attr: to_raw_attr(offer.attr),
            state: offer.state.map_or(core::ptr::null(), |s| s.as_ptr().cast()),
            state_len: offer.state.map_or(0, <[u8]>::len),
        };
        let parts = (offer.parts, offer.may_move);
        let qp = NicQp::new(raw, offer.front, (self, conn), cqs, parts)?;
        self.qps.insert(offer.qpn, qp.clone())?;
        self.op_qp_add(&qp).inspect_err(|_| {
            drop(self.qps.remove(offer.qpn));
        })?;
        inner
            .qps
            .push_within_capacity(qp.clone())
            .map_err(|_| ENOMEM)?;
        qp.forget_state();
        offer.front.give(offer.attr, qp, foreign);
        offer.site.counts.inc(Count::Add);
        offer.site.counts.inc(Count::Active);
        Ok(())
    }

    /// Makes the regions of an RDMA device known, unless they are.
    ///
    /// Errors: `EOPNOTSUPP` while another one has the device, or that one has another device.
    pub(super) fn attach(self: &Arc<Self>, inner: &mut Inner, site: &Arc<Site>) -> Result {
        match &inner.site {
            Some(other) if !Arc::ptr_eq(other, site) => return Err(EOPNOTSUPP),
            Some(_) => {}
            None => {
                site.begin(self)?;
                inner.site = Some(site.clone());
                inner.lacks_mrs = true;
            }
        }
        // Those that come from here on are announced.
        if inner.lacks_mrs {
            site.endpoint
                .mrs()
                .try_for_each(|mr| self.add_mr(inner, mr))?;
            inner.lacks_mrs = false;
        }
        Ok(())
    }

    /// Makes a region known, unless it is.
    pub(super) fn add_mr(&self, inner: &mut Inner, mr: &Mr) -> Result {
        let key = mr.key();
        if inner.mrs.get(&key).is_some() {
            return Ok(());
        }
        let (va, length, access, umem) = mr.parts();
        // No device can be told when pages go that are not pinned, or has been attached to a dma-buf.
        let Some((pages, offset)) = umem.raw_pages()? else {
            // The kernel's memory: no queue pair of a process can name it.
            return Ok(());
        };
        if inner.n_mrs >= self.caps.max_mr {
            return Err(ENOSPC);
        }
        inner.mrs.try_create_and_insert(key, (), GFP_KERNEL)?;
        let raw = RawMr {
            key,
            pd: mr.pd(),
            va,
            length,
            access,
            // CAST: Less than the size of a page.
            offset: offset as u32,
            n_pages: pages.len(),
            pages: pages.as_ptr(),
        };
        self.op_mr_add(&raw).inspect_err(|_| {
            inner.mrs.remove(&key);
        })?;
        inner.n_mrs += 1;
        Ok(())
    }

    pub(super) fn use_cq(&self, inner: &mut Inner, cq: &Arc<Cq>) -> Result<Arc<NicCq>> {
        if let Some(known) = inner.cqs.iter().find(|known| Arc::ptr_eq(&known.cq, cq)) {
            known.users.fetch_add(1, Relaxed);
            return Ok(known.clone());
        }
        if inner.cqs.len() >= self.caps.max_cq as usize {
            return Err(ENOSPC);
        }
        inner.cqs.reserve(1, GFP_KERNEL)?;
        let raw = RawCq {
            drv: core::ptr::null_mut(),
            entries: cq.entries(),
        };
        let cq = NicCq {
            raw: Shared::new(raw),
            cq: cq.clone(),
            users: Atomic::new(1),
        };
        let cq = Arc::new(cq, GFP_KERNEL)?;
        self.op_cq_add(&cq)?;
        inner
            .cqs
            .push_within_capacity(cq.clone())
            .map_err(|_| ENOMEM)?;
        Ok(cq)
    }

    /// A region was registered. Process context.
    ///
    /// Errors: what the device says.
    pub(in super::super) fn mr_added(&self, site: &Arc<Site>, mr: &Mr) -> Result {
        let mut inner = self.inner.lock();
        match &inner.site {
            Some(own) if Arc::ptr_eq(own, site) && !self.is_dead() => {}
            _ => return Ok(()),
        }
        match self.add_mr(&mut inner, mr) {
            // Nobody needs it there; a queue pair that comes brings all regions.
            Err(_) if inner.qps.is_empty() => {
                inner.lacks_mrs = true;
                Ok(())
            }
            added => added,
        }
    }
}

fn to_raw_ring(ring: &Ring) -> RawRing {
    RawRing {
        va: ring.mem.base().as_ptr().cast(),
        size: ring::Shared::len(&ring.mem),
        entries: ring.geometry.entries(),
        stride: ring.geometry.stride(),
        first: ring.first,
    }
}
