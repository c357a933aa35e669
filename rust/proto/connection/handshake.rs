// SPDX-License-Identifier: GPL-2.0

//! Set-up, announcement of planes, and end of a connection.
//!
//! Both sides may send INIT at once: each that receives an INIT knows the peer's id, is
//! established, and answers with INIT_ACK. An INIT with another id than the established peer's may
//! be a restarted peer's, a late duplicate, or forged. So it changes nothing by itself: it makes
//! this side probe the peer under the id it knows, and a peer that restarted answers with RESET
//! (compare the challenge ACK of RFC 5961 section 4).
//!
//! A connection is shared by all QPs of two endpoints, or has one pair of QPs of its own (a NIC may
//! have it). The two kinds never become peers: to an INIT of a shared one, the other answers with
//! its own INIT, and whoever gets that on a shared connection makes one for the QP alone.

use super::mask::PathSet;
use super::{Connection, Event, NakStore, Paths, Slots};
use crate::congestion::Window;
use crate::packet::{PathId, Qpn};
use crate::psn::Psn;
use crate::state::Writer;
use crate::time::{Duration, Instant};
use crate::wire::{Features, Gid, InitHeader, PacketFlags, Plane, ResetHeader, ResetReason, Token};

/// Wait before the first repetition of INIT; doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(2);
/// Longest wait before a repetition of INIT.
const RETRY_MAX: Duration = Duration::from_millis(200);
/// Packets that a connection starts with, on all of its paths together. A window for each would be
/// several bandwidth-delay products where paths are many and round trips short.
pub(super) const FIRST_FLIGHT: u32 = 64;
/// Repetitions of an INIT that only announces a change of planes.
const ANNOUNCE_TRIES: u32 = 8;

/// State of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing was sent yet; an INIT of the peer is welcome.
    #[default]
    Idle,
    /// INIT is being sent.
    Connecting,
    /// Data can flow.
    Established,
    /// Over, by either side; nothing is sent or accepted any more.
    Closed,
}

/// The pair of QPs by which the peers recognise each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intro {
    /// A local QP.
    pub local_qpn: Qpn,
    /// The peer's QP that it is connected to.
    pub peer_qpn: Qpn,
    /// By what the peer knows that the two belong together. Says nothing in an answer.
    pub token: Token,
    /// GID of the local QP.
    pub local_gid: Gid,
    /// GID of the peer's QP.
    pub peer_gid: Gid,
}

/// What an INIT did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitOutcome {
    /// The connection is established by it; an INIT_ACK is due.
    Established,
    /// The peer is known already; its planes were noted, an INIT_ACK is due.
    Known,
    /// Another id than the peer's: a probe is due that will tell whether the peer restarted.
    Challenged,
    /// The peer's connection is for the named QP only, and this one is shared: the QP needs one of
    /// its own.
    Apart,
    /// The peer's connection is shared, and this one is not: the peer is told so by an INIT.
    Shared,
    /// The connection is closed.
    Closed,
}

/// A packet of the handshake to send, see [`Connection::emit_handshake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeTx {
    kind: Kind,
    /// Index of the local plane to send from.
    pub local_plane: u8,
    /// Address to send to.
    pub remote: Gid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Init,
    InitAck,
    Reset(ResetReason),
}

#[derive(Debug)]
pub(super) struct Handshake {
    state: State,
    peer_id: u32,
    intro: Intro,
    /// Whom to answer: the QP pair of the last INIT.
    answer: Intro,
    attempts: u32,
    /// When INIT is (next) to be sent, `None` if not.
    init_at: Option<Instant>,
    ack_due: bool,
    /// INIT_ACKs sent so far: they take turns between the ways.
    answers: u32,
    reset_due: Option<ResetReason>,
    /// Number of the list of local planes, and of that of the peer's which was noted last.
    revision: u8,
    peer_revision: u8,
}

impl Handshake {
    pub(super) fn new() -> Self {
        Handshake {
            state: State::Idle,
            peer_id: 0,
            intro: Intro::default(),
            answer: Intro::default(),
            attempts: 0,
            init_at: None,
            ack_due: false,
            answers: 0,
            reset_due: None,
            revision: 0,
            peer_revision: 0,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn peer_id(&self) -> u32 {
        self.peer_id
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.init_at
    }

    fn end(&mut self) {
        self.state = State::Closed;
        self.init_at = None;
        self.ack_due = false;
    }
}

impl<S: Slots, P: Paths<S>, N: NakStore> Connection<S, P, N> {
    /// State of the handshake.
    pub fn state(&self) -> State {
        self.handshake.state
    }

    /// Starts to connect, introduced by a pair of QPs. While that is under way, later INITs name
    /// this pair: the peer may not have the QP of the earlier one ready. Without effect after that.
    pub fn start(&mut self, now: Instant, intro: Intro) {
        if self.handshake.state == State::Connecting {
            self.handshake.intro = intro;
        }
        if self.handshake.state != State::Idle {
            return;
        }
        self.handshake.state = State::Connecting;
        self.handshake.intro = intro;
        self.handshake.attempts = 0;
        self.handshake.init_at = Some(now);
    }

    /// Takes an INIT that names a QP of this connection, or its id.
    pub fn on_init(&mut self, now: Instant, init: &InitHeader) -> InitOutcome {
        self.stats.inits_received += 1;
        if self.differs(init) && self.handshake.state != State::Closed {
            if !self.cfg.own {
                return InitOutcome::Apart;
            }
            if self.handshake.state == State::Connecting {
                self.handshake.init_at = Some(now);
            }
            return InitOutcome::Shared;
        }
        let outcome = match self.handshake.state {
            State::Closed => return InitOutcome::Closed,
            State::Established if init.src_conn != self.handshake.peer_id => {
                self.stats.challenges += 1;
                if let Some(p) = self.path_mut(PathId(0)) {
                    p.tx.request_probe();
                }
                self.refresh(PathId(0));
                return InitOutcome::Challenged;
            }
            State::Established => {
                self.note_peer_planes(now, init);
                InitOutcome::Known
            }
            State::Idle | State::Connecting => {
                self.establish(now, init);
                InitOutcome::Established
            }
        };
        self.handshake.answer = Intro {
            local_qpn: init.dst_qpn,
            peer_qpn: init.src_qpn,
            token: Token::default(),
            local_gid: init.dst_gid,
            peer_gid: init.src_gid,
        };
        self.handshake.ack_due = true;
        outcome
    }

    /// Takes an INIT_ACK that names this connection's id.
    pub fn on_init_ack(&mut self, now: Instant, init: &InitHeader) {
        if self.differs(init) {
            return;
        }
        match self.handshake.state {
            State::Connecting => self.establish(now, init),
            State::Established if init.src_conn == self.handshake.peer_id => {
                // Answers an announcement, or is a duplicate.
                self.handshake.init_at = None;
                self.note_peer_planes(now, init);
            }
            _ => {}
        }
    }

    /// Whether one side has the connection for one pair of QPs only, and the other has not.
    fn differs(&self, init: &InitHeader) -> bool {
        init.features.has(Features::OWN) != self.cfg.own
    }

    /// Takes a RESET that came from address `from`. Returns whether it concerned this connection:
    /// the id is the peer's, and so is the address.
    pub fn on_reset(&mut self, reset: &ResetHeader, from: Gid) -> bool {
        let mut planes = self.peer_planes.as_slice().iter();
        if self.handshake.state != State::Established
            || reset.conn != self.handshake.peer_id
            || planes.all(|p| p.gid != from)
        {
            return false;
        }
        self.stats.resets_received += 1;
        self.events.push(match reset.reason {
            ResetReason::UnknownId => Event::PeerRestarted,
            ResetReason::Closing | ResetReason::Other(_) => Event::PeerClosed,
        });
        self.handshake.end();
        true
    }

    /// Ends the connection. If the peer is known, a RESET is due.
    pub fn close(&mut self) {
        if self.handshake.state == State::Established {
            self.handshake.reset_due = Some(ResetReason::Closing);
        }
        self.handshake.end();
    }

    /// Stands still for ever: somebody else goes on with the connection, see
    /// [`Connection::save`]. The peer is told nothing, and what it sends is dropped.
    pub fn abandon(&mut self) {
        self.handshake.end();
        self.n_paths = 0;
        self.acked = PathSet::default();
        self.lost = PathSet::default();
        self.active = PathSet::default();
        self.ack_due = PathSet::default();
        self.unreported = PathSet::default();
        self.probe = PathSet::default();
        self.naks.clear();
    }

    /// Tells the peer of a change of the local planes by another INIT.
    pub fn announce(&mut self, now: Instant) {
        self.handshake.revision = self.handshake.revision.wrapping_add(1);
        if self.handshake.state == State::Established {
            self.handshake.attempts = 0;
            self.handshake.init_at = Some(now);
        }
    }

    /// The next packet of the handshake that is due; [`Connection::emit_handshake`] writes it. It
    /// always carries the CRC.
    pub fn poll_handshake(&mut self, now: Instant) -> Option<HandshakeTx> {
        if core::mem::take(&mut self.handshake.ack_due) {
            let answer = self.handshake.answer;
            let n = self.handshake.answers;
            self.handshake.answers = n.wrapping_add(1);
            return Some(self.handshake_tx(Kind::InitAck, &answer, n));
        }
        if let Some(reason) = self.handshake.reset_due.take() {
            let intro = self.handshake.best_intro();
            return Some(self.handshake_tx(Kind::Reset(reason), &intro, 0));
        }
        if self.handshake.init_at? > now {
            return None;
        }
        let n = self.handshake.attempts;
        if self.established() && n >= ANNOUNCE_TRIES {
            self.handshake.init_at = None;
            return None;
        }
        let wait = RETRY_FIRST.saturating_mul(1 << n.min(16)).min(RETRY_MAX);
        self.handshake.attempts = n.saturating_add(1);
        self.handshake.init_at = Some(now.after(wait));
        self.stats.inits_sent += 1;
        let intro = self.handshake.best_intro();
        Some(self.handshake_tx(Kind::Init, &intro, n))
    }

    /// Writes a packet of the handshake with the CRC flag set and the CRC field zero. Returns its
    /// length; `None` if `buf` is too short (512 bytes are enough).
    pub fn emit_handshake(&self, tx: &HandshakeTx, buf: &mut [u8]) -> Option<usize> {
        let h = &self.handshake;
        let (ack, dst_conn, intro) = match tx.kind {
            // 0 until the peer is known. The queue pairs may be gone when it is, and others use the
            // connection: then the id is what counts.
            Kind::Init => (false, h.peer_id, h.best_intro()),
            Kind::InitAck => (true, h.peer_id, h.answer),
            Kind::Reset(reason) => {
                let reset = ResetHeader {
                    conn: self.cfg.local_id,
                    reason,
                };
                return reset.emit(h.peer_id, PacketFlags::CRC, buf);
            }
        };
        let feature = |wanted: bool, f: Features| if wanted { f.0 } else { 0 };
        let features =
            Features(feature(self.cfg.crc, Features::CRC) | feature(self.cfg.own, Features::OWN));
        let header = InitHeader {
            src_conn: self.cfg.local_id,
            src_qpn: intro.local_qpn,
            dst_qpn: intro.peer_qpn,
            token: intro.token,
            src_gid: intro.local_gid,
            dst_gid: intro.peer_gid,
            features,
            payload_mtu: self.cfg.payload_mtu,
            paths: self.room,
            revision: h.revision,
            planes: self.cfg.planes,
        };
        header.emit(ack, dst_conn, PacketFlags::CRC, buf)
    }

    /// The `n`-th try goes between the GIDs of the QPs if `n` is even, for the planes may be
    /// separate fabrics, and nothing else is known of a peer at first; else, and if one of these
    /// planes is down, it goes by another.
    fn handshake_tx(&self, kind: Kind, intro: &Intro, n: u32) -> HandshakeTx {
        let direct = self.direct(intro);
        let other = || self.detour(intro, n / 2);
        let (local_plane, remote) = match direct {
            Some(way) if n % 2 == 0 => way,
            Some(way) => other().unwrap_or(way),
            None => other().unwrap_or((0, intro.peer_gid)),
        };
        HandshakeTx {
            kind,
            local_plane,
            remote,
        }
    }

    /// From the plane of the one GID to the other GID, unless either is known to be down.
    fn direct(&self, intro: &Intro) -> Option<(u8, Gid)> {
        let up = |p: &&Plane, gid| p.up && p.gid == gid;
        let own = self.cfg.planes.as_slice().iter();
        let own = own.zip(0..).find(|(p, _)| up(p, intro.local_gid))?.1;
        let mut peer = self.peer_planes.as_slice().iter();
        let known = !self.peer_planes.is_empty();
        (!known || peer.any(|p| up(&p, intro.peer_gid))).then_some((own, intro.peer_gid))
    }

    /// Another way, the `k`-th: that of a path, and to a peer whose planes are not known yet, from
    /// any plane that is up.
    fn detour(&self, intro: &Intro, k: u32) -> Option<(u8, Gid)> {
        let nth = |len: u32| k.checked_rem(len).and_then(|i| usize::try_from(i).ok());
        if self.established() {
            let usable = || (0..self.n_paths).map(PathId).filter(|p| self.is_usable(*p));
            let path = usable().nth(nth(u32::try_from(usable().count()).ok()?)?)?;
            let route = self.route(path)?;
            return Some((
                route.local_plane,
                self.peer_planes.get(route.remote_plane)?.gid,
            ));
        }
        let others = || {
            let planes = self.cfg.planes.as_slice().iter().zip(0u8..);
            planes.filter(|(p, _)| {
                p.up && p.gid != intro.local_gid && p.gid.is_v4() == intro.peer_gid.is_v4()
            })
        };
        let (_, plane) = others().nth(nth(u32::try_from(others().count()).ok()?)?)?;
        Some((plane, intro.peer_gid))
    }

    fn establish(&mut self, now: Instant, peer: &InitHeader) {
        self.handshake.state = State::Established;
        self.handshake.peer_id = peer.src_conn;
        self.handshake.init_at = None;
        self.handshake.peer_revision = peer.revision;
        self.peer_planes = peer.planes;
        self.payload_mtu = self.cfg.payload_mtu.min(peer.payload_mtu);
        self.crc = self.cfg.crc || peer.features.has(Features::CRC);
        let room = u16::try_from(self.paths.len()).unwrap_or(u16::MAX);
        let n = u16::from(self.room)
            .min(u16::from(peer.paths.max(1)))
            .min(room);
        self.n_paths = n;
        // Not all connections begin on the same plane.
        self.scheduler.start_at(self.cfg.seed, n);
        for i in 0..n {
            let path = PathId(i);
            let route = self.home_route(path);
            let tx_first = first_psn(peer.src_conn, path);
            let rx_first = first_psn(self.cfg.local_id, path);
            let (mut cc, grain) = (self.cfg.controller, self.cfg.timers.granularity);
            let share = FIRST_FLIGHT.checked_div(u32::from(n)).unwrap_or(1);
            cc.start_with(Window::packets(share.max(1)));
            if let Some(p) = self.path_mut(path) {
                p.restart(tx_first, rx_first, route, cc);
                p.tx.set_granularity(grain);
            }
        }
        for i in 0..n {
            self.settle_route(now, PathId(i));
        }
        self.alive = now;
        self.events.push(Event::Established);
    }

    fn note_peer_planes(&mut self, now: Instant, peer: &InitHeader) {
        let ahead = peer.revision.wrapping_sub(self.handshake.peer_revision);
        // An INIT that is late tells of planes as they were (RFC 1982 arithmetic).
        if ahead >= 1 << 7 {
            return;
        }
        self.handshake.peer_revision = peer.revision;
        if self.peer_planes != peer.planes {
            self.peer_planes = peer.planes;
            self.settle_routes(now);
        }
    }
}

impl Handshake {
    /// Goes on where somebody else has left off, with the peer known.
    pub(super) fn adopt(
        &mut self,
        peer_id: u32,
        (intro, answer): (Intro, Intro),
        (revision, peer_revision): (u8, u8),
    ) {
        self.state = State::Established;
        self.peer_id = peer_id;
        self.intro = intro;
        self.answer = answer;
        self.revision = revision;
        self.peer_revision = peer_revision;
        self.init_at = None;
    }

    pub(super) fn save(&self, w: &mut Writer<'_>) -> Option<()> {
        w.put(&self.peer_id)?;
        w.put(&self.intro)?;
        w.put(&self.answer)?;
        w.put(&self.revision)?;
        w.put(&self.peer_revision)
    }

    fn best_intro(&self) -> Intro {
        if self.intro == Intro::default() {
            self.answer
        } else {
            self.intro
        }
    }
}

/// PSN of the first packet on a path towards the connection id `dst`: both sides can compute it,
/// and it starts anywhere, so that wrapping around is nothing special.
fn first_psn(dst: u32, path: PathId) -> Psn {
    // 2^32 / golden ratio: spreads the paths over the number space.
    Psn(dst ^ u32::from(path.0).wrapping_mul(0x9e37_79b9))
}
