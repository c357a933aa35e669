// SPDX-License-Identifier: GPL-2.0

//! What a queue pair wants that is not as for all of the device. If it is about the connection, it
//! then has one for itself, to which the peer's follows, see [`super::depart`].

use super::{
    conn::Settings,
    plane::PlaneInfo,
    qp::Qp, //
};
use crate::rdma::qp::{
    QpState,
    QpType, //
};
use kernel::prelude::*;
use proto::{
    congestion::Controller,
    wire::Gid, //
};

/// Departures from what holds for all; [`None`] where there is none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wishes {
    /// Planes that may be used, bits by number.
    pub(crate) planes: Option<u8>,
    /// From 1 on.
    pub(crate) paths_per_plane: Option<u8>,
    /// The law of congestion control, in its initial state.
    pub(crate) law: Option<Controller>,
    /// Whether the last bytes of Writes of the peer come last, see [`super::order`]; nothing to the
    /// connection.
    pub(crate) last_byte: Option<bool>,
}

impl Wishes {
    /// Whether there is none for the connection.
    pub(crate) fn is_empty(&self) -> bool {
        self.planes.is_none() && self.paths_per_plane.is_none() && self.law.is_none()
    }

    /// Whether a connection with the ones is as good as one with the others.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let law = |wishes: &Self| wishes.law.map(|law| law.name());
        (self.planes, self.paths_per_plane, law(self))
            == (other.planes, other.paths_per_plane, law(other))
    }

    /// Adds those of `new`.
    fn add(&mut self, new: &Self) {
        self.planes = new.planes.or(self.planes);
        self.paths_per_plane = new.paths_per_plane.or(self.paths_per_plane);
        self.law = new.law.or(self.law);
        self.last_byte = new.last_byte.or(self.last_byte);
    }

    /// Changes what a new connection is made with; `all` are the planes that are used otherwise.
    pub(super) fn apply(&self, settings: &mut Settings, all: u8) {
        if let Some(n) = self.paths_per_plane {
            settings.transport.paths_per_plane = n;
        }
        settings.law = self.law.unwrap_or(settings.law);
        self.restrict(&mut settings.planes, all);
    }

    /// Makes unusable what of the planes is not wanted, or not of `all` if it does not matter. They
    /// keep their places: a plane has the same number at both ends.
    pub(super) fn restrict(&self, planes: &mut [PlaneInfo], all: u8) {
        let wanted = self.planes.unwrap_or(all);
        for (i, plane) in planes.iter_mut().enumerate() {
            if wanted & 1 << i == 0 {
                plane.gid = Gid::default();
                plane.up = false;
            }
        }
    }
}

/// What there is to know about a queue pair's connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct ConnFacts {
    /// 0 if there is none.
    pub(crate) id: u32,
    /// It is the queue pair's alone.
    pub(crate) is_own: bool,
    pub(crate) is_established: bool,
    /// Bits by number: those that have an address, and those that are up.
    pub(crate) planes: u8,
    pub(crate) planes_up: u8,
    /// 0 until the peer has answered.
    pub(crate) paths: u16,
    pub(crate) law: Option<&'static str>,
}

impl Qp {
    /// Has the queue pair's connection, when it is made, be as `new` says. The law can be changed later
    /// on, too, if the connection is the queue pair's own.
    ///
    /// Errors: `EOPNOTSUPP` if it is not a reliable queue pair; `EINVAL` if it is too late.
    pub(crate) fn wish(&self, new: &Wishes) -> Result {
        if self.service != QpType::Rc {
            return Err(EOPNOTSUPP);
        }
        let conn = {
            let mut inner = self.inner.lock();
            let early = matches!(inner.state, QpState::Reset | QpState::Init);
            let at_most_law =
                new.planes.is_none() && new.paths_per_plane.is_none() && new.last_byte.is_none();
            let own = inner.conn.clone().filter(|conn| conn.key().owner != 0);
            let in_time = early || (at_most_law && (own.is_some() || new.law.is_none()));
            if !in_time {
                return Err(EINVAL);
            }
            inner.wishes.add(new);
            own
        };
        if let (Some(conn), Some(law)) = (conn, new.law) {
            conn.set_law(law, true);
        }
        Ok(())
    }

    /// Returns what the queue pair wants, and what it has.
    pub(crate) fn facts(&self) -> (Wishes, ConnFacts) {
        let (wishes, conn) = {
            let inner = self.inner.lock();
            (inner.wishes, inner.conn.clone())
        };
        (wishes, conn.map_or_else(ConnFacts::default, |c| c.facts()))
    }

    /// Whether it wants something that only software does.
    pub(crate) fn has_wishes(&self) -> bool {
        let wishes = self.inner.lock().wishes;
        !wishes.is_empty() || wishes.last_byte == Some(true)
    }
}
