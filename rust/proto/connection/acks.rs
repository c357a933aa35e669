// SPDX-License-Identifier: GPL-2.0

//! Receiving data, and acknowledgements of both directions.

use super::{Connection, NakStore, Paths, Slots};
use crate::packet::{PathId, TxDesc};
use crate::path::{AckOutcome, Arrival, Done, Received, Route, Rx};
use crate::psn::Psn;
use crate::time::{Duration, Instant};
use crate::wire::{
    AckBlock, AckHeader, DataHeader, PacketFlags, ProbeHeader, ACK_FIXED_LEN, MAX_ACK_BLOCKS,
    MAX_HEADER_LEN,
};

/// What the stream decided about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Placed, or discarded on purpose.
    Accept,
    /// Refused: the packet stays unacknowledged until the peer has this NAK. Only requests can be
    /// refused; for anything else this is the same as [`Verdict::Accept`].
    Refuse(TxDesc),
}

/// An ACK to send: the first `blocks` of the caller's array, over `route`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTx {
    /// How many blocks were filled in.
    pub blocks: usize,
    /// The route to take.
    pub route: Route,
    /// Whether to set [`PacketFlags::LOCAL`].
    pub local: bool,
}

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// Takes note of a data packet's arrival and tells whether to process it.
    ///
    /// Every [`Rx::New`] is followed by [`Connection::rx_done`] or [`Connection::rx_abort`], after
    /// the lock was released in between or not. Until then the packet is reported as held, and for
    /// a request there is room for a NAK: a stream that refuses changes its state, so the refusal
    /// must not fail afterwards.
    pub fn rx_check(
        &mut self,
        now: Instant,
        h: &DataHeader,
        flags: PacketFlags,
        arrival: Arrival,
    ) -> Rx {
        let received = Received {
            now,
            psn: h.psn,
            stamp: h.stamp,
            route_epoch: h.route_epoch,
            ack_req: flags.has(PacketFlags::ACK_REQ),
            arrival,
        };
        let request = h.fields.opcode.is_request();
        let full = self.naks_full();
        let Some(p) = self.path_mut(h.path) else {
            self.stats.bad_path += 1;
            return Rx::Outside;
        };
        if request && full && p.rx.is_new(h.psn) {
            self.stats.naks_full += 1;
            return Rx::Busy;
        }
        let rx = p.rx.check(&received);
        if request && rx == Rx::New {
            p.rx.promise(h.psn);
            self.promise_nak();
        }
        self.note_rx(h.path);
        rx
    }

    /// Reports what became of a new packet.
    pub fn rx_done(&mut self, path: PathId, psn: Psn, verdict: Verdict) -> Done {
        let request = self.unpromise(path, psn);
        let done = match verdict {
            Verdict::Refuse(desc) if request => self.hold(path, psn, desc),
            _ => Done::Acked,
        };
        let Some(p) = self.path_mut(path) else {
            return Done::Dropped;
        };
        match done {
            Done::Acked => p.rx.accept(psn),
            Done::Held => p.rx.hold(psn),
            Done::Dropped => p.rx.abort(psn),
        }
        self.note_rx(path);
        done
    }

    /// A new packet could not be processed, e.g. for want of memory: the peer will send it again.
    pub fn rx_abort(&mut self, path: PathId, psn: Psn) {
        self.unpromise(path, psn);
        if let Some(p) = self.path_mut(path) {
            p.rx.abort(psn);
        }
        self.note_rx(path);
    }

    /// A probe arrived.
    pub fn on_probe(&mut self, now: Instant, h: &ProbeHeader, arrival: Arrival) {
        match self.path_mut(h.path) {
            Some(p) => p.rx.probe(now, h.stamp, h.route_epoch, arrival),
            None => self.stats.bad_path += 1,
        }
        self.note_rx(h.path);
    }

    /// An ACK arrived. Afterwards there may be packets to pop and to send again.
    pub fn on_ack(&mut self, now: Instant, ack: &AckHeader<'_>) {
        self.stats.acks_received += 1;
        self.rate_hint = ack.rate_hint;
        for block in ack.blocks() {
            self.on_ack_block(now, &block);
            if let Some(p) = self.path_mut(block.path) {
                p.tx.note_local(&block, ack.local);
            }
        }
    }

    /// Takes one block of an ACK; [`Connection::on_ack`] does so for all.
    pub fn on_ack_block(&mut self, now: Instant, block: &AckBlock) -> AckOutcome {
        let plane = self.route(block.path).map_or(0, |r| r.local_plane);
        let known = self.plane_rtt.get(usize::from(plane)).copied();
        let Some(p) = self.path_mut(block.path) else {
            self.stats.bad_path += 1;
            return AckOutcome::default();
        };
        p.tx.set_plane_rtt(known.unwrap_or(Duration::ZERO));
        let stalled = p.tx.timeouts() > 0;
        let out = p.tx.on_ack(now, block);
        if out.progress || out.acked > 0 {
            if stalled && now.since(self.alive) >= self.cfg.timers.rto_patient {
                self.wake_others(now, block.path);
            }
            self.alive = now;
        }
        // A sample that takes the path to another plane is that plane's.
        let plane = self.route(block.path).map_or(0, |r| r.local_plane);
        if let (Some(rtt), Some(least)) = (out.rtt, self.plane_rtt.get_mut(usize::from(plane))) {
            if *least == Duration::ZERO || rtt < *least {
                *least = rtt;
            }
        }
        if out.moved {
            self.came_home(block.path);
        }
        if out.acked > 0 {
            self.release_held(block.path);
        }
        self.refresh(block.path);
        out
    }

    /// Fills `blocks` for an ACK, if one is due: first the paths for which it is, then others with
    /// something new to tell. To be called at the end of each batch of received packets and after
    /// [`Connection::on_ack`].
    pub fn poll_ack(&mut self, now: Instant, blocks: &mut [AckBlock]) -> Option<AckTx> {
        if self.ack_due.is_empty() {
            return None;
        }
        let first = self.ack_due.first_from(self.ack_turn)?;
        let route = self.ack_route(first)?;
        let mut n = 0;
        let mut local = true;
        let mut len = ACK_FIXED_LEN;
        let mut due = self.ack_due;
        let mut rest = self.unreported.or(due).without(due);
        let slots = blocks.iter_mut().take(MAX_ACK_BLOCKS);
        for slot in slots {
            let from = self.ack_turn;
            let Some(path) = due.first_from(from).or_else(|| rest.first_from(from)) else {
                break;
            };
            due.assign(path, false);
            rest.assign(path, false);
            let block = self
                .path_mut(path)
                .and_then(|p| Some((p.rx.is_local(), p.rx.report(now, path)?)));
            let Some((is_local, block)) = block else {
                self.note_rx(path);
                continue;
            };
            local &= is_local;
            *slot = block;
            len += block.wire_len();
            n += 1;
            self.note_rx(path);
            self.ack_turn = PathId(path.0.wrapping_add(1));
            // The next one may be as long as a block gets.
            if len + 20 + 64 > MAX_HEADER_LEN {
                break;
            }
        }
        if n == 0 {
            return None;
        }
        self.stats.acks_sent += 1;
        // CAST: widening.
        self.stats.ack_blocks_sent += n as u64;
        Some(AckTx {
            blocks: n,
            route,
            local,
        })
    }

    /// ACKs of a path go back on the route of the path of the same number, or, once they seem to get
    /// lost there, on that of another. If that is down, on any that is up.
    fn ack_route(&self, path: PathId) -> Option<Route> {
        let detour = u32::from(self.path(path)?.rx.ack_detour());
        let n = u32::from(self.n_paths);
        let route = (0..n).find_map(|k| {
            let i = (u32::from(path.0) + detour + k).checked_rem(n)?;
            let candidate = PathId(u16::try_from(i).ok()?);
            let usable = self.is_usable(candidate);
            usable.then(|| self.route(candidate)).flatten()
        });
        route.or_else(|| self.route(path))
    }

    pub(super) fn note_rx(&mut self, path: PathId) {
        if let Some(p) = self.path(path) {
            let (due, unreported) = (p.rx.ack_due(), p.rx.unreported());
            self.ack_due.assign(path, due);
            self.unreported.assign(path, unreported);
        }
    }
}
