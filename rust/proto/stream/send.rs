// SPDX-License-Identifier: GPL-2.0

//! The requester half of an RC queue pair.

use core::num::NonZeroU32;
use core::ops::DerefMut;

use super::message::{SendMsg, SendOp, SendWork, State};
use super::{
    before, epoch_before, later_epoch, local_ack_timeout, nonzero_mtu, packet_count, ring_index,
    ring_size, rnr_timer, WcStatus, MAX_MSG_LEN, MSG_WINDOW,
};
use crate::packet::{DataFields, NakCode, Opcode, Qpn, StreamFlags, TxDesc};
use crate::psn::{Msn, Rsn};
use crate::time::{Duration, Instant};

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

/// The requester half of an RC queue pair.
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
    failure: Option<Failure>,
    /// The failing message is handed out; everything else is flushed.
    flushing: bool,
    draining: bool,
    /// RNR NAKs and NotReady NAKs for the message at `head`.
    rnr_tries: u8,
    tries: u8,
    /// When the peer was last heard of, or was last given a reason to answer.
    progress: Instant,
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
            failure: None,
            flushing: false,
            draining: false,
            rnr_tries: 0,
            tries: 0,
            progress: Instant(0),
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
        self.failure = None;
        self.flushing = false;
        self.draining = false;
        self.rnr_tries = 0;
        self.tries = 0;
        self.progress = Instant(0);
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

    // Posting and completing.

    /// Whether [`post`](Self::post) has room.
    pub fn can_post(&self) -> bool {
        self.next.wrapping_sub(self.una) < self.size
    }

    /// Takes a work request. One that cannot be carried out (longer than [`MAX_MSG_LEN`], a Read
    /// where `max_rd_atomic` is 0) is taken too, and fails when its turn comes; after a failure
    /// everything posted is flushed.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] if [`can_post`](Self::can_post) is false.
    pub fn post(&mut self, now: Instant, work: &SendWork) -> Result<(), QueueFull> {
        let state = if work.op.has_response() && self.cfg.max_rd_atomic == 0 {
            State::Broken(WcStatus::LocalQpOperation)
        } else if work.len > MAX_MSG_LEN && !work.op.is_atomic() {
            State::Broken(WcStatus::LocalLength)
        } else {
            State::Posted
        };
        self.push(now, work, state)
    }

    /// Takes a work request that the caller found to be invalid: all before it complete, then it
    /// ends with `status` (not `Success`) and the stream with it.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] if [`can_post`](Self::can_post) is false.
    pub fn post_broken(
        &mut self,
        now: Instant,
        work: &SendWork,
        status: WcStatus,
    ) -> Result<(), QueueFull> {
        self.push(now, work, State::Broken(status))
    }

    fn push(&mut self, now: Instant, work: &SendWork, state: State) -> Result<(), QueueFull> {
        if !self.can_post() {
            return Err(QueueFull);
        }
        let (pos, msn, rsn, epoch) = (self.next, self.next_msn, self.next_rsn, self.epoch);
        let entry = self.at_mut(pos).ok_or(QueueFull)?;
        *entry = SendMsg {
            va: work.va,
            compare_add: work.compare_add,
            swap: work.swap,
            cookie: work.cookie,
            len: if work.op.is_atomic() { 8 } else { work.len },
            rkey: work.rkey,
            imm_or_inv: work.imm_or_inv,
            rsn,
            msn,
            // This member belongs to the message whose MSN falls on the entry.
            pos_of_msn: entry.pos_of_msn,
            packets: 0,
            counted: 0,
            epoch,
            op: work.op,
            state,
            fence: work.fence,
            solicited: work.solicited,
        };
        if work.op != SendOp::Local {
            self.at_mut(msn.0).ok_or(QueueFull)?.pos_of_msn = pos;
            self.next_msn = msn.add(1);
        }
        if work.op.consumes_receive() {
            self.next_rsn = rsn.add(1);
        }
        if self.head == self.next {
            // Was idle: time starts to count.
            self.progress = now;
        }
        self.next = pos.wrapping_add(1);
        self.settle();
        Ok(())
    }

    /// The next completion in posting order.
    pub fn pop_completed(&mut self) -> Option<Completion> {
        if self.una == self.next {
            return None;
        }
        let status = if self.flushing {
            WcStatus::Flushed
        } else if self.una != self.head {
            WcStatus::Success
        } else {
            let failure = self.failure.filter(|f| f.pos == self.una)?;
            self.flushing = true;
            failure.status
        };
        let msg = self.at(self.una)?;
        let completion = Completion {
            cookie: msg.cookie,
            status,
            op: msg.op,
            byte_len: msg.len,
        };
        self.una = self.una.wrapping_add(1);
        if self.una == self.next && self.failure.is_some_and(|f| f.pos == self.una) {
            self.flushing = true;
        }
        if self.flushing {
            // Whatever was in flight is of no interest any more.
            self.head = self.una;
            self.cursor = self.una;
            self.cursor_offset = 0;
            self.started = self.una;
            self.reads = 0;
            self.hold = None;
        }
        Some(completion)
    }

    /// Whether the stream has ended: the failing work request was handed out with its status, and
    /// the QP must be in the error state.
    pub fn is_flushing(&self) -> bool {
        self.flushing
    }

    /// Ends the stream: the oldest work request that is not done ends with `status`, the rest is
    /// flushed. For the move to the error state `status` is [`WcStatus::Flushed`].
    pub fn fail(&mut self, status: WcStatus) {
        if self.flushing {
            return;
        }
        if self.una == self.next {
            self.flushing = true;
        } else if self.head == self.next {
            // Nothing to carry the status.
            self.set_failure(self.head, WcStatus::Flushed);
        } else {
            self.set_failure(self.head, status);
        }
    }

    /// Ends the stream at message `msn`: earlier ones complete, then it ends with `status`, the
    /// rest is flushed. For local errors, such as a buffer that has become inaccessible.
    pub fn fail_message(&mut self, msn: Msn, status: WcStatus) {
        if let Some(pos) = self.find(msn) {
            self.set_failure(pos, status);
        }
    }

    /// Starts or ends draining (the SQD state, IBTA 1.4, 10.3.1.6): while draining, no further
    /// message is started.
    pub fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Whether draining is asked for and every started message is done.
    pub fn is_drained(&self) -> bool {
        self.draining && !before(self.head, self.started)
    }

    /// Whether nothing is posted that has not been handed out as complete.
    pub fn is_empty(&self) -> bool {
        self.una == self.next
    }

    // Transmission.

    /// The next packet to be sent, if one may be sent now.
    pub fn next_segment(&self, now: Instant) -> Option<TxDesc> {
        let msg = self.sendable()?;
        if let Some(hold) = self.hold.filter(|h| h.pos == self.cursor) {
            if self.head != self.cursor || hold.until.is_some_and(|t| now < t) {
                return None;
            }
        }
        let opcode = match msg.op {
            SendOp::Local => return None,
            op => op.opcode(),
        };
        let mut flags = StreamFlags::default();
        let len = if msg.op.has_response() {
            0
        } else {
            msg.len
                .saturating_sub(self.cursor_offset)
                .min(self.mtu.get())
        };
        if msg.op.has_response() || self.cursor_offset.saturating_add(len) >= msg.len {
            flags = flags.with(StreamFlags::LAST);
        }
        if msg.solicited {
            flags = flags.with(StreamFlags::SOLICITED);
        }
        Some(TxDesc {
            opcode,
            flags,
            epoch: if self.cursor_offset == 0 {
                self.epoch
            } else {
                msg.epoch
            },
            qpn: self.cfg.qpn,
            peer_qpn: self.cfg.peer_qpn,
            msn: msg.msn,
            offset: self.cursor_offset,
            len,
        })
    }

    /// Takes the packet that [`next_segment`](Self::next_segment) showed, which the connection now
    /// has. Returns false, and does nothing, if `desc` is not the next packet any more.
    pub fn commit(&mut self, now: Instant, desc: &TxDesc) -> bool {
        let (pos, offset, mtu, epoch) = (self.cursor, self.cursor_offset, self.mtu, self.epoch);
        if pos == self.next {
            return false;
        }
        let Some(msg) = self.at_mut(pos) else {
            return false;
        };
        if msg.op == SendOp::Local || msg.msn != desc.msn || offset != desc.offset {
            return false;
        }
        if offset == 0 {
            msg.state = State::Sent;
            msg.epoch = epoch;
            msg.packets = packet_count(msg.len, mtu);
        }
        let has_response = msg.op.has_response();
        self.progress = now;
        self.hold = self.hold.filter(|h| h.pos != pos);
        if before(self.started, pos.wrapping_add(1)) {
            self.started = pos.wrapping_add(1);
        }
        if has_response {
            self.reads = self.reads.saturating_add(1);
        }
        if desc.flags.has(StreamFlags::LAST) {
            self.cursor = pos.wrapping_add(1);
            self.cursor_offset = 0;
            self.settle();
        } else {
            self.cursor_offset = offset.saturating_add(desc.len);
        }
        true
    }

    /// How to build the packet of `desc`, first or again; `None` if its message is done, given up or
    /// has been started again since: a Void packet takes its place.
    pub fn packet(&self, desc: &TxDesc) -> Option<RequestPacket> {
        let pos = self.find(desc.msn)?;
        let msg = self.at(pos)?;
        let fresh = pos == self.cursor && self.cursor_offset == 0;
        let current = if fresh {
            desc.epoch == self.epoch
        } else {
            msg.state == State::Sent && desc.epoch == msg.epoch
        };
        if !current || desc.opcode != msg.op.opcode() || self.ended_before(pos) {
            return None;
        }
        let mut fields = DataFields {
            opcode: desc.opcode,
            flags: desc.flags,
            dst_qpn: desc.peer_qpn,
            src_qpn: desc.qpn,
            msn: desc.msn,
            epoch: desc.epoch,
            offset: desc.offset,
            ..DataFields::default()
        };
        if msg.op.consumes_receive() {
            fields.rsn = msg.rsn;
        }
        match msg.op {
            SendOp::SendImm | SendOp::WriteImm => fields.imm = msg.imm_or_inv,
            SendOp::SendInv => fields.rkey = msg.imm_or_inv,
            SendOp::Read => fields.length = msg.len,
            SendOp::CmpSwap | SendOp::FetchAdd => {
                fields.compare_add = msg.compare_add;
                fields.swap = msg.swap;
            }
            SendOp::Send | SendOp::Write | SendOp::Local => {}
        }
        if matches!(msg.op, SendOp::Write | SendOp::WriteImm) || msg.op.has_response() {
            fields.va = msg.va;
            fields.rkey = msg.rkey;
        }
        Some(RequestPacket {
            fields,
            cookie: msg.cookie,
            offset: desc.offset,
            len: desc.len,
        })
    }

    /// The cookie of the local operation whose turn it is.
    pub fn next_local(&self) -> Option<u32> {
        let msg = self.sendable()?;
        (msg.op == SendOp::Local).then_some(msg.cookie)
    }

    /// Reports that the operation which [`next_local`](Self::next_local) showed is done, or failed
    /// with the given status.
    pub fn local_done(&mut self, now: Instant, result: Result<(), WcStatus>) {
        let pos = self.cursor;
        if self.next_local().is_none() {
            return;
        }
        self.progress = now;
        if before(self.started, pos.wrapping_add(1)) {
            self.started = pos.wrapping_add(1);
        }
        match result {
            Ok(()) => {
                if let Some(msg) = self.at_mut(pos) {
                    msg.state = State::Done;
                }
                self.settle();
            }
            Err(status) => self.set_failure(pos, status),
        }
    }

    // Reception.

    /// Credits a packet that the peer has acknowledged.
    pub fn on_acked(&mut self, now: Instant, desc: &TxDesc) {
        let Some(pos) = self.find(desc.msn) else {
            return;
        };
        self.progress = now;
        let sent_whole = before(pos, self.cursor);
        let Some(msg) = self.at_mut(pos) else {
            return;
        };
        // What has a response is done when that has come; the request's own fate does not matter.
        if msg.state != State::Sent || desc.epoch != msg.epoch || msg.op.has_response() {
            return;
        }
        msg.counted = msg.counted.saturating_add(1);
        if sent_whole && msg.counted >= msg.packets {
            msg.state = State::Done;
            self.settle();
        }
    }

    /// Takes a NAK packet.
    pub fn on_nak(&mut self, now: Instant, f: &DataFields) {
        // Only who does not know the QP may leave its number out.
        let anonymous = f.src_qpn == Qpn(0) && f.code == NakCode::NotReady;
        if f.opcode != Opcode::Nak || (f.src_qpn != self.cfg.peer_qpn && !anonymous) {
            return;
        }
        let Some(pos) = self.find(f.msn) else {
            return;
        };
        let Some(msg) = self.at(pos) else {
            return;
        };
        // Of a message that waits to be sent again the responder can still have found the earlier
        // attempt whole, and fail to execute that.
        let waits = before(pos, self.started) && matches!(msg.state, State::Sent | State::Posted);
        if !waits || epoch_before(f.epoch, msg.epoch) || self.ended_before(pos) {
            return;
        }
        self.progress = now;
        // Only a refusal of the oldest message counts as a retry, as if messages arrived in order:
        // a later one may have been refused only because it overtook those before it.
        let counts = pos == self.head;
        let wait = match f.code {
            NakCode::Rnr => {
                if counts && self.cfg.rnr_retry != 7 {
                    if self.rnr_tries >= self.cfg.rnr_retry {
                        return self.set_failure(pos, WcStatus::from_nak(f.code));
                    }
                    self.rnr_tries = self.rnr_tries.saturating_add(1);
                }
                rnr_timer(f.rnr_timer)
            }
            NakCode::NotReady => match local_ack_timeout(self.cfg.ack_timeout) {
                Some(timeout) => {
                    if counts {
                        if self.tries >= self.cfg.retry_cnt {
                            return self.set_failure(pos, WcStatus::from_nak(f.code));
                        }
                        self.tries = self.tries.saturating_add(1);
                    }
                    timeout
                }
                None => DEFAULT_NOT_READY_WAIT,
            },
            NakCode::InvalidRequest | NakCode::RemoteAccess | NakCode::RemoteOperation => {
                return self.set_failure(pos, WcStatus::from_nak(f.code));
            }
        };
        self.go_back(pos, f.epoch);
        self.hold = Some(Hold {
            pos,
            until: Some(now.after(wait)),
        });
    }

    /// Says where a response packet with `payload_len` bytes goes.
    pub fn on_response(&mut self, f: &DataFields, payload_len: u32) -> ResponseTarget {
        let Some((pos, msg)) = self.response_of(f) else {
            return ResponseTarget::Ignore;
        };
        let cookie = msg.cookie;
        let checked = match (f.opcode, msg.op) {
            (Opcode::ReadResponse, SendOp::Read) => self
                .check_read_response(f, payload_len, msg)
                .map(|()| ResponseTarget::Place {
                    cookie,
                    offset: f.offset,
                }),
            (Opcode::AtomicResponse, SendOp::CmpSwap | SendOp::FetchAdd) if payload_len == 0 => {
                Ok(ResponseTarget::Atomic {
                    cookie,
                    original: f.original,
                })
            }
            _ => Err(WcStatus::BadResponse),
        };
        match checked {
            Ok(target) => target,
            Err(status) => {
                self.set_failure(pos, status);
                ResponseTarget::Mismatch(status)
            }
        }
    }

    fn check_read_response(
        &self,
        f: &DataFields,
        payload_len: u32,
        msg: &SendMsg,
    ) -> Result<(), WcStatus> {
        let end = f
            .offset
            .checked_add(payload_len)
            .filter(|&end| end <= msg.len)
            .ok_or(WcStatus::LocalLength)?;
        let last = f.flags.has(StreamFlags::LAST);
        let whole = payload_len == self.mtu.get();
        let shaped = if last {
            end == msg.len && payload_len <= self.mtu.get() && (payload_len != 0 || msg.len == 0)
        } else {
            whole && end < msg.len
        };
        if shaped && f.offset % self.mtu == 0 {
            Ok(())
        } else {
            Err(WcStatus::BadResponse)
        }
    }

    /// Counts a response packet that was placed.
    pub fn response_placed(&mut self, now: Instant, f: &DataFields) {
        let Some((pos, _)) = self.response_of(f) else {
            return;
        };
        self.progress = now;
        let sent = before(pos, self.cursor);
        let Some(msg) = self.at_mut(pos) else {
            return;
        };
        msg.counted = msg.counted.saturating_add(1);
        if msg.counted >= msg.packets {
            msg.state = State::Done;
            if sent {
                self.reads = self.reads.saturating_sub(1);
            }
            self.settle();
        }
    }

    /// The message that response `f` belongs to, if it waits for one.
    ///
    /// The epoch need not be that of the message: a responder executes each message number once,
    /// whichever attempt it has seen whole, and that may be an earlier one of this stream.
    fn response_of(&self, f: &DataFields) -> Option<(u32, &SendMsg)> {
        if f.src_qpn != self.cfg.peer_qpn || epoch_before(f.epoch, self.first_epoch) {
            return None;
        }
        let pos = self.find(f.msn)?;
        let msg = self.at(pos)?;
        let waits = msg.op.has_response()
            && msg.packets != 0
            && matches!(msg.state, State::Sent | State::Posted)
            && !self.ended_before(pos);
        waits.then_some((pos, msg))
    }

    // Time.

    /// When [`on_timeout`](Self::on_timeout) is due next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if let Some(until) = self.wait_end() {
            return Some(until);
        }
        if !self.expects_progress() {
            return None;
        }
        Some(self.progress.after(self.patience()?))
    }

    /// Acts on time passed. `conn_progress` is when the peer last acknowledged anything on the
    /// connection: while it does, a stream does not give up for not having got its turn.
    pub fn on_timeout(&mut self, now: Instant, conn_progress: Instant) {
        if let Some(until) = self.wait_end() {
            if now >= until {
                self.hold = self.hold.map(|h| Hold { until: None, ..h });
                self.progress = now;
            }
            return;
        }
        let Some(patience) = self.patience().filter(|_| self.expects_progress()) else {
            return;
        };
        let in_flight = self.head != self.cursor || self.cursor_offset != 0;
        if !in_flight && conn_progress > self.progress {
            self.progress = conn_progress;
        }
        if now >= self.progress.after(patience) {
            self.set_failure(self.head, WcStatus::RetryExceeded);
        }
    }

    /// End of the wait that the oldest message is in.
    fn wait_end(&self) -> Option<Instant> {
        self.hold.filter(|h| h.pos == self.head)?.until
    }

    /// Whether it is up to the peer or the network that the oldest message gets done.
    fn expects_progress(&self) -> bool {
        if self.flushing || self.head == self.next {
            return false;
        }
        let started = before(self.head, self.started);
        let failed = self.failure.is_some_and(|f| f.pos == self.head);
        let local = self.at(self.head).is_some_and(|m| m.op == SendOp::Local);
        !failed && !local && (started || !self.draining)
    }

    /// How long the peer may stay silent (IBTA 1.4, 9.7.6.1.3), `None` without limit.
    fn patience(&self) -> Option<Duration> {
        let tries = u64::from(self.cfg.retry_cnt).saturating_add(1);
        Some(local_ack_timeout(self.cfg.ack_timeout)?.saturating_mul(tries))
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

    /// The message at the cursor, unless something but a hold keeps it from being sent.
    fn sendable(&self) -> Option<&SendMsg> {
        if self.cursor == self.next || self.ended_before(self.cursor) {
            return None;
        }
        let msg = self.at(self.cursor)?;
        if self.cursor_offset != 0 {
            return Some(msg);
        }
        if self.draining && !before(self.cursor, self.started) {
            return None;
        }
        if msg.fence && self.reads != 0 {
            return None;
        }
        if msg.op.has_response() && self.reads >= self.cfg.max_rd_atomic {
            return None;
        }
        Some(msg)
    }

    /// Sends the message at `pos` and all later ones again, above `epoch`.
    fn go_back(&mut self, pos: u32, epoch: u16) {
        self.epoch = later_epoch(self.epoch, epoch).wrapping_add(1);
        let (epoch, started) = (self.epoch, self.started);
        let mut p = pos;
        while before(p, started) {
            if let Some(msg) = self.at_mut(p) {
                if msg.op != SendOp::Local && !matches!(msg.state, State::Broken(_)) {
                    msg.state = State::Posted;
                    msg.epoch = epoch;
                    if !msg.op.has_response() {
                        // Responses count whichever attempt they answer, see `response_of`.
                        msg.counted = 0;
                    }
                }
            }
            p = p.wrapping_add(1);
        }
        self.cursor = pos;
        self.cursor_offset = 0;
        // Whatever failed after this message will fail again, if it comes to that.
        self.failure = self.failure.filter(|f| !before(pos, f.pos));
        self.reads = 0;
        let mut p = self.head;
        while before(p, pos) {
            if self
                .at(p)
                .is_some_and(|m| m.op.has_response() && m.state == State::Sent)
            {
                self.reads = self.reads.saturating_add(1);
            }
            p = p.wrapping_add(1);
        }
        self.settle();
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

/// How long to wait after NotReady where the QP has no local ACK timeout: that of exponent 14.
const DEFAULT_NOT_READY_WAIT: Duration = Duration(4_096 << 14);

#[cfg(test)]
impl<B: DerefMut<Target = [SendMsg]>> SendStream<B> {
    /// Checks the invariants of the type.
    pub(super) fn assert_invariants(&self) {
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
