// SPDX-License-Identifier: GPL-2.0

//! Sending data and sending it again.

use super::{Connection, NakStore, Paths, Slots};
use crate::packet::{PathId, TxDesc};
use crate::path::{Acked, Route, Tx};
use crate::psn::Psn;
use crate::time::Instant;

/// A packet that is to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtx {
    /// Its path.
    pub path: PathId,
    /// Its PSN.
    pub psn: Psn,
    /// What it was; if that no longer exists, a Void packet takes its place.
    pub desc: TxDesc,
}

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// Gives a new packet its place on `path`. `last`: nothing more follows in this burst, so the
    /// packet asks for an acknowledgement. `None` if the path has no room: [`Connection::reserve`]
    /// again.
    ///
    /// The packet is to be handed to the device before the connection's lock is released, so that
    /// the path stays in order.
    pub fn assign(&mut self, now: Instant, path: PathId, desc: TxDesc, last: bool) -> Option<Tx> {
        let p = self.path_mut(path)?;
        let tx = p.tx.assign(now, desc, last)?;
        let route = p.tx.route();
        self.sent(now, path, route, &desc);
        Some(tx)
    }

    /// Accounts for a first transmission.
    pub(super) fn sent(&mut self, now: Instant, path: PathId, route: Route, desc: &TxDesc) {
        let len = desc.payload_len();
        let speed = self.pair_speed(route.local_plane, route.remote_plane);
        self.scheduler.charge(route.local_plane, len, speed);
        self.charge_hint(now, len);
        if let Some(s) = self.planes.get_mut(usize::from(route.local_plane)) {
            s.packets += 1;
            s.bytes += u64::from(len);
        }
        if self.active.is_empty() {
            self.alive = now;
        }
        self.active.insert(path);
    }

    /// The next packet to be sent again, path by path in PSN order, as far as their windows allow. Each is offered once: it must
    /// be sent ([`Connection::retransmit`]) or given back ([`Connection::put_back`]). Several can
    /// be taken before the first is sent.
    pub fn next_retransmit(&mut self) -> Option<Rtx> {
        if !self.established() {
            return None;
        }
        for path in self.lost {
            if !self.is_usable(path) {
                // It waits for a plane.
                continue;
            }
            let picked = self.path_mut(path).and_then(|p| p.tx.pick_lost());
            self.refresh(path);
            if let Some((psn, desc)) = picked {
                return Some(Rtx { path, psn, desc });
            }
        }
        None
    }

    /// The packet goes out again now. `None` if that is no longer needed: drop what was built. As
    /// with [`Connection::assign`], it is handed to the device under the lock.
    pub fn retransmit(&mut self, now: Instant, path: PathId, psn: Psn) -> Option<Tx> {
        let mtu = u32::from(self.payload_mtu);
        let p = self.path_mut(path)?;
        let tx = p.tx.retransmit(now, psn);
        let plane = p.tx.route().local_plane;
        self.refresh(path);
        let tx = tx?;
        if let Some(s) = self.planes.get_mut(usize::from(plane)) {
            s.retransmits += 1;
        }
        // Not held up by the hint, but what follows is.
        self.charge_hint(now, mtu);
        Some(tx)
    }

    /// A packet from [`Connection::next_retransmit`] cannot be sent now; it will be offered again.
    pub fn put_back(&mut self, path: PathId, psn: Psn) {
        if let Some(p) = self.path_mut(path) {
            p.tx.unpick(psn);
        }
        self.refresh(path);
    }

    /// A packet that the peer acknowledged, each once. Until they are popped,
    /// their places in the paths stay taken.
    pub fn pop_acked(&mut self) -> Option<Acked> {
        for path in self.acked {
            let acked = self.path_mut(path).and_then(|p| p.tx.pop_acked());
            if acked.is_some() {
                return acked;
            }
            self.acked.assign(path, false);
        }
        None
    }
}
