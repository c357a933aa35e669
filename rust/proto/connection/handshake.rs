// SPDX-License-Identifier: GPL-2.0

//! Set-up, announcement of planes, and end of a connection.
//!
//! Both sides may send INIT at once: each that receives an INIT knows the peer's id, is
//! established, and answers with INIT_ACK. An INIT with another id than the established peer's may
//! be a restarted peer's, a late duplicate, or forged. So it changes nothing by itself: it makes
//! this side probe the peer under the id it knows, and a peer that restarted answers with RESET
//! (compare the challenge ACK of RFC 5961 section 4).

use super::config::path_count;
use super::{Connection, Event, NakStore, Paths, Slots};
use crate::packet::{PathId, Qpn};
use crate::psn::Psn;
use crate::time::{Duration, Instant};
use crate::wire::{Features, Gid, InitHeader, PacketFlags, PlaneList, ResetHeader, ResetReason};

/// Wait before the first repetition of INIT; doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(2);
/// Longest wait before a repetition of INIT.
const RETRY_MAX: Duration = Duration::from_millis(200);
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
    reset_due: Option<ResetReason>,
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
            reset_due: None,
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

    /// Takes an INIT that names a QP of this connection.
    pub fn on_init(&mut self, now: Instant, init: &InitHeader) -> InitOutcome {
        self.stats.inits_received += 1;
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
            local_gid: init.dst_gid,
            peer_gid: init.src_gid,
        };
        self.handshake.ack_due = true;
        outcome
    }

    /// Takes an INIT_ACK that names this connection's id.
    pub fn on_init_ack(&mut self, now: Instant, init: &InitHeader) {
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

    /// Takes a RESET from the peer's address. Returns whether it concerned this connection.
    pub fn on_reset(&mut self, reset: &ResetHeader) -> bool {
        if self.handshake.state != State::Established || reset.conn != self.handshake.peer_id {
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

    /// Tells the peer of a change of the local planes by another INIT.
    pub(super) fn announce(&mut self, now: Instant) {
        if self.handshake.state == State::Established && self.handshake.intro != Intro::default() {
            self.handshake.attempts = 0;
            self.handshake.init_at = Some(now);
        }
    }

    /// The next packet of the handshake that is due; [`Connection::emit_handshake`] writes it. It
    /// always carries the CRC.
    pub fn poll_handshake(&mut self, now: Instant) -> Option<HandshakeTx> {
        if core::mem::take(&mut self.handshake.ack_due) {
            let answer = self.handshake.answer;
            return Some(self.handshake_tx(Kind::InitAck, &answer));
        }
        if let Some(reason) = self.handshake.reset_due.take() {
            let intro = self.handshake.best_intro();
            return Some(self.handshake_tx(Kind::Reset(reason), &intro));
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
        let intro = self.handshake.intro;
        Some(self.handshake_tx(Kind::Init, &intro))
    }

    /// Writes a packet of the handshake with the CRC flag set and the CRC field zero. Returns its
    /// length; `None` if `buf` is too short (512 bytes are enough).
    pub fn emit_handshake(&self, tx: &HandshakeTx, buf: &mut [u8]) -> Option<usize> {
        let h = &self.handshake;
        let (ack, dst_conn, intro) = match tx.kind {
            Kind::Init => (false, 0, h.intro),
            Kind::InitAck => (true, h.peer_id, h.answer),
            Kind::Reset(reason) => {
                let reset = ResetHeader {
                    conn: self.cfg.local_id,
                    reason,
                };
                return reset.emit(h.peer_id, PacketFlags::CRC, buf);
            }
        };
        let features = if self.cfg.crc {
            Features::CRC
        } else {
            Features(0)
        };
        let header = InitHeader {
            src_conn: self.cfg.local_id,
            src_qpn: intro.local_qpn,
            dst_qpn: intro.peer_qpn,
            src_gid: intro.local_gid,
            dst_gid: intro.peer_gid,
            features,
            payload_mtu: self.cfg.payload_mtu,
            paths_per_plane: self.cfg.paths_per_plane,
            planes: self.cfg.planes,
        };
        header.emit(ack, dst_conn, PacketFlags::CRC, buf)
    }

    /// Leaves from the plane that the QP's own GID is on: other planes may not reach the peer's.
    /// If that is down, and the peer's other addresses are known, from one that is up: the peer is
    /// to hear of just that.
    fn handshake_tx(&self, kind: Kind, intro: &Intro) -> HandshakeTx {
        let index = |list: &PlaneList, gid: Gid| {
            let at = list.as_slice().iter().position(|p| p.gid == gid);
            at.and_then(|i| u8::try_from(i).ok())
        };
        let local_plane = index(&self.cfg.planes, intro.local_gid).unwrap_or(0);
        let usual = HandshakeTx {
            kind,
            local_plane,
            remote: intro.peer_gid,
        };
        let peer_plane = index(&self.peer_planes, intro.peer_gid);
        if peer_plane.is_none_or(|r| self.pair_up((local_plane, r))) {
            return usual;
        }
        let detour = self.any_pair_up().and_then(|(local_plane, r)| {
            let remote = self.peer_planes.get(r)?.gid;
            Some(HandshakeTx {
                kind,
                local_plane,
                remote,
            })
        });
        detour.unwrap_or(usual)
    }

    fn establish(&mut self, now: Instant, peer: &InitHeader) {
        self.handshake.state = State::Established;
        self.handshake.peer_id = peer.src_conn;
        self.handshake.init_at = None;
        self.peer_planes = peer.planes;
        self.payload_mtu = self.cfg.payload_mtu.min(peer.payload_mtu);
        self.crc = self.cfg.crc || peer.features.has(Features::CRC);
        let room = u16::try_from(self.paths.len()).unwrap_or(u16::MAX);
        let n = self
            .cfg
            .paths()
            .min(path_count(&peer.planes, peer.paths_per_plane.max(1)))
            .min(room);
        self.n_paths = n;
        for i in 0..n {
            let path = PathId(i);
            let route = self.home_route(path);
            let tx_first = first_psn(peer.src_conn, path);
            let rx_first = first_psn(self.cfg.local_id, path);
            let (cc, grain) = (self.cfg.controller, self.cfg.timers.granularity);
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
        let mut changed = false;
        for i in 0..self.peer_planes.len() {
            if let (Some(old), Some(new)) = (self.peer_planes.get_mut(i), peer.planes.get(i)) {
                changed |= old.up != new.up;
                old.up = new.up;
                old.speed = new.speed;
            }
        }
        if changed {
            self.settle_routes(now);
        }
    }
}

impl Handshake {
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
