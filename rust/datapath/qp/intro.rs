// SPDX-License-Identifier: GPL-2.0

//! How the queue pairs of two hosts find each other: INIT names both, and what their applications
//! have told them.

use super::{
    super::{
        conn::Conn,
        foreign::Foreign, //
    },
    Locked,
    Qp,
    QpInner, //
};
use crate::rdma::qp::QpState;
use kernel::sync::Arc;
use proto::{
    packet::Qpn,
    wire::{
        InitHeader,
        Token, //
    },
};

impl Qp {
    /// Introduces a connection to the peer by this queue pair.
    pub(in crate::datapath) fn introduce(&self, inner: &Locked<'_>, conn: &Conn) {
        let peer = Qpn(inner.attr.dest_qp_num);
        conn.introduce(Qpn(self.qpn()), peer, inner.token());
    }

    /// Returns the connection that INIT asks for, if it is from the queue pair that this one is
    /// connected to.
    pub(in crate::datapath) fn conn_for(&self, init: &InitHeader) -> Option<Arc<Conn>> {
        let inner = self.inner.lock();
        let receives = !matches!(inner.state, QpState::Reset | QpState::Init | QpState::Error);
        (receives && inner.is_introduced_by(init)).then(|| inner.conn.clone())?
    }

    /// Returns the connection at a device that an INIT is for, as [`Self::conn_for`] does.
    pub(in crate::datapath) fn foreign_for(&self, init: &InitHeader) -> Option<Arc<Foreign>> {
        let inner = self.inner.lock();
        inner
            .is_introduced_by(init)
            .then(|| inner.foreign.clone())?
    }
}

impl QpInner {
    /// By what the peer knows this queue pair.
    fn token(&self) -> Token {
        let expected = self.state == QpState::ReadyToReceive;
        let psn = match expected {
            true => self.attr.rq_psn,
            false => self.attr.sq_psn,
        };
        Token { psn, expected }
    }

    /// Whether an INIT is from the queue pair that this one is connected to, and its sender knows
    /// what the application has told the two.
    fn is_introduced_by(&self, init: &InitHeader) -> bool {
        let Token { psn, expected } = init.token;
        let numbered = match self.state {
            // What it is going to number its requests from is not known yet.
            QpState::ReadyToReceive if expected => false,
            _ if expected => self.attr.sq_psn == psn,
            _ => self.attr.rq_psn == psn,
        };
        numbered
            && self.attr.dest_qp_num == init.src_qpn.0
            && self.attr.address.dgid.0 == init.src_gid.0
    }
}
