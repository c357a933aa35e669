// SPDX-License-Identifier: GPL-2.0

//! The responder half of an RC queue pair.

use core::num::NonZeroU32;
use core::ops::DerefMut;

use super::{
    epoch_before, later_epoch, nonzero_mtu, packet_count, ring_index, ring_size, MemoryRange,
    MsgSlot, Nak, Response, ResponsePacket, WcStatus, MAX_MSG_LEN, MSG_WINDOW,
};
use crate::packet::{DataFields, NakCode, Opcode, Qpn, StreamFlags, TxDesc};
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
}

/// What becomes of a request packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Copy the payload there, or check what is asked for, then call [`RecvStream::placed`]; or, if
    /// that is not possible, [`RecvStream::refuse`].
    Place(Target),
    /// Acknowledge it and forget it.
    Discard,
    /// Call [`RecvStream::refuse`] with this reason.
    Refuse(Refusal),
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Into receive number `rsn`, at `offset` of its buffer list.
    Recv {
        /// The receive.
        rsn: Rsn,
        /// Byte offset in its buffer list.
        offset: u32,
    },
    /// Into registered memory, which must allow remote writes. Exactly as long as the payload.
    Memory(MemoryRange),
    /// Nowhere yet: a Read of this range is asked for, which must allow remote reads.
    ReadFrom(MemoryRange),
    /// Nowhere: there is no payload and nothing to check yet.
    None,
}

/// Why the responder refuses a packet or fails to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No receive is posted.
    ReceiverNotReady,
    /// The stream is not connected to the sender, or has ended.
    NotReady,
    /// The request breaks the protocol or is not enabled on this QP.
    InvalidRequest,
    /// Key, bounds or permissions of the remote memory do not allow it.
    RemoteAccess,
    /// The responder cannot carry it out, for a reason of its own.
    RemoteOperation,
    /// The message is longer than the receive that it consumes.
    ReceiveTooShort,
    /// The buffers of the receive are not accessible.
    ReceiveProtection,
}

impl Refusal {
    /// What the requester is told.
    pub const fn code(self) -> NakCode {
        match self {
            Refusal::ReceiverNotReady => NakCode::Rnr,
            Refusal::NotReady => NakCode::NotReady,
            Refusal::InvalidRequest | Refusal::ReceiveTooShort => NakCode::InvalidRequest,
            Refusal::RemoteAccess => NakCode::RemoteAccess,
            Refusal::RemoteOperation | Refusal::ReceiveProtection => NakCode::RemoteOperation,
        }
    }

    /// Whether the requester does not try again.
    const fn is_fatal(self) -> bool {
        !matches!(self, Refusal::ReceiverNotReady | Refusal::NotReady)
    }

    /// How the receive ends that the refused message consumes, if that is at fault.
    const fn receive_status(self) -> Option<WcStatus> {
        match self {
            Refusal::ReceiveTooShort => Some(WcStatus::LocalLength),
            Refusal::ReceiveProtection => Some(WcStatus::LocalProtection),
            _ => None,
        }
    }
}

/// A message that consumed a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The receive.
    pub rsn: Rsn,
    /// [`Opcode::Send`], [`Opcode::SendImm`], [`Opcode::SendInv`] or [`Opcode::WriteImm`].
    pub opcode: Opcode,
    /// Length of the message.
    pub byte_len: u32,
    /// Immediate data (SendImm, WriteImm): the big-endian word read as a number.
    pub imm: u32,
    /// Key to invalidate (SendInv).
    pub invalidate: u32,
    /// Solicited event requested.
    pub solicited: bool,
}

/// Something that happens in message order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A receive is complete.
    Receive(Received),
    /// A Write is complete.
    Write {
        /// Length of the message.
        byte_len: u32,
    },
    /// Execute this atomic, once, and call [`RecvStream::atomic_result`]. Nothing more is delivered
    /// before.
    Atomic {
        /// The operation: [`Opcode::CmpSwap`] or [`Opcode::FetchAdd`].
        opcode: Opcode,
        /// 8 bytes, naturally aligned, which must allow remote atomics.
        target: MemoryRange,
        /// Compare value or addend.
        compare_add: u64,
        /// Swap value.
        swap: u64,
    },
    /// The stream has ended with a fatal refusal: the QP must go to the error state.
    Failed {
        /// Why.
        why: Refusal,
        /// The receive to complete with an error first.
        receive: Option<(Rsn, WcStatus)>,
    },
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

/// The responder half of an RC queue pair.
///
/// For each request packet, which the connection has found to be new, ask
/// [`on_packet`](Self::on_packet). It only looks. What it says is then carried out, all under one
/// hold of the QP's lock, so that no packet of an older attempt can be copied over newer data:
///
/// * [`Verdict::Place`]: copy or check, then [`placed`](Self::placed) and acknowledge the packet; if
///   it cannot be done, treat it as a refusal;
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

    /// Receives consumed so far: the number of the next one to be delivered.
    pub fn next_rsn(&self) -> Rsn {
        self.next_rsn
    }

    // Requests.

    /// Judges a request packet with `payload_len` bytes. `recv_posted` is how many receives have been
    /// posted since the stream began, modulo 2^32; with a shared receive queue, one more than the
    /// packet's RSN if that could be bound.
    pub fn on_packet(&self, f: &DataFields, payload_len: u32, recv_posted: Rsn) -> Verdict {
        if f.src_qpn != self.cfg.peer_qpn {
            return Verdict::Refuse(Refusal::NotReady);
        }
        match self.place_of(f.msn) {
            Place::Behind => return Verdict::Discard,
            Place::Inside => {}
            Place::Beyond if self.ready => return Verdict::Refuse(Refusal::InvalidRequest),
            Place::Beyond => return Verdict::Refuse(Refusal::NotReady),
        }
        if let Some(why) = self.refusal_of(f) {
            return Verdict::Refuse(why);
        }
        if self.is_stale(f) {
            return Verdict::Discard;
        }
        if !self.ready {
            return match self.fatal {
                // The peer has gone back for another reason, and took the NAK for an echo.
                Some(fatal) if fatal.msn == f.msn => Verdict::Refuse(fatal.why),
                // It cannot complete, and there is no need to tell why.
                Some(fatal) if fatal.msn.before(f.msn) => Verdict::Discard,
                _ => Verdict::Refuse(Refusal::NotReady),
            };
        }
        match self.judge(f, payload_len, recv_posted) {
            Ok(target) => Verdict::Place(target),
            Err(why) => Verdict::Refuse(why),
        }
    }

    fn judge(&self, f: &DataFields, payload_len: u32, recv_posted: Rsn) -> Result<Target, Refusal> {
        let allowed = match f.opcode {
            Opcode::Send | Opcode::SendImm | Opcode::SendInv => true,
            Opcode::Write | Opcode::WriteImm => self.cfg.access.write,
            Opcode::ReadRequest => self.cfg.access.read,
            Opcode::CmpSwap | Opcode::FetchAdd => self.cfg.access.atomic,
            Opcode::Void | Opcode::ReadResponse | Opcode::AtomicResponse | Opcode::Nak => false,
        };
        if !allowed {
            return Err(Refusal::InvalidRequest);
        }
        let end = self.end_of(f, payload_len).ok_or(Refusal::InvalidRequest)?;
        let slot = self.slot(f.msn).ok_or(Refusal::InvalidRequest)?;
        // What a newer attempt says need not agree with an older one.
        let agrees = epoch_before(slot.epoch(), f.epoch) || slot.agrees(f, end);
        if !agrees {
            return Err(Refusal::InvalidRequest);
        }
        match f.opcode {
            Opcode::Send | Opcode::SendImm | Opcode::SendInv => {
                self.check_receive(f, recv_posted)?;
                Ok(Target::Recv {
                    rsn: f.rsn,
                    offset: f.offset,
                })
            }
            Opcode::Write | Opcode::WriteImm => {
                // The receive is needed when the message is complete: let data come meanwhile.
                if f.opcode == Opcode::WriteImm && f.flags.has(StreamFlags::LAST) {
                    self.check_receive(f, recv_posted)?;
                }
                if payload_len == 0 {
                    // A Write without payload needs no valid key (IBTA 1.4, 9.7.4.1.6).
                    return Ok(Target::None);
                }
                let va =
                    f.va.checked_add(u64::from(f.offset))
                        .filter(|va| va.checked_add(u64::from(payload_len)).is_some())
                        .ok_or(Refusal::RemoteAccess)?;
                Ok(Target::Memory(MemoryRange {
                    va,
                    rkey: f.rkey,
                    len: payload_len,
                }))
            }
            _ => {
                self.check_request(f, slot)?;
                if f.opcode != Opcode::ReadRequest || f.length == 0 {
                    return Ok(Target::None);
                }
                if f.va.checked_add(u64::from(f.length)).is_none() {
                    return Err(Refusal::RemoteAccess);
                }
                Ok(Target::ReadFrom(MemoryRange {
                    va: f.va,
                    rkey: f.rkey,
                    len: f.length,
                }))
            }
        }
    }

    /// End of the packet's payload in the message, if the packet is well formed for this MTU.
    fn end_of(&self, f: &DataFields, payload_len: u32) -> Option<u32> {
        if matches!(
            f.opcode,
            Opcode::ReadRequest | Opcode::CmpSwap | Opcode::FetchAdd
        ) {
            let single = f.offset == 0 && payload_len == 0 && f.flags.has(StreamFlags::LAST);
            return single.then_some(0);
        }
        let end = f
            .offset
            .checked_add(payload_len)
            .filter(|&end| end <= MAX_MSG_LEN)?;
        let shaped = if f.flags.has(StreamFlags::LAST) {
            payload_len <= self.mtu.get() && (payload_len != 0 || f.offset == 0)
        } else {
            payload_len == self.mtu.get()
        };
        (shaped && f.offset % self.mtu == 0).then_some(end)
    }

    /// Checks that the receive which the packet names exists and can be meant.
    fn check_receive(&self, f: &DataFields, recv_posted: Rsn) -> Result<(), Refusal> {
        // Each message before this one consumes at most one receive, so the number is bounded on
        // both sides. In particular no completed receive can be written to.
        if f.rsn.ahead_of(self.next_rsn) > f.msn.ahead_of(self.next) {
            return Err(Refusal::InvalidRequest);
        }
        if !f.rsn.before(recv_posted) {
            return Err(Refusal::ReceiverNotReady);
        }
        Ok(())
    }

    /// Checks a Read or an atomic, which falls on `slot`.
    fn check_request(&self, f: &DataFields, slot: &MsgSlot) -> Result<(), Refusal> {
        if f.length > MAX_MSG_LEN {
            return Err(Refusal::InvalidRequest);
        }
        // IBTA 1.4, 9.4.5: naturally aligned.
        if f.opcode != Opcode::ReadRequest && f.va & 7 != 0 {
            return Err(Refusal::InvalidRequest);
        }
        // A response that was sent in whole may have reached the peer, and then it is free to ask
        // again before we learn of it. The others are certainly outstanding.
        let others = self
            .requests
            .saturating_sub(u32::from(slot.has_response()))
            .saturating_add(self.resp_tail.wrapping_sub(self.resp_send));
        if others >= self.cfg.max_dest_rd_atomic {
            return Err(Refusal::InvalidRequest);
        }
        Ok(())
    }

    /// Counts a packet that [`on_packet`](Self::on_packet) wanted placed, and that now is.
    pub fn placed(&mut self, f: &DataFields, payload_len: u32) {
        if self.place_of(f.msn) != Place::Inside || self.is_stale(f) {
            return;
        }
        let Some(end) = self.end_of(f, payload_len) else {
            return;
        };
        let packets = f
            .flags
            .has(StreamFlags::LAST)
            .then(|| packet_count(end, self.mtu));
        self.revise_fatal(f);
        let Some(slot) = self.slot_mut(f.msn) else {
            return;
        };
        let had_request = slot.has_response();
        if epoch_before(slot.epoch(), f.epoch) {
            *slot = MsgSlot::empty(f.epoch);
        }
        slot.place(f, end, packets);
        let has_request = slot.has_response();
        self.requests = self
            .requests
            .saturating_sub(u32::from(had_request))
            .saturating_add(u32::from(has_request));
        self.seen = later_epoch(self.seen, f.epoch);
    }

    /// Refuses a packet: returns the NAK to be sent while the packet's PSN is held, or `None` if the
    /// packet has become stale meanwhile and is to be acknowledged.
    ///
    /// If the NAK finds no room, drop it and the packet: when the packet comes again, it is refused
    /// again.
    pub fn refuse(&mut self, f: &DataFields, why: Refusal) -> Option<Nak> {
        let mut nak = Nak {
            code: why.code(),
            timer: 0,
            msn: f.msn,
            epoch: f.epoch,
            qpn: f.dst_qpn,
            peer_qpn: f.src_qpn,
        };
        if why == Refusal::ReceiverNotReady {
            nak.timer = self.cfg.min_rnr_timer & 31;
        }
        if f.src_qpn != self.cfg.peer_qpn {
            return Some(nak);
        }
        match self.place_of(f.msn) {
            Place::Behind => return None,
            Place::Inside => {}
            // No message of the current peer, or not one that follows the protocol. Whichever it
            // is, it changes nothing here.
            Place::Beyond => return Some(nak),
        }
        if let Some(why) = self.refusal_of(f) {
            return Some(Nak {
                code: why.code(),
                ..nak
            });
        }
        if self.is_stale(f) {
            return None;
        }
        self.revise_fatal(f);
        self.cut(f, why);
        if why.is_fatal() {
            self.set_fatal(Fatal {
                msn: f.msn,
                epoch: f.epoch,
                why,
                receive: why.receive_status().map(|status| (f.rsn, status)),
            });
        }
        Some(nak)
    }

    // Deliveries.

    /// The next thing that happens in message order, if its time has come.
    pub fn pop_delivery(&mut self) -> Option<Delivery> {
        loop {
            if let Some(failed) = self.pop_failed() {
                return Some(failed);
            }
            if !self.ready || self.executing || self.is_failing() {
                return None;
            }
            let slot = *self.slot(self.next).filter(|s| s.is_complete())?;
            match slot.opcode() {
                Opcode::ReadRequest => {
                    let response = Response {
                        va: slot.va(),
                        rkey: slot.rkey(),
                        len: slot.len(),
                        packets: packet_count(slot.len(), self.mtu),
                        epoch: slot.epoch(),
                        ..Response::default()
                    };
                    if !self.push_response(response) {
                        return None;
                    }
                    self.advance();
                }
                Opcode::CmpSwap | Opcode::FetchAdd => {
                    if !self.has_response_room() {
                        return None;
                    }
                    self.executing = true;
                    return Some(Delivery::Atomic {
                        opcode: slot.opcode(),
                        target: MemoryRange {
                            va: slot.va(),
                            rkey: slot.rkey(),
                            len: 8,
                        },
                        compare_add: slot.compare_add(),
                        swap: slot.swap(),
                    });
                }
                Opcode::Write => {
                    self.advance();
                    return Some(Delivery::Write {
                        byte_len: slot.len(),
                    });
                }
                opcode => {
                    if slot.rsn() != self.next_rsn {
                        // The peer skipped a receive. Its packets are acknowledged already, so it
                        // learns by timeout.
                        self.set_fatal(Fatal {
                            msn: self.next,
                            epoch: later_epoch(slot.epoch(), self.seen),
                            why: Refusal::InvalidRequest,
                            receive: None,
                        });
                        continue;
                    }
                    self.advance();
                    self.next_rsn = self.next_rsn.add(1);
                    let inv = opcode == Opcode::SendInv;
                    return Some(Delivery::Receive(Received {
                        rsn: slot.rsn(),
                        opcode,
                        byte_len: slot.len(),
                        imm: if inv { 0 } else { slot.imm() },
                        invalidate: if inv { slot.rkey() } else { 0 },
                        solicited: slot.solicited(),
                    }));
                }
            }
        }
    }

    /// The fatal refusal, once everything before it is delivered and answered.
    fn pop_failed(&mut self) -> Option<Delivery> {
        let fatal = self.fatal.filter(|_| self.ready)?;
        if self.next.before(fatal.msn) || self.resp_head != self.resp_tail {
            return None;
        }
        self.ready = false;
        Some(Delivery::Failed {
            why: fatal.why,
            receive: fatal.receive,
        })
    }

    /// Takes the result of the atomic that [`pop_delivery`](Self::pop_delivery) handed out: the
    /// value found, or why it could not be executed. In that case returns the NAK to be sent.
    pub fn atomic_result(&mut self, result: Result<u64, Refusal>) -> Option<Nak> {
        if !self.executing {
            return None;
        }
        self.executing = false;
        let msn = self.next;
        let epoch = self.slot(msn)?.epoch();
        match result {
            Ok(original) => {
                let response = Response {
                    original,
                    packets: 1,
                    epoch,
                    atomic: true,
                    ..Response::default()
                };
                // Cannot fail: there was room when the atomic was handed out.
                if self.push_response(response) {
                    self.advance();
                }
                None
            }
            Err(why) => Some(self.fail_request(msn, epoch, why)),
        }
    }

    // Responses.

    /// The next response packet to be sent.
    pub fn next_response(&self) -> Option<TxDesc> {
        if self.resp_send == self.resp_tail {
            return None;
        }
        let response = self.response_at(self.resp_send)?;
        let (opcode, len) = if response.atomic {
            (Opcode::AtomicResponse, 0)
        } else {
            let rest = response.len.saturating_sub(self.resp_offset);
            (Opcode::ReadResponse, rest.min(self.mtu.get()))
        };
        let last = self.resp_offset.saturating_add(len) >= response.len;
        Some(TxDesc {
            opcode,
            flags: if last {
                StreamFlags::LAST
            } else {
                StreamFlags::default()
            },
            epoch: response.epoch,
            qpn: self.cfg.qpn,
            peer_qpn: self.cfg.peer_qpn,
            msn: response.msn,
            offset: self.resp_offset,
            len,
        })
    }

    /// Takes the packet that [`next_response`](Self::next_response) showed, which the connection now
    /// has. Returns false, and does nothing, if `desc` is not the next packet any more.
    pub fn commit_response(&mut self, desc: &TxDesc) -> bool {
        if self.next_response().as_ref() != Some(desc) {
            return false;
        }
        if desc.flags.has(StreamFlags::LAST) {
            self.resp_send = self.resp_send.wrapping_add(1);
            self.resp_offset = 0;
            self.skip_dropped();
        } else {
            self.resp_offset = self.resp_offset.saturating_add(desc.len);
        }
        true
    }

    /// How to build the packet of `desc`, first or again; `None` if the response is not owed any
    /// more: a Void packet takes its place.
    pub fn response_packet(&self, desc: &TxDesc) -> Option<ResponsePacket> {
        let response = self.response_at(self.find_response(desc.msn)?)?;
        if response.epoch != desc.epoch {
            return None;
        }
        let opcode = if response.atomic {
            Opcode::AtomicResponse
        } else {
            Opcode::ReadResponse
        };
        if desc.opcode != opcode || response.is_done() {
            return None;
        }
        Some(ResponsePacket {
            fields: DataFields {
                opcode,
                flags: desc.flags,
                dst_qpn: desc.peer_qpn,
                src_qpn: desc.qpn,
                msn: desc.msn,
                epoch: desc.epoch,
                offset: desc.offset,
                original: response.original,
                ..DataFields::default()
            },
            source: MemoryRange {
                va: response.va.wrapping_add(u64::from(desc.offset)),
                rkey: response.rkey,
                len: desc.len,
            },
        })
    }

    /// Credits a response packet that the peer has acknowledged. Room in the response ring can let
    /// [`pop_delivery`](Self::pop_delivery) go on.
    pub fn on_response_acked(&mut self, desc: &TxDesc) {
        let Some(pos) = self.find_response(desc.msn) else {
            return;
        };
        if let Some(response) = self.response_at_mut(pos) {
            // The epoch differs in an earlier life of the QP with the same numbers.
            if response.epoch == desc.epoch {
                response.acked = response.acked.saturating_add(1);
            }
        }
        self.retire_responses();
    }

    /// Gives up the response to `msn`, whose memory is not accessible any more, and ends the stream.
    /// Returns the NAK to be sent, unless the response is not owed any more.
    pub fn response_failed(&mut self, msn: Msn, why: Refusal) -> Option<Nak> {
        let pos = self.find_response(msn)?;
        let response = self.response_at(pos)?;
        if response.is_done() {
            return None;
        }
        let epoch = response.epoch;
        // The requester ends with this message, so later responses are of no use.
        let mut p = pos;
        while p != self.resp_tail {
            if let Some(response) = self.response_at_mut(p) {
                response.dropped = true;
            }
            p = p.wrapping_add(1);
        }
        self.skip_dropped();
        self.retire_responses();
        Some(self.fail_request(msn, epoch, why))
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

    /// Why the very packet `f`, in the window, was refused before. It comes again if there was no
    /// room for the NAK then.
    fn refusal_of(&self, f: &DataFields) -> Option<Refusal> {
        self.slot(f.msn)?.refusal_of(f)
    }

    /// Whether a packet in the window belongs to an attempt that is over.
    fn is_stale(&self, f: &DataFields) -> bool {
        let executing = self.executing && f.msn == self.next;
        let failed = self
            .fatal
            .is_some_and(|x| !f.msn.before(x.msn) && !epoch_before(x.epoch, f.epoch));
        let older = self
            .slot(f.msn)
            .is_some_and(|s| epoch_before(f.epoch, s.epoch()));
        executing || failed || older
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

    /// Forgets the attempts up to the epoch of packet `f` at its message and all later ones, because
    /// that packet is refused.
    ///
    /// What has arrived under higher epochs stays: it shows that the peer has started again by
    /// itself since it sent the refused packet (after [`Nak::not_ready`]), so it will take the NAK
    /// for an echo, and nothing would make it send that once more.
    fn cut(&mut self, f: &DataFields, why: Refusal) {
        let floor = f.epoch.wrapping_add(1);
        self.floor = later_epoch(self.floor, floor);
        for ahead in f.msn.ahead_of(self.next)..self.size {
            let msn = self.next.add(ahead);
            if let Some(slot) = self.slot_mut(msn) {
                if epoch_before(slot.epoch(), floor) {
                    let had_request = slot.has_response();
                    *slot = if msn == f.msn {
                        MsgSlot::refused(f, why)
                    } else {
                        MsgSlot::empty(floor)
                    };
                    self.requests = self.requests.saturating_sub(u32::from(had_request));
                }
            }
        }
    }

    fn set_fatal(&mut self, fatal: Fatal) {
        if self.fatal.is_some_and(|f| !fatal.msn.before(f.msn)) {
            return;
        }
        self.fatal = Some(fatal);
    }

    /// Takes back a fatal refusal if packet `f` shows that the peer has gone back to that message or
    /// an earlier one since: it will be sent again, and judged again.
    fn revise_fatal(&mut self, f: &DataFields) {
        if !self.ready {
            // It is final.
            return;
        }
        self.fatal = self
            .fatal
            .filter(|x| x.msn.before(f.msn) || !epoch_before(x.epoch, f.epoch));
    }

    /// Whether all messages before a fatal refusal are delivered.
    fn is_failing(&self) -> bool {
        self.fatal.is_some_and(|f| !self.next.before(f.msn))
    }

    /// Ends the stream at a Read or an atomic that could not be executed.
    fn fail_request(&mut self, msn: Msn, epoch: u16, why: Refusal) -> Nak {
        // The message may have been complete in an attempt that the peer has given up. But then an
        // earlier message has been complete in the later one, and its epoch was seen.
        let epoch = later_epoch(epoch, self.seen);
        self.set_fatal(Fatal {
            msn,
            epoch,
            why,
            receive: None,
        });
        Nak {
            code: why.code(),
            timer: 0,
            msn,
            epoch,
            qpn: self.cfg.qpn,
            peer_qpn: self.cfg.peer_qpn,
        }
    }

    // The response ring.

    fn response_at(&self, pos: u32) -> Option<&Response> {
        self.responses.get(ring_index(pos, self.responses_size))
    }

    fn response_at_mut(&mut self, pos: u32) -> Option<&mut Response> {
        let index = ring_index(pos, self.responses_size);
        self.responses.get_mut(index)
    }

    fn has_response_room(&self) -> bool {
        self.resp_tail.wrapping_sub(self.resp_head) < self.responses_size
    }

    /// Queues the response to the message at `next`, if there is room.
    fn push_response(&mut self, response: Response) -> bool {
        if !self.has_response_room() {
            return false;
        }
        let (pos, msn) = (self.resp_tail, self.next);
        let Some(entry) = self.response_at_mut(pos) else {
            return false;
        };
        *entry = Response { msn, ..response };
        self.resp_tail = pos.wrapping_add(1);
        true
    }

    /// Position of the response to `msn`. The ring is short, and the oldest one is the usual one.
    fn find_response(&self, msn: Msn) -> Option<u32> {
        let mut pos = self.resp_head;
        while pos != self.resp_tail {
            if self.response_at(pos)?.msn == msn {
                return Some(pos);
            }
            pos = pos.wrapping_add(1);
        }
        None
    }

    /// Moves the send position over responses that were given up.
    fn skip_dropped(&mut self) {
        while self.resp_send != self.resp_tail
            && self.response_at(self.resp_send).is_some_and(|r| r.dropped)
        {
            self.resp_send = self.resp_send.wrapping_add(1);
            self.resp_offset = 0;
        }
    }

    /// Frees what is done at the head of the ring.
    fn retire_responses(&mut self) {
        while self.resp_head != self.resp_send
            && self
                .response_at(self.resp_head)
                .is_some_and(Response::is_done)
        {
            self.resp_head = self.resp_head.wrapping_add(1);
        }
    }
}
