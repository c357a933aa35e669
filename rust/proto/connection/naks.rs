// SPDX-License-Identifier: GPL-2.0

//! NAKs for packets that the stream refused, and the packets held for them.
//!
//! A refused packet must not be acknowledged before the peer has the NAK, or the peer's stream
//! could complete the message. So it is held, the NAK goes out as a reliable packet of the other
//! direction, and when that is acknowledged, so is the held packet.

use super::{Connection, NakStore, Paths, Slots};
use crate::bits::Bits256;
use crate::packet::{PathId, TxDesc};
use crate::path::{index, Done, Tx};
use crate::psn::Psn;
use crate::state::{Reader, StateError, Writer};
use crate::time::Instant;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Free,
    /// To be sent.
    Pending,
    /// Sent on this path with this PSN.
    Sent(PathId, Psn),
}

/// A NAK and the packet that waits for it: an element of the caller's storage.
#[derive(Clone, Copy, Debug, Default)]
pub struct NakRecord {
    stage: Stage,
    desc: TxDesc,
    /// The packet that waits for it, if any.
    held: Option<(PathId, Psn)>,
}

/// A NAK to send; it is no different from other data packets, retransmissions included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NakTx {
    /// The path.
    pub path: PathId,
    /// Its sequence fields.
    pub tx: Tx,
    /// Its contents.
    pub desc: TxDesc,
}

#[derive(Debug)]
pub(super) struct Naks<N> {
    records: N,
    pending: u32,
    sent: u32,
    /// Records that packets in processing may yet need.
    promised: u32,
}

impl<N: NakStore> Naks<N> {
    pub(super) fn new(records: N) -> Self {
        let mut naks = Naks {
            records,
            pending: 0,
            sent: 0,
            promised: 0,
        };
        naks.clear();
        naks
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.records.fill(NakRecord::default());
        self.pending = 0;
        self.sent = 0;
        self.promised = 0;
    }
}

impl<N: NakStore> Naks<N> {
    /// The packets of a path that wait for NAKs, by PSN modulo [`crate::path::SPAN`].
    pub(super) fn held_on(&self, path: PathId) -> Bits256 {
        let mut bits = Bits256::EMPTY;
        for r in self.records.iter().filter(|r| r.stage != Stage::Free) {
            if let Some((_, psn)) = r.held.filter(|(on, _)| *on == path) {
                bits.set(index(psn));
            }
        }
        bits
    }

    pub(super) fn save(&self, w: &mut Writer<'_>) -> Option<()> {
        w.number(self.pending + self.sent)?;
        for r in self.records.iter() {
            let sent = match r.stage {
                Stage::Free => continue,
                Stage::Pending => None,
                Stage::Sent(path, psn) => Some((path, psn)),
            };
            w.put(&sent)?;
            w.put(&r.desc)?;
            w.put(&r.held)?;
        }
        Some(())
    }

    pub(super) fn load(&mut self, r: &mut Reader<'_>) -> Result<(), StateError> {
        let n = usize::try_from(r.number()?).map_err(|_| StateError::Mismatch)?;
        let records = self.records.get_mut(..n).ok_or(StateError::Mismatch)?;
        for record in records {
            let sent = r.get()?;
            let (desc, held) = (r.get()?, r.get()?);
            let stage = match sent {
                None => {
                    self.pending += 1;
                    Stage::Pending
                }
                Some((path, psn)) => {
                    self.sent += 1;
                    Stage::Sent(path, psn)
                }
            };
            *record = NakRecord { stage, desc, held };
        }
        Ok(())
    }
}

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// Whether all records are in use or promised.
    pub(super) fn naks_full(&self) -> bool {
        let used = self.naks.pending + self.naks.sent + self.naks.promised;
        usize::try_from(used).is_ok_and(|n| n >= self.naks.records.len())
    }

    /// Sets a record aside for a packet in processing.
    pub(super) fn promise_nak(&mut self) {
        self.naks.promised += 1;
    }

    /// The packet is processed; if it needs the record, it takes it at once. Returns whether it had
    /// one.
    pub(super) fn unpromise(&mut self, path: PathId, psn: Psn) -> bool {
        let had = self.path_mut(path).is_some_and(|p| p.rx.take_promise(psn));
        if had {
            self.naks.promised = self.naks.promised.saturating_sub(1);
        }
        had
    }

    /// Notes a NAK; without room for it the packet is dropped and comes again.
    pub(super) fn hold(&mut self, path: PathId, psn: Psn, desc: TxDesc) -> Done {
        if !self.path(path).is_some_and(|p| p.rx.is_pending(psn)) {
            return Done::Dropped;
        }
        if self.note_nak(desc, Some((path, psn))) {
            Done::Held
        } else {
            Done::Dropped
        }
    }

    /// Queues a NAK for which no packet is held, e.g. for a Read that failed while it ran. Returns
    /// `false` if there is no room; try again after an ACK.
    pub fn queue_nak(&mut self, desc: TxDesc) -> bool {
        if self.naks_full() {
            self.stats.naks_full += 1;
            return false;
        }
        self.note_nak(desc, None)
    }

    fn note_nak(&mut self, desc: TxDesc, held: Option<(PathId, Psn)>) -> bool {
        let mut records = self.naks.records.iter_mut();
        let Some(r) = records.find(|r| r.stage == Stage::Free) else {
            self.stats.naks_full += 1;
            return false;
        };
        *r = NakRecord {
            stage: Stage::Pending,
            desc,
            held,
        };
        self.naks.pending += 1;
        true
    }

    /// The next NAK to send, with its place on a path assigned. As with [`Connection::assign`], it
    /// is handed to the device under the lock. `None` also if no path has room; then again after
    /// an ACK.
    pub fn poll_nak(&mut self, now: Instant) -> Option<NakTx> {
        if self.naks.pending == 0 || !self.established() {
            return None;
        }
        let i = self.most_urgent()?;
        let path = self.nak_path()?;
        let desc = self.naks.records.get(i)?.desc;
        let p = self.path_mut(path)?;
        let tx = p.tx.assign_internal(now, desc)?;
        let route = p.tx.route();
        let r = self.naks.records.get_mut(i)?;
        r.stage = Stage::Sent(path, tx.psn);
        self.naks.pending -= 1;
        self.naks.sent += 1;
        self.stats.naks_sent += 1;
        self.sent(now, path, route, &desc);
        Some(NakTx { path, tx, desc })
    }

    /// The pending NAK whose packet holds up its path the most: the peer's window moves on when
    /// the lowest PSN is released.
    fn most_urgent(&self) -> Option<usize> {
        let pending = |(i, r): (usize, &NakRecord)| {
            if r.stage != Stage::Pending {
                return None;
            }
            let lead = match r.held {
                Some((path, psn)) => psn.ahead_of(self.path(path)?.rx.cum()),
                None => 0,
            };
            Some((lead, i))
        };
        let records = self.naks.records.iter().enumerate();
        records.filter_map(pending).min().map(|(_, i)| i)
    }

    fn nak_path(&self) -> Option<PathId> {
        let load = |i: u16| {
            let path = PathId(i);
            let tx = &self.path(path)?.tx;
            let fit = self.is_usable(path) && tx.room_for_nak();
            fit.then(|| (tx.timeouts(), tx.in_flight(), i))
        };
        let least = (0..self.n_paths).filter_map(load).min()?;
        Some(PathId(least.2))
    }

    /// Packets of `path` were acknowledged: releases what waited for NAKs among them.
    pub(super) fn release_held(&mut self, path: PathId) {
        if self.naks.sent == 0 {
            return;
        }
        for i in 0..self.naks.records.len() {
            let Some(r) = self.naks.records.get(i).copied() else {
                return;
            };
            let Stage::Sent(on, psn) = r.stage else {
                continue;
            };
            if on != path || self.path(path).is_none_or(|p| p.tx.is_outstanding(psn)) {
                continue;
            }
            if let Some(r) = self.naks.records.get_mut(i) {
                r.stage = Stage::Free;
            }
            self.naks.sent -= 1;
            let Some((held_path, held_psn)) = r.held else {
                continue;
            };
            if let Some(p) = self.path_mut(held_path) {
                p.rx.accept(held_psn);
            }
            self.note_rx(held_path);
        }
    }
}
