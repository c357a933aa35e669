// SPDX-License-Identifier: GPL-2.0

//! The state of a connection, for somebody else to go on with.

use super::{Connection, Intro, NakStore, Paths, Slots};
use crate::congestion::Window;
use crate::packet::PathId;
use crate::state::{Reader, StateError, Writer};
use crate::time::Instant;
use crate::wire::PlaneList;

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// Writes what the peer relies on. `None` if there is no room, or no peer.
    ///
    /// Whoever saves it does nothing with the connection any more, lest there be two.
    pub fn save(&self, w: &mut Writer<'_>) -> Option<()> {
        if !self.established() {
            return None;
        }
        w.put(&self.cfg.local_id)?;
        self.handshake.save(w)?;
        w.put(&self.peer_planes)?;
        w.put(&self.payload_mtu)?;
        w.put(&self.crc)?;
        w.put(&self.room)?;
        w.put(&self.port_counter)?;
        w.put(&self.n_paths)?;
        for i in 0..self.n_paths {
            let path = self.path(PathId(i))?;
            path.tx.save(w)?;
            path.rx.save(w, self.naks.held_on(PathId(i)))?;
        }
        self.naks.save(w)
    }

    /// Goes on from a state. The connection must be new, or abandoned, with the id of the one that was saved, and
    /// storage for as many paths. Events tell of nothing; all paths begin with a small window.
    ///
    /// # Errors
    ///
    /// What is wrong with the state. The connection is of no use then.
    pub fn load(&mut self, now: Instant, r: &mut Reader<'_>) -> Result<(), StateError> {
        if r.get::<u32>()? != self.cfg.local_id {
            return Err(StateError::Mismatch);
        }
        let peer_id = r.get()?;
        let intro = r.get::<Intro>()?;
        let answer = r.get::<Intro>()?;
        let (revision, peer_revision) = (r.get()?, r.get()?);
        self.peer_planes = r.get::<PlaneList>()?;
        self.payload_mtu = r.get()?;
        self.crc = r.get()?;
        self.room = r.get()?;
        self.port_counter = r.get()?;
        let n = r.get::<u16>()?;
        if n == 0 || usize::from(n) > self.paths.len() || n > super::MAX_PATHS {
            return Err(StateError::Mismatch);
        }
        self.n_paths = n;
        self.handshake
            .adopt(peer_id, (intro, answer), (revision, peer_revision));
        self.scheduler.start_at(self.cfg.seed, n);
        let share = super::handshake::FIRST_FLIGHT / u32::from(n);
        for i in 0..n {
            let path = PathId(i);
            let (mut cc, grain) = (self.cfg.controller, self.cfg.timers.granularity);
            cc.start_with(Window::packets(share.max(1)));
            let p = self.path_mut(path).ok_or(StateError::Mismatch)?;
            p.tx.load(r, cc)?;
            p.tx.set_granularity(grain);
            p.rx.load(r)?;
        }
        self.naks.load(r)?;
        self.alive = now;
        for i in 0..n {
            self.refresh(PathId(i));
        }
        Ok(())
    }
}
