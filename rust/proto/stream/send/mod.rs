// SPDX-License-Identifier: GPL-2.0

//! The requester half of a connected queue pair.

mod lossy;
mod queue;
mod receive;
mod state;
mod timeout;
mod transmit;

use core::num::NonZeroU32;
use core::ops::DerefMut;

use super::message::{SendMsg, SendOp, State};
use super::{before, nonzero_mtu, ring_index, ring_size, WcStatus, MSG_WINDOW};
use crate::packet::{DataFields, Qpn};
use crate::psn::{Msn, Rsn};
use crate::time::Instant;

/// Attributes of a send stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendConfig {
    /// The local QP.
    pub qpn: Qpn,
    /// The QP it is connected to.
    pub peer_qpn: Qpn,
    /// Payload bytes per packet; must be the peer's.
    pub mtu: u32,
    /// Number of the first message.
    pub sq_psn: u32,
    /// Most Reads and atomics outstanding at the peer.
    pub max_rd_atomic: u32,
    /// Transport retries (3 bits).
    pub retry_cnt: u8,
    /// RNR retries (3 bits), 7 is infinite.
    pub rnr_retry: u8,
    /// Local ACK timeout exponent (5 bits), 0 is infinite; see [`local_ack_timeout`].
    pub ack_timeout: u8,
    /// Whether messages that the peer refuses, or does not answer, are dropped without a word (UC).
    pub unreliable: bool,
}

/// The message ring has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// A finished work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// From [`SendWork::cookie`].
    pub cookie: u32,
    /// How it ended.
    pub status: WcStatus,
    /// What it was.
    pub op: SendOp,
    /// Its length in bytes.
    pub byte_len: u32,
}

/// A packet of a request, to be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPacket {
    /// Header fields.
    pub fields: DataFields,
    /// The work request whose buffers hold the payload.
    pub cookie: u32,
    /// Start of the payload in the buffer list.
    pub offset: u32,
    /// Length of the payload.
    pub len: u32,
}

/// What to do with a response packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseTarget {
    /// Copy the payload to `offset` of the buffer list of work request `cookie`, then call
    /// [`SendStream::response_placed`].
    Place {
        /// From [`SendWork::cookie`].
        cookie: u32,
        /// Byte offset in the buffer list.
        offset: u32,
    },
    /// Write the 8 bytes of `original`, in host order, to the buffer list of work request `cookie`,
    /// then call [`SendStream::response_placed`].
    Atomic {
        /// From [`SendWork::cookie`].
        cookie: u32,
        /// The value that the responder found.
        original: u64,
    },
    /// There is nothing to write; call [`SendStream::response_placed`].
    Nothing,
    /// Nothing waits for it.
    Ignore,
    /// It does not fit the request, which now ends with this status
    /// ([`SendStream::fail_message`] has been applied).
    Mismatch(WcStatus),
}

/// A message that is not to be sent before a wait is over.
#[derive(Clone, Copy, Debug)]
struct Hold {
    /// Ring position of the message.
    pos: u32,
    /// End of the wait; `None` when it is over.
    until: Option<Instant>,
}

/// The message that ends the stream.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// Ring position of the message.
    pos: u32,
    status: WcStatus,
}

/// The requester half of a connected queue pair.
///
/// Transmission takes two steps, so that nothing is lost if no path has room:
/// [`next_segment`](Self::next_segment) shows the next packet, and [`commit`](Self::commit) takes
/// it off once the connection has given it a PSN. [`packet`](Self::packet) tells how to build it,
/// now and for each retransmission.
///
/// After anything that can make progress (`commit`, `on_acked`, `on_nak`, `response_placed`,
/// `local_done`, `on_timeout`, `post`, `fail`) drain [`pop_completed`](Self::pop_completed), look at
/// [`next_local`](Self::next_local) and `next_segment` again, and arm a timer for
/// [`poll_timeout`](Self::poll_timeout). Spurious calls do no harm.
///
/// # Invariants
///
/// In ring order `una <= head <= cursor <= started <= next`, and every message before `head` is
/// done.
#[derive(Debug)]
pub struct SendStream<B> {
    ring: B,
    size: u32,
    cfg: SendConfig,
    mtu: NonZeroU32,
    /// Oldest message not handed out by `pop_completed`.
    una: u32,
    /// Oldest message not done.
    head: u32,
    /// Message to be sent next.
    cursor: u32,
    /// Bytes of it already sent.
    cursor_offset: u32,
    /// End of what was ever sent, in part or in full.
    started: u32,
    /// End of what is posted.
    next: u32,
    next_msn: Msn,
    next_rsn: Rsn,
    /// Epoch of what is sent for the first time.
    epoch: u16,
    /// Epoch that the stream began with.
    first_epoch: u16,
    /// Reads and atomics between `head` and `cursor` that are not done.
    reads: u32,
    hold: Option<Hold>,
    /// Ring position of the message that begins the stream anew at the peer, see [`lossy`].
    restart: Option<u32>,
    failure: Option<Failure>,
    /// The failing message is handed out; everything else is flushed.
    flushing: bool,
    draining: bool,
    /// RNR NAKs and NotReady NAKs for the message at `head`.
    rnr_tries: u8,
    tries: u8,
    /// When the peer was last heard of, or was last given a reason to answer.
    progress: Instant,
    /// When a try was last found to have passed in silence, and how many since `progress`.
    looked: Instant,
    silent_tries: u8,
}

impl<B: DerefMut<Target = [SendMsg]>> SendStream<B> {
    /// Makes a stream on `storage`, of which the largest power of two, up to [`MSG_WINDOW`], is
    /// used.
    pub fn new(storage: B, cfg: SendConfig) -> Self {
        let size = ring_size(storage.len(), MSG_WINDOW);
        let mut stream = SendStream {
            ring: storage,
            size,
            cfg,
            mtu: nonzero_mtu(cfg.mtu),
            una: 0,
            head: 0,
            cursor: 0,
            cursor_offset: 0,
            started: 0,
            next: 0,
            next_msn: Msn(0),
            next_rsn: Rsn(0),
            epoch: 0,
            first_epoch: 0,
            reads: 0,
            hold: None,
            restart: None,
            failure: None,
            flushing: false,
            draining: false,
            rnr_tries: 0,
            tries: 0,
            progress: Instant(0),
            looked: Instant(0),
            silent_tries: 0,
        };
        stream.reset(cfg);
        stream
    }

    /// Forgets everything and starts as new with `cfg`, as when the QP goes through RESET.
    ///
    /// Paths still have packets of the life before. Should the application use the same PSN again,
    /// only their epoch tells them from those to come, so the new life begins above the old one.
    /// New receive streams take that, as epochs stay in the lower half of the numbers, from 0.
    pub fn reset(&mut self, cfg: SendConfig) {
        if self.started != 0 {
            self.epoch = self.epoch.wrapping_add(1);
        }
        if self.epoch >= 1 << 14 {
            self.epoch = 0;
        }
        self.first_epoch = self.epoch;
        for msg in self.ring.iter_mut() {
            *msg = SendMsg::default();
        }
        self.cfg = cfg;
        self.mtu = nonzero_mtu(cfg.mtu);
        self.una = 0;
        self.head = 0;
        self.cursor = 0;
        self.cursor_offset = 0;
        self.started = 0;
        self.next = 0;
        self.next_msn = Msn(cfg.sq_psn);
        self.next_rsn = Rsn(0);
        self.reads = 0;
        self.hold = None;
        self.restart = cfg.unreliable.then_some(0);
        self.failure = None;
        self.flushing = false;
        self.draining = false;
        self.rnr_tries = 0;
        self.tries = 0;
        self.progress = Instant(0);
        self.looked = Instant(0);
        self.silent_tries = 0;
    }

    /// The attributes.
    pub fn config(&self) -> &SendConfig {
        &self.cfg
    }

    /// Changes what `modify_qp` may change of a QP in use: the retry counts, the timeout and
    /// `max_rd_atomic` of `cfg` apply from now on, the rest of it is ignored.
    pub fn set_limits(&mut self, cfg: &SendConfig) {
        self.cfg.max_rd_atomic = cfg.max_rd_atomic;
        self.cfg.retry_cnt = cfg.retry_cnt;
        self.cfg.rnr_retry = cfg.rnr_retry;
        self.cfg.ack_timeout = cfg.ack_timeout;
    }

    /// Sets the payload bytes per packet, once the connection knows them. Has no effect, and
    /// returns false, after anything was sent.
    pub fn set_mtu(&mut self, mtu: u32) -> bool {
        if self.started != 0 {
            return self.cfg.mtu == mtu;
        }
        self.cfg.mtu = mtu;
        self.mtu = nonzero_mtu(mtu);
        true
    }

    /// Whether the peer has taken nothing so far.
    pub fn is_untouched(&self) -> bool {
        let counted = |msg: &SendMsg| msg.counted != 0 && msg.state == State::Sent;
        self.head == 0 && !self.ring.iter().any(counted)
    }

    // The ring.

    fn at(&self, pos: u32) -> Option<&SendMsg> {
        self.ring.get(ring_index(pos, self.size))
    }

    fn at_mut(&mut self, pos: u32) -> Option<&mut SendMsg> {
        let index = ring_index(pos, self.size);
        self.ring.get_mut(index)
    }

    /// Ring position of outstanding message `msn`.
    fn find(&self, msn: Msn) -> Option<u32> {
        let pos = self.at(msn.0)?.pos_of_msn;
        if pos.wrapping_sub(self.una) >= self.next.wrapping_sub(self.una) {
            return None;
        }
        let msg = self.at(pos)?;
        (msg.op != SendOp::Local && msg.msn == msn).then_some(pos)
    }

    /// Whether the stream ends with the message at `pos` or before it.
    fn ended_before(&self, pos: u32) -> bool {
        self.flushing || self.failure.is_some_and(|f| !before(pos, f.pos))
    }

    /// Ends the stream at `pos` unless it ends earlier already.
    fn set_failure(&mut self, pos: u32, status: WcStatus) {
        if self.ended_before(pos) || before(pos, self.head) {
            return;
        }
        self.failure = Some(Failure { pos, status });
    }

    /// Moves `head` and `cursor` over what is done, and finds out what is broken.
    fn settle(&mut self) {
        if self.flushing {
            return;
        }
        while self.head != self.next
            && !self.ended_before(self.head)
            && self.at(self.head).is_some_and(|m| m.state == State::Done)
        {
            self.leave_restart();
            self.head = self.head.wrapping_add(1);
            self.rnr_tries = 0;
            self.tries = 0;
        }
        if before(self.cursor, self.head) {
            self.cursor = self.head;
            self.cursor_offset = 0;
        }
        while self.cursor != self.next {
            match self.at(self.cursor).map(|m| m.state) {
                Some(State::Done) => {
                    self.cursor = self.cursor.wrapping_add(1);
                    self.cursor_offset = 0;
                }
                Some(State::Broken(status)) => {
                    self.set_failure(self.cursor, status);
                    break;
                }
                _ => break,
            }
        }
        if before(self.started, self.cursor) {
            self.started = self.cursor;
        }
    }
}

#[cfg(test)]
impl<B: DerefMut<Target = [SendMsg]>> SendStream<B> {
    /// Checks the invariants of the type.
    pub(in crate::stream) fn assert_invariants(&self) {
        let from_una = |pos: u32| pos.wrapping_sub(self.una);
        assert!(from_una(self.head) <= from_una(self.cursor));
        assert!(from_una(self.cursor) <= from_una(self.started));
        assert!(from_una(self.started) <= from_una(self.next));
        assert!(from_una(self.next) <= self.size);
        let done = |pos: u32| self.at(pos).is_some_and(|m| m.state == State::Done);
        assert!((0..from_una(self.head)).all(|i| done(self.una.wrapping_add(i))));
        let reads = (0..self.cursor.wrapping_sub(self.head))
            .filter_map(|i| self.at(self.head.wrapping_add(i)))
            .filter(|m| m.op.has_response() && m.state == State::Sent)
            .count();
        assert_eq!(u32::try_from(reads).ok(), Some(self.reads));
    }
}
