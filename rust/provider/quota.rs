// SPDX-License-Identifier: GPL-2.0

//! How many objects of each kind a device has.

use crate::datapath::limits;
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

/// A kind of object whose number is limited.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Ah,
    Cq,
    Qp,
    Mr,
    Mw,
    Srq,
}

/// Numbers of objects that exist.
#[derive(Default)]
pub(super) struct Quotas {
    ah: Count,
    cq: Count,
    qp: Count,
    mr: Count,
    mw: Count,
    srq: Count,
}

struct Count(Atomic<u32>);

impl Default for Count {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

impl Quotas {
    fn of(&self, kind: Kind) -> (&Atomic<u32>, u32) {
        match kind {
            Kind::Ah => (&self.ah.0, limits::MAX_AH),
            Kind::Cq => (&self.cq.0, limits::MAX_CQ),
            Kind::Qp => (&self.qp.0, limits::MAX_QP),
            Kind::Mr => (&self.mr.0, limits::MAX_MR),
            Kind::Mw => (&self.mw.0, limits::MAX_MW),
            Kind::Srq => (&self.srq.0, limits::MAX_SRQ),
        }
    }
}

/// The right to have one object.
pub(super) struct Permit {
    quotas: Arc<Quotas>,
    kind: Kind,
}

impl Permit {
    /// Takes the right to one more object of a kind.
    ///
    /// Errors: `ENOMEM`, as verbs want it, if there are as many as there may be.
    pub(super) fn new(quotas: &Arc<Quotas>, kind: Kind) -> Result<Self> {
        let (count, max) = quotas.of(kind);
        if count.fetch_add(1, Relaxed) >= max {
            count.fetch_sub(1, Relaxed);
            return Err(ENOMEM);
        }
        Ok(Self {
            quotas: quotas.clone(),
            kind,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.quotas.of(self.kind).0.fetch_sub(1, Relaxed);
    }
}
