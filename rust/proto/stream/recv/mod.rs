// SPDX-License-Identifier: GPL-2.0

//! The responder half of a connected queue pair.

mod deliver;
mod order;
mod request;
mod respond;
mod state;
mod verdict;

use core::num::NonZeroU32;
use core::ops::DerefMut;

pub use self::order::Tail;
pub use self::verdict::{Delivery, Received, Refusal, Target, Verdict};
use super::{
    epoch_before, nonzero_mtu, ring_index, ring_size, MsgSlot, Response, WcStatus, MSG_WINDOW,
};
use crate::packet::{DataFields, Qpn, StreamFlags};
use crate::psn::{Msn, Rsn};

/// What the peer may do to registered memory through a QP (IBTA 1.4, 10.2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteAccess {
    /// RDMA Write.
    pub write: bool,
    /// RDMA Read.
    pub read: bool,
    /// Atomics.
    pub atomic: bool,
    /// Flush.
    pub flush: bool,
}

/// Attributes of a receive stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecvConfig {
    /// The local QP.
    pub qpn: Qpn,
    /// The QP it is connected to.
    pub peer_qpn: Qpn,
    /// Payload bytes per packet; must be the peer's.
    pub mtu: u32,
    /// Number of the first message.
    pub rq_psn: u32,
    /// Most Reads and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u32,
    /// RNR timer code (5 bits) for RNR NAKs.
    pub min_rnr_timer: u8,
    /// What the peer may do.
    pub access: RemoteAccess,
    /// Whether the peer's stream drops what is refused (UC).
    pub unreliable: bool,
    /// Whether the last bytes of a Write are written after all others of it and of the messages
    /// before it.
    pub last_byte_ordered: bool,
}

/// Where a message number lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Delivered.
    Behind,
    /// In the window.
    Inside,
    /// Further ahead than the window.
    Beyond,
}

/// A fatal refusal that is to be reported in message order.
#[derive(Clone, Copy, Debug)]
struct Fatal {
    msn: Msn,
    /// Highest epoch of the message that it applies to.
    epoch: u16,
    why: Refusal,
    receive: Option<(Rsn, WcStatus)>,
}

/// The responder half of a connected queue pair.
///
/// For each request packet, which the connection has found to be new, call
/// [`begin`](Self::begin), and ask
/// [`on_packet`](Self::on_packet). It only looks. What it says is then carried out, all under one
/// hold of the QP's lock, so that no packet of an older attempt can be copied over newer data:
///
/// * [`Verdict::Place`]: copy or check, then [`placed`](Self::placed), for [`Target::Ordered`] also
///   [`hold`](Self::hold), and acknowledge the packet; if it cannot be done, treat it as a refusal;
/// * [`Verdict::Discard`]: acknowledge the packet;
/// * [`Verdict::Refuse`]: [`refuse`](Self::refuse), hold the packet's PSN and send the NAK.
///
/// Before the lock is dropped, drain [`pop_delivery`](Self::pop_delivery); the peer's window relies
/// on it. Then look at [`next_response`](Self::next_response) and take what was sent with
/// [`commit_response`](Self::commit_response).
#[derive(Debug)]
pub struct RecvStream<B, R> {
    ring: B,
    size: u32,
    responses: R,
    responses_size: u32,
    cfg: RecvConfig,
    mtu: NonZeroU32,
    /// Connected, and not ended.
    ready: bool,
    /// Next message to be delivered.
    next: Msn,
    /// Next receive to be consumed.
    next_rsn: Rsn,
    /// Lowest epoch taken of messages that come into the window.
    floor: u16,
    /// Highest epoch of all packets placed.
    seen: u16,
    /// Epoch under which an unreliable stream began, or last began anew.
    began: Option<u16>,
    /// Reads and atomics in the message ring.
    requests: u32,
    /// An atomic at `next` is being executed.
    executing: bool,
    fatal: Option<Fatal>,
    /// Free-running positions in the response ring: oldest kept, next to be sent, end.
    resp_head: u32,
    resp_send: u32,
    resp_tail: u32,
    /// Bytes of the response at `resp_send` already sent.
    resp_offset: u32,
}

impl<B, R> RecvStream<B, R>
where
    B: DerefMut<Target = [MsgSlot]>,
    R: DerefMut<Target = [Response]>,
{
    /// Makes a connected stream on `storage`, of which the largest power of two, up to
    /// [`MSG_WINDOW`], is used and must be at least the peer's message ring, and `responses`, whose
    /// length should be a power of two and at least twice `max_dest_rd_atomic`: executed requests
    /// stay there until their responses are acknowledged.
    pub fn new(storage: B, responses: R, cfg: RecvConfig) -> Self {
        let size = ring_size(storage.len(), MSG_WINDOW);
        let responses_size = ring_size(responses.len(), 1 << 16);
        let mut stream = RecvStream {
            ring: storage,
            size,
            responses,
            responses_size,
            cfg,
            mtu: nonzero_mtu(cfg.mtu),
            ready: false,
            next: Msn(0),
            next_rsn: Rsn(0),
            floor: 0,
            seen: 0,
            began: None,
            requests: 0,
            executing: false,
            fatal: None,
            resp_head: 0,
            resp_send: 0,
            resp_tail: 0,
            resp_offset: 0,
        };
        stream.reset(cfg);
        stream
    }

    /// Forgets everything and starts as new with `cfg`, connected. Packets of an earlier life are
    /// told by the peer's QP number and the message window.
    pub fn reset(&mut self, cfg: RecvConfig) {
        for slot in self.ring.iter_mut() {
            *slot = MsgSlot::empty(0);
        }
        for response in self.responses.iter_mut() {
            *response = Response::default();
        }
        self.cfg = cfg;
        self.mtu = nonzero_mtu(cfg.mtu);
        self.ready = true;
        self.next = Msn(cfg.rq_psn);
        self.next_rsn = Rsn(0);
        self.floor = 0;
        self.seen = 0;
        self.began = None;
        self.requests = 0;
        self.executing = false;
        self.fatal = None;
        self.resp_head = 0;
        self.resp_send = 0;
        self.resp_tail = 0;
        self.resp_offset = 0;
    }

    /// The attributes.
    pub fn config(&self) -> &RecvConfig {
        &self.cfg
    }

    /// Changes what `modify_qp` may change of a QP in use: access and RNR timer of `cfg` apply from
    /// now on, the rest of it is ignored.
    pub fn set_limits(&mut self, cfg: &RecvConfig) {
        self.cfg.access = cfg.access;
        self.cfg.min_rnr_timer = cfg.min_rnr_timer;
    }

    /// Sets the payload bytes per packet, once the connection knows them and before any packet was
    /// taken.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.cfg.mtu = mtu;
        self.mtu = nonzero_mtu(mtu);
    }

    /// Begins an unreliable stream anew if packet `f` is of the message that does. Everything before
    /// that is forgotten, and the oldest receive that is left has number 0 from now on: returns
    /// whether that is so. To be asked before anything else about a packet.
    ///
    /// Each time that a stream begins has an epoch of its own, so later packets of the same message
    /// do nothing here, and nor do those of earlier messages.
    pub fn begin(&mut self, f: &DataFields) -> bool {
        let new = self.began.is_none_or(|began| epoch_before(began, f.epoch));
        let begins = self.cfg.unreliable
            && self.ready
            && f.flags.has(StreamFlags::START)
            && f.src_qpn == self.cfg.peer_qpn;
        if !begins || !new {
            return false;
        }
        for slot in self.ring.iter_mut() {
            *slot = MsgSlot::empty(f.epoch);
        }
        self.next = f.msn;
        self.next_rsn = Rsn(0);
        self.floor = f.epoch;
        self.seen = f.epoch;
        self.began = Some(f.epoch);
        self.fatal = None;
        true
    }

    /// Ends the stream, for the moves to RESET and to the error state: requests are refused as not
    /// ready, responses are given up.
    pub fn stop(&mut self) {
        self.ready = false;
        self.resp_head = self.resp_tail;
        self.resp_send = self.resp_tail;
        self.resp_offset = 0;
    }

    /// Whether the stream takes requests. If it does not, [`on_packet`](Self::on_packet) still knows
    /// best what to answer.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether nothing was taken from the peer so far.
    pub fn is_untouched(&self) -> bool {
        self.next == Msn(self.cfg.rq_psn) && self.ring.iter().all(MsgSlot::is_empty)
    }

    /// Receives consumed so far: the number of the next one to be delivered.
    pub fn next_rsn(&self) -> Rsn {
        self.next_rsn
    }

    // The message ring.

    fn slot(&self, msn: Msn) -> Option<&MsgSlot> {
        self.ring.get(ring_index(msn.0, self.size))
    }

    fn slot_mut(&mut self, msn: Msn) -> Option<&mut MsgSlot> {
        let index = ring_index(msn.0, self.size);
        self.ring.get_mut(index)
    }

    fn place_of(&self, msn: Msn) -> Place {
        if msn.before(self.next) {
            Place::Behind
        } else if msn.ahead_of(self.next) < self.size {
            Place::Inside
        } else {
            Place::Beyond
        }
    }

    /// Moves on to the next message.
    fn advance(&mut self) {
        let (msn, floor) = (self.next, self.floor);
        if let Some(slot) = self.slot_mut(msn) {
            let had_request = slot.has_response();
            *slot = MsgSlot::empty(floor);
            self.requests = self.requests.saturating_sub(u32::from(had_request));
        }
        self.next = msn.add(1);
    }

    fn set_fatal(&mut self, fatal: Fatal) {
        if self.fatal.is_some_and(|f| !fatal.msn.before(f.msn)) {
            return;
        }
        self.fatal = Some(fatal);
    }
}
