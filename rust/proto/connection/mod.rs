// SPDX-License-Identifier: GPL-2.0

//! The connection shared by all queue pairs of an endpoint pair.
//!
//! A [`Connection`] owns the paths, the handshake, acknowledgements, NAK bookkeeping, scheduling
//! and timers. All methods are to be called under one lock, with `now` never going backwards by
//! more than the scheduling noise. Every `poll_…`, `next_…` and `pop_…` is to be called until it
//! returns `None`; calling it too often does no harm.
//!
//! After each batch of calls (received packets, sent packets, a timeout) the owner:
//!
//! 1. drains [`Connection::pop_acked`] and credits the streams;
//! 2. sends what [`Connection::poll_nak`], [`Connection::next_retransmit`],
//!    [`Connection::poll_probe`], [`Connection::poll_ack`] and [`Connection::poll_handshake`] give;
//! 3. sends new data while [`Connection::reserve`] gives a path;
//! 4. sets its timer to [`Connection::poll_timeout`];
//! 5. looks at [`Connection::poll_event`].

mod acks;
mod config;
mod event;
mod failure;
mod handshake;
mod mask;
mod naks;
mod planes;
mod scheduler;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;

pub use acks::{AckTx, Verdict};
pub use config::{Config, ConfigError};
pub use event::Event;
pub use handshake::{HandshakeTx, InitOutcome, Intro, State};
pub use mask::MAX_PATHS;
pub use naks::{NakRecord, NakTx};
pub use scheduler::Burst;
pub use stats::{ConnStats, PlaneStats};
pub use timers::ProbeTx;
pub use transmit::Rtx;

use core::marker::PhantomData;
use core::ops::DerefMut;

use crate::congestion::{Controller, Pacer};
use crate::packet::PathId;
use crate::path::{Path, Route, RxStats, TxSlot, TxStats};
use crate::time::{Duration, Instant};
use crate::wire::{PlaneList, MAX_PLANES};
use event::Events;
use handshake::Handshake;
use mask::PathSet;
use naks::Naks;
use scheduler::Scheduler;

/// Storage of one path's slots, e.g. `KVVec<TxSlot>` or `Vec<TxSlot>`.
pub trait Slots: DerefMut<Target = [TxSlot]> {}
impl<T: DerefMut<Target = [TxSlot]>> Slots for T {}

/// Storage of paths.
pub trait Paths<S>: DerefMut<Target = [Path<S>]> {}
impl<S, T: DerefMut<Target = [Path<S>]>> Paths<S> for T {}

/// Storage of NAK records.
pub trait NakStore: DerefMut<Target = [NakRecord]> {}
impl<T: DerefMut<Target = [NakRecord]>> NakStore for T {}

/// A connection. `S` stores the slots of a path, `P` the paths, `N` NAKs that are under way.
///
/// # Invariants
///
/// * `n_paths` is at most [`MAX_PATHS`] and the length of `paths`; 0 until established.
/// * The path sets hold ids below `n_paths` only: `acked` the paths with acknowledged packets to
///   pop, `lost` those with lost packets to pick, `active` those with packets outstanding,
///   `ack_due` and `unreported` those with something to acknowledge, `probe` those that are to
///   send a probe, `open` all that have room for new data, and possibly others.
#[derive(Debug)]
pub struct Connection<S, P, N> {
    cfg: Config,
    handshake: Handshake,
    peer_planes: PlaneList,
    paths: P,
    n_paths: u16,
    /// Paths that the peer is told of, at most [`MAX_PATHS`].
    room: u8,
    naks: Naks<N>,
    acked: PathSet,
    lost: PathSet,
    active: PathSet,
    ack_due: PathSet,
    unreported: PathSet,
    probe: PathSet,
    /// Those that may have room for new data. [`Connection::reserve`] removes a path that has
    /// none, [`Connection::path_mut`] enters it again.
    open: PathSet,
    ack_turn: PathId,
    scheduler: Scheduler,
    /// Last time that the peer acknowledged anything new, or that the connection got busy.
    alive: Instant,
    /// When paths that have left their planes try those again.
    return_at: Option<Instant>,
    /// Attempts at that in a row.
    return_tries: u16,
    /// When a pacer lets data go that it held up.
    paced_until: Option<Instant>,
    /// What was sent against the peer's hint.
    hinted: Pacer,
    rate_hint: u32,
    payload_mtu: u16,
    crc: bool,
    port_counter: u32,
    events: Events,
    stats: ConnStats,
    planes: [PlaneStats; MAX_PLANES],
    /// The least round-trip times on the local planes, zero if unknown.
    plane_rtt: [Duration; MAX_PLANES],
    _slots: PhantomData<fn() -> S>,
}

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// Makes an idle connection. `paths` holds at least [`Config::paths`] paths; `naks` bounds how
    /// many packets can be held or in processing at once: 256, some 11 KB, are plenty; beyond,
    /// packets are dropped ([`crate::path::Rx::Busy`]) and come again.
    pub fn new(cfg: Config, paths: P, naks: N) -> Result<Self, ConfigError> {
        if cfg.local_id == 0 {
            return Err(ConfigError::BadId);
        }
        if cfg.paths() == 0 {
            return Err(ConfigError::NoPath);
        }
        if paths.len() < usize::from(cfg.paths()) {
            return Err(ConfigError::Storage);
        }
        Ok(Connection {
            handshake: Handshake::new(),
            peer_planes: PlaneList::new(),
            paths,
            n_paths: 0,
            // At most `MAX_PATHS`.
            room: u8::try_from(cfg.paths()).unwrap_or(1),
            naks: Naks::new(naks),
            acked: PathSet::default(),
            lost: PathSet::default(),
            active: PathSet::default(),
            ack_due: PathSet::default(),
            unreported: PathSet::default(),
            probe: PathSet::default(),
            open: PathSet::default(),
            ack_turn: PathId(0),
            scheduler: Scheduler::default(),
            alive: Instant::default(),
            return_at: None,
            return_tries: 0,
            paced_until: None,
            hinted: Pacer::default(),
            rate_hint: 0,
            payload_mtu: cfg.payload_mtu,
            crc: cfg.crc,
            port_counter: cfg.seed,
            events: Events::default(),
            stats: ConnStats::default(),
            planes: [PlaneStats::default(); MAX_PLANES],
            plane_rtt: [Duration::ZERO; MAX_PLANES],
            cfg,
            _slots: PhantomData,
        })
    }

    /// The id that the peer uses for this connection.
    pub fn local_id(&self) -> u32 {
        self.cfg.local_id
    }

    /// The id that goes into packets to the peer, 0 until established.
    pub fn peer_id(&self) -> u32 {
        self.handshake.peer_id()
    }

    /// Whether data can flow.
    pub fn established(&self) -> bool {
        self.handshake.state() == State::Established
    }

    /// Largest payload of a data packet, bytes: what both sides take, once established.
    pub fn payload_mtu(&self) -> u16 {
        self.payload_mtu
    }

    /// Whether packets carry the CRC, once established. A packet without it is then dropped, unless
    /// it was on no link.
    pub fn crc(&self) -> bool {
        self.crc
    }

    /// Whether a new packet on `path` is to carry the CRC. What is sent again always does if
    /// [`Connection::crc`] says so.
    pub fn crc_on(&self, path: PathId) -> bool {
        self.crc && !self.path(path).is_some_and(|p| p.tx.is_local())
    }

    /// The rate in kbit/s that the peer's last ACK allots to this side, 0 if none.
    pub fn rate_hint(&self) -> u32 {
        self.rate_hint
    }

    /// Changes the law of congestion control, of all paths; it starts from nothing.
    pub fn set_controller(&mut self, cc: Controller) {
        self.cfg.controller = cc;
        for p in self.paths.iter_mut() {
            p.tx.set_controller(cc);
        }
        (0..self.n_paths).for_each(|i| self.open.insert(PathId(i)));
    }

    /// The law of congestion control that paths start with.
    pub fn controller(&self) -> &Controller {
        &self.cfg.controller
    }

    /// Number of paths in use, 0 until established.
    pub fn n_paths(&self) -> u16 {
        self.n_paths
    }

    /// A path, for its statistics and estimates.
    pub fn path(&self, path: PathId) -> Option<&Path<S>> {
        self.paths
            .get(..usize::from(self.n_paths))?
            .get(usize::from(path.0))
    }

    /// Any change may give it room.
    fn path_mut(&mut self, path: PathId) -> Option<&mut Path<S>> {
        let p = self
            .paths
            .get_mut(..usize::from(self.n_paths))?
            .get_mut(usize::from(path.0))?;
        self.open.insert(path);
        Some(p)
    }

    /// Where packets of a path go just now.
    pub fn route(&self, path: PathId) -> Option<Route> {
        Some(self.path(path)?.tx.route())
    }

    /// The local planes.
    pub fn local_planes(&self) -> &PlaneList {
        &self.cfg.planes
    }

    /// The peer's planes as it announced them, empty until established.
    pub fn peer_planes(&self) -> &PlaneList {
        &self.peer_planes
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Since when packets are outstanding and no path makes progress, or the peer has yet to answer;
    /// `None` while idle. What has been going on for longer than the QPs' retries allow ends their
    /// patience.
    pub fn stalled_since(&self) -> Option<Instant> {
        if self.active.is_empty() && self.established() {
            None
        } else {
            Some(self.alive)
        }
    }

    /// When the peer last acknowledged anything new; when the connection got busy, if that was
    /// later.
    pub fn last_progress(&self) -> Instant {
        self.alive
    }

    /// Whether anything awaits acknowledgement.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    /// Counters of the connection.
    pub fn stats(&self) -> &ConnStats {
        &self.stats
    }

    /// Counters of a local plane.
    pub fn plane_stats(&self, plane: u8) -> Option<&PlaneStats> {
        self.planes.get(usize::from(plane))
    }

    /// The least round-trip time that was seen on a local plane, zero if none was.
    pub fn plane_rtt(&self, plane: u8) -> Duration {
        let rtt = self.plane_rtt.get(usize::from(plane));
        rtt.copied().unwrap_or(Duration::ZERO)
    }

    /// Sums of the sending counters of all paths.
    pub fn tx_totals(&self) -> TxStats {
        let mut t = TxStats::default();
        for p in self.paths.iter() {
            t.add(p.tx.stats());
        }
        t
    }

    /// Sums of the receiving counters of all paths.
    pub fn rx_totals(&self) -> RxStats {
        let mut t = RxStats::default();
        for p in self.paths.iter() {
            t.add(p.rx.stats());
        }
        t
    }

    fn grain(&self) -> Duration {
        self.cfg.timers.granularity
    }

    /// Brings the path sets in line with the path after a change.
    fn refresh(&mut self, path: PathId) {
        let Some(p) = self.path(path) else {
            return;
        };
        let (acked, lost, active, probe) = (
            p.tx.has_acked(),
            p.tx.has_lost(),
            !p.tx.is_idle(),
            p.tx.probe_due(),
        );
        let (due, unreported) = (p.rx.ack_due(), p.rx.unreported());
        self.acked.assign(path, acked);
        self.lost.assign(path, lost);
        self.active.assign(path, active);
        self.probe.assign(path, probe);
        self.ack_due.assign(path, due);
        self.unreported.assign(path, unreported);
    }
}
