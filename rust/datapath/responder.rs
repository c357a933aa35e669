// SPDX-License-Identifier: GPL-2.0

//! The responder half of a queue pair: request packets go to memory, messages to completions, and
//! reads and atomics get their answers.

use super::{
    cq::{
        Completion,
        WC_WITH_IMM,
        WC_WITH_INVALIDATE, //
    },
    memory::Range,
    mr::{
        access,
        AccessError, //
    },
    now,
    qp::{
        Locked,
        Qp, //
    },
    requester::{
        push_piece,
        BuildError,
        Source, //
    },
    wqe::RecvWr,
};
use crate::{
    net::tx::TxBurst,
    rdma::{
        event::QpEvent,
        umem::Umem, //
    }, //
};
use kernel::prelude::*;
use proto::{
    packet::{
        DataFields,
        Opcode,
        TxDesc, //
    },
    psn::Rsn,
    stream::{
        Delivery,
        MemoryRange,
        Nak,
        Received,
        Refusal,
        ResponsePacket,
        Tail,
        Target,
        Verdict,
        WcStatus, //
    },
};

/// What becomes of a request packet.
pub(super) enum Outcome {
    /// It is to be acknowledged.
    Accept,
    /// The NAK is to be sent while the packet is held.
    Refuse(Nak),
    /// Memory is not there now: the packet is to come again.
    Later,
}

/// Why something could not be done.
pub(super) enum PlaceError {
    Refused(Refusal),
    /// Memory is not there now.
    Absent,
}

impl PlaceError {
    /// What has to do with memory that the peer, or a receive, names is refused for the reason `why`.
    pub(super) fn of(error: AccessError, why: Refusal) -> Self {
        match error {
            AccessError::Absent => Self::Absent,
            _ => Self::Refused(why),
        }
    }
}

impl From<Refusal> for PlaceError {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

/// `IB_WC_RECV`.
const WC_RECV: u32 = 1 << 7;

/// `IB_WC_RECV_RDMA_WITH_IMM`.
const WC_RECV_RDMA_WITH_IMM: u32 = WC_RECV + 1;

impl Qp {
    /// Takes a request packet.
    pub(super) fn on_request(
        &self,
        inner: &mut Locked<'_>,
        fields: &DataFields,
        source: &Source<'_>,
    ) -> Outcome {
        if inner.recv.begin(fields) {
            inner.rq_base = inner.rq.as_ref().map_or(0, |rq| rq.oldest_index());
        }
        let posted = self.receives_posted(inner, fields);
        let nak = match inner.recv.on_packet(fields, source.len(), posted) {
            Verdict::Discard => None,
            Verdict::Refuse(why) => inner.recv.refuse(fields, why),
            // The key must be valid now, as it must be when the message's turn comes.
            Verdict::Place(_)
                if fields.opcode == Opcode::SendInv && !self.may_invalidate(fields.rkey) =>
            {
                inner.recv.refuse(fields, Refusal::InvalidRequest)
            }
            Verdict::Place(target) => match self.place(inner, fields, target, source) {
                Ok(kept) => {
                    inner.recv.placed(fields, source.len());
                    if let Some(tail) = kept {
                        inner.recv.hold(fields, &tail);
                    }
                    None
                }
                Err(PlaceError::Refused(why)) => inner.recv.refuse(fields, why),
                Err(PlaceError::Absent) => return Outcome::Later,
            },
        };
        // A NAK that an atomic or a read brings is not for this packet, and holds nothing; the
        // stream gives the packet's own NAK above.
        self.deliver(inner);
        nak.map_or(Outcome::Accept, Outcome::Refuse)
    }

    /// Returns how many receives there are since RSN 0, having fetched them, if the packet needs to
    /// know.
    fn receives_posted(&self, inner: &mut Locked<'_>, fields: &DataFields) -> Rsn {
        let (base, wanted) = (inner.rq_base, inner.recv_index(fields.rsn));
        let needed = inner.recv.needs_receive(fields);
        let Some(rq) = &mut inner.rq else {
            return Rsn(0);
        };
        if needed && rq.fetch_up_to(wanted).is_err() {
            self.fail_with(inner, QpEvent::Fatal);
            return Rsn(0);
        }
        Rsn(rq.fetched().wrapping_sub(base))
    }

    /// Copies the payload of a request to where it belongs, or checks what it names. Returns what is
    /// to be kept of it until the message's turn.
    fn place(
        &self,
        inner: &Locked<'_>,
        fields: &DataFields,
        target: Target,
        source: &Source<'_>,
    ) -> Result<Option<Tail>, PlaceError> {
        match target {
            Target::Ordered(range) => return self.place_ordered(inner, fields, &range, source),
            Target::None => Ok(()),
            Target::Memory(range) if range.len == 0 => Ok(()),
            Target::ReadFrom(range) if range.len == 0 => Ok(()),
            Target::Memory(range) => {
                let mut done = 0;
                self.remote(&range, access::REMOTE_WRITE, |memory, at, len| {
                    source.copy_to(done, memory, at, len)?;
                    done += len;
                    Ok::<(), AccessError>(())
                })
                .map_err(|error| PlaceError::of(error, Refusal::RemoteAccess))
            }
            Target::ReadFrom(range) => self
                .remote(&range, access::REMOTE_READ, |memory, at, len| {
                    // CAST: `usize` is 64 bits wide here.
                    memory.touch(at, len as usize, false);
                    Ok::<(), AccessError>(())
                })
                .map_err(|error| PlaceError::of(error, Refusal::RemoteAccess)),
            Target::Recv { rsn, offset } => {
                let rq = inner.rq.as_ref().ok_or(Refusal::ReceiveProtection)?;
                let wr = rq
                    .entry(inner.recv_index(rsn))
                    .and_then(RecvWr::parse)
                    .ok_or(Refusal::ReceiveProtection)?;
                if u64::from(offset) + u64::from(source.len()) > wr.list.total() {
                    return Err(Refusal::ReceiveTooShort.into());
                }
                self.endpoint
                    .scatter(rq.pd().unwrap_or(self.pd), wr.list, offset, source)
                    .map_err(|error| PlaceError::of(error, Refusal::ReceiveProtection))
            }
        }
        .map(|()| None)
    }

    /// Calls `f` with each piece of memory that the peer names, see
    /// [`Endpoint::with_remote`](super::endpoint::Endpoint::with_remote).
    pub(super) fn remote<E: From<AccessError>>(
        &self,
        range: &MemoryRange,
        rights: u32,
        f: impl FnMut(&Umem, usize, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let range = Range {
            key: range.rkey,
            va: range.va,
            len: range.len,
            rights,
        };
        self.endpoint.with_remote((self.pd, self.serial), &range, f)
    }

    /// Carries out what has come to its turn.
    pub(super) fn deliver(&self, inner: &mut Locked<'_>) {
        while let Some(delivery) = inner.recv.pop_delivery() {
            match delivery {
                Delivery::Write { .. } => {}
                Delivery::Tail { target, tail } => {
                    if self.write_tail(&target, tail.bytes()).is_err() {
                        // The region is gone since the packet came, whose sender thinks it done.
                        self.fail_with(inner, QpEvent::AccessError);
                    }
                }
                Delivery::Receive(received) => self.complete_receive(inner, &received),
                Delivery::Atomic {
                    opcode,
                    target,
                    what,
                    compare_add,
                    swap,
                } => {
                    let result = match opcode {
                        Opcode::Flush => self.flush_memory(&target, what),
                        _ => match self.atomic(opcode, &target, compare_add, swap) {
                            Ok(found) => Ok(found),
                            Err(PlaceError::Refused(why)) => Err(why),
                            Err(PlaceError::Absent) => {
                                // The peer's patience may end before that of this side, which is
                                // that of its process.
                                inner.recv.atomic_later();
                                self.timer.arm_by(inner.patience.next(now()).0);
                                return;
                            }
                        },
                    };
                    inner.patience.end();
                    if let Some(nak) = inner.recv.atomic_result(result) {
                        self.tell(inner, &nak);
                    }
                }
                Delivery::Failed { why, receive } => {
                    if let Some((rsn, status)) = receive {
                        self.fail_receive(inner, rsn, status);
                    }
                    let event = match why {
                        Refusal::RemoteAccess => QpEvent::AccessError,
                        Refusal::InvalidRequest => QpEvent::RequestError,
                        _ => QpEvent::Fatal,
                    };
                    self.fail(inner);
                    // IBTA 9.9.3: an error that a receive completion tells needs no event.
                    if receive.is_none() {
                        self.events.report(event);
                    }
                }
            }
        }
    }

    fn atomic(
        &self,
        opcode: Opcode,
        target: &MemoryRange,
        compare_add: u64,
        swap: u64,
    ) -> Result<u64, PlaceError> {
        let rights = match opcode {
            Opcode::AtomicWrite => access::REMOTE_WRITE,
            _ => access::REMOTE_ATOMIC,
        };
        let mut found = Err(EFAULT);
        self.remote(target, rights, |memory, at, len| {
            // A word that is aligned is in one piece.
            found = match opcode {
                _ if len != target.len => Err(EFAULT),
                Opcode::CmpSwap => memory.compare_exchange(at, compare_add, swap),
                Opcode::AtomicWrite => memory.store(at, swap).map(|()| 0),
                _ => memory.fetch_add(at, compare_add),
            };
            Ok::<(), AccessError>(())
        })
        .map_err(|error| PlaceError::of(error, Refusal::RemoteAccess))?;
        found.map_err(|error| match error {
            EAGAIN => PlaceError::Absent,
            _ => PlaceError::Refused(Refusal::InvalidRequest),
        })
    }

    /// Sees to it that what was written to memory is visible to all. It is already: packets are
    /// copied by a CPU, and what tells that they were is ordered behind it. There is no memory that
    /// is durable, and so none that can be asked to be.
    fn flush_memory(&self, target: &MemoryRange, what: u32) -> Result<u64, Refusal> {
        /// `IB_FLUSH_MR`: all of the region, whatever range is named.
        const REGION: u32 = 1;

        // The placement types have the order of the rights.
        let placement = what & 0xff;
        let selectivity = what >> 8;
        let rights = placement * access::FLUSH_GLOBAL;
        let known = access::FLUSH_GLOBAL | access::FLUSH_PERSISTENT;
        if placement == 0 || rights & !known != 0 || selectivity > REGION {
            return Err(Refusal::InvalidRequest);
        }
        let checked = if selectivity == REGION {
            self.endpoint.mrs().has_rights(self.pd, target.rkey, rights)
        } else {
            self.remote(target, rights, |_, _, _| Ok::<(), AccessError>(()))
        };
        checked.map(|()| 0).map_err(|_| Refusal::RemoteAccess)
    }

    fn complete_receive(&self, inner: &mut Locked<'_>, received: &Received) {
        if received.opcode == Opcode::SendInv && !self.invalidate(received.invalidate) {
            // Invalidated otherwise since the message came. Its sender thinks it done; there is
            // only the receive left to fail.
            self.fail_receive(inner, received.rsn, WcStatus::RemoteInvalidRequest);
            self.fail_with(inner, QpEvent::AccessError);
            return;
        }
        let index = inner.recv_index(received.rsn);
        let wr_id = inner
            .rq
            .as_ref()
            .and_then(|rq| rq.entry(index))
            .and_then(RecvWr::parse)
            .map_or(0, |wr| wr.wr_id);
        let (opcode, wc_flags, imm) = match received.opcode {
            Opcode::WriteImm => (WC_RECV_RDMA_WITH_IMM, WC_WITH_IMM, received.imm.to_be()),
            Opcode::SendImm => (WC_RECV, WC_WITH_IMM, received.imm.to_be()),
            Opcode::SendInv => (WC_RECV, WC_WITH_INVALIDATE, received.invalidate),
            _ => (WC_RECV, 0, 0),
        };
        let completion = Completion {
            wr_id,
            status: WcStatus::Success.to_ib(),
            opcode,
            byte_len: received.byte_len,
            imm,
            qp_num: self.qpn(),
            wc_flags,
            src_qp: inner.attr.dest_qp_num,
            ..Completion::default()
        };
        // First the slot, then the completion: who sees that posts the next receive at once.
        if let Some(rq) = &mut inner.rq {
            rq.retire();
        }
        let lost = self.recv_cq.push(&completion, received.solicited).is_err();
        if lost {
            self.fail_with(inner, QpEvent::Fatal);
        }
    }

    /// Completes the receive that a refused message was to consume. It is the oldest one.
    fn fail_receive(&self, inner: &mut Locked<'_>, rsn: Rsn, status: WcStatus) {
        let index = inner.recv_index(rsn);
        let Some(rq) = &mut inner.rq else {
            return;
        };
        let Some(wr) = rq.entry(index).and_then(RecvWr::parse) else {
            return;
        };
        let completion = Completion {
            wr_id: wr.wr_id,
            status: status.to_ib(),
            opcode: WC_RECV,
            qp_num: self.qpn(),
            ..Completion::default()
        };
        rq.retire();
        let _ = self.recv_cq.push(&completion, false);
    }

    /// Sends a NAK that holds no packet.
    fn tell(&self, inner: &mut Locked<'_>, nak: &Nak) {
        inner.nak = Some(*nak);
    }

    /// Adds the payload of a response packet to the burst's current segment, and to its CRC if
    /// there is to be one.
    pub(super) fn push_response(
        &self,
        packet: &ResponsePacket,
        burst: &mut TxBurst,
        sum: &mut Option<u32>,
    ) -> Result<(), BuildError> {
        let source = &packet.source;
        if source.len == 0 {
            return Ok(());
        }
        self.remote(source, access::REMOTE_READ, |memory, at, len| {
            push_piece(memory, at, len, burst, sum)
        })
    }

    /// The memory that a response reads is not accessible any more, of which a packet is to be sent
    /// again.
    pub(super) fn response_gone(&self, inner: &mut Locked<'_>, desc: &TxDesc) {
        if let Some(nak) = inner.recv.response_gone(desc.msn) {
            self.tell(inner, &nak);
        }
    }

    /// The memory that a response reads is not accessible any more.
    pub(super) fn response_failed(&self, inner: &mut Locked<'_>, desc: &TxDesc) {
        if let Some(nak) = inner.recv.response_failed(desc.msn, Refusal::RemoteAccess) {
            self.tell(inner, &nak);
        }
        self.deliver(inner);
    }
}
