// SPDX-License-Identifier: GPL-2.0

//! The requester half of a queue pair: from the send queue to packets, and from acknowledgements
//! to completions.

use super::{
    cq::Completion,
    fast::FastTable,
    mr::{
        access,
        AccessError, //
    },
    now,
    qp::{
        Locked,
        Qp,
        QpInner, //
    },
    wqe::{
        Payload,
        SendOp,
        SendWr,
        Sge, //
    },
};
use crate::{
    net::{
        skbuff::RxSkb,
        tx::TxBurst, //
    },
    rdma::{
        event::QpEvent,
        qp::QpState,
        umem::Umem, //
    },
};
use kernel::prelude::*;
use proto::{
    packet::{
        DataFields,
        TxDesc, //
    },
    stream::{
        self,
        RequestPacket,
        ResponseTarget,
        SendWork,
        WcStatus, //
    },
};

/// Why a packet could not be built.
pub(super) enum BuildError {
    /// The work request's memory may not be used (any more).
    Protection,
    /// The burst has no room: try it in the next one. Or memory is not there now: what could not be
    /// built counts as lost, and comes again.
    NoRoom,
}

impl From<AccessError> for BuildError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Absent => BuildError::NoRoom,
            _ => BuildError::Protection,
        }
    }
}

impl Qp {
    /// Takes work requests off the send queue while the stream has room for them, and carries out
    /// those that send nothing if it is their turn.
    ///
    /// Returns whether there may be more that can be carried out at once: such work requests make
    /// room for the next ones, and a process that goes on posting them is not to keep the lock.
    pub(super) fn fetch(&self, inner: &mut Locked<'_>) -> bool {
        self.fetch_posted(inner);
        self.run_local(inner)
    }

    /// Takes work requests off the send queue while the stream has room for them.
    ///
    /// Returns whether the queue is to be looked at again without a doorbell, as it is not empty.
    fn fetch_posted(&self, inner: &mut Locked<'_>) -> bool {
        loop {
            if inner.state != QpState::ReadyToSend {
                return false;
            }
            if !inner.send.can_post() {
                inner.sq.stay_awake();
                return true;
            }
            match inner.sq.fetch() {
                Ok(Some(index)) => self.post(inner, index),
                Ok(None) => match inner.sq.sleep() {
                    Ok(true) => return false,
                    Ok(false) => {}
                    Err(_) => return self.wild_ring(inner),
                },
                Err(_) => return self.wild_ring(inner),
            }
        }
    }

    fn wild_ring(&self, inner: &mut Locked<'_>) -> bool {
        self.fail_with(inner, QpEvent::Fatal);
        false
    }

    /// Hands the fetched work request `index` to the stream.
    fn post(&self, inner: &mut QpInner, index: u32) {
        let (work, bad) = match inner.sq.entry(index) {
            Some(entry) => self.translate(entry, index),
            None => (SendWork::default(), Some(WcStatus::LocalQpOperation)),
        };
        // There is room, the caller has looked.
        let _ = match bad {
            None => inner.send.post(now(), &work),
            Some(status) => inner.send.post_broken(now(), &work, status),
        };
    }

    /// Translates a work request for the stream, and says what is wrong with it.
    fn translate(&self, entry: &[u8], index: u32) -> (SendWork, Option<WcStatus>) {
        let mut work = SendWork {
            cookie: index,
            ..SendWork::default()
        };
        let Some(wr) = SendWr::parse(entry) else {
            return (work, Some(WcStatus::LocalQpOperation));
        };
        let op = stream_op(wr.op);
        work.op = op;
        // What is answered has no place in the stream either.
        if self.is_unreliable() && wr.op == SendOp::SendInv {
            return (work, Some(WcStatus::LocalQpOperation));
        }
        if op == stream::SendOp::Local {
            work.fence = wr.fence();
            // IBTA 1.4, 10.6.5.1: what uses the key has been carried out.
            work.after_all = wr.op == SendOp::LocalInv;
            return (work, None);
        }
        work.fence = wr.fence();
        work.solicited = wr.solicited();
        work.va = wr.remote_addr;
        work.rkey = wr.rkey;
        work.imm_or_inv = match wr.op {
            SendOp::SendInv | SendOp::Flush => wr.imm,
            _ => u32::from_be(wr.imm),
        };
        work.compare_add = wr.compare_add;
        work.swap = wr.swap;
        if matches!(wr.op, SendOp::AtomicWrite | SendOp::Flush) {
            // They name no local memory.
            work.len = wr.flush_len();
            return (work, None);
        }
        let total = match wr.payload(entry) {
            Some(Payload::Inline(_)) if op.has_response() => {
                return (work, Some(WcStatus::LocalQpOperation));
            }
            Some(Payload::Inline(data)) => data.len() as u64,
            Some(Payload::List(list)) => {
                let rights = if op.has_response() {
                    access::LOCAL_WRITE
                } else {
                    0
                };
                let total = list.total();
                // Nothing is looked at for what is refused below.
                let mut ahead = if total <= u64::from(stream::MAX_MSG_LEN) {
                    Umem::AHEAD
                } else {
                    0
                };
                // A key for fast registration may be opened by a work request in front of this one:
                // it is looked at when it is used.
                let mut is_wrong = |sge: &Sge| {
                    let checked = self.endpoint.touch_local(self.pd, sge, rights, &mut ahead);
                    checked.is_err() && !FastTable::owns(sge.lkey)
                };
                if list.iter().any(|sge| is_wrong(&sge)) {
                    return (work, Some(WcStatus::LocalProtection));
                }
                total
            }
            None => return (work, Some(WcStatus::LocalQpOperation)),
        };
        match u32::try_from(total) {
            Ok(len) if len <= stream::MAX_MSG_LEN && !(op.is_atomic() && len < 8) => {
                work.len = len;
                (work, None)
            }
            _ => (work, Some(WcStatus::LocalLength)),
        }
    }

    /// Completes what the stream has done, and moves to the error state if it has ended.
    pub(super) fn complete_sent(&self, inner: &mut Locked<'_>) {
        let mut lost = false;
        while let Some(done) = inner.send.pop_completed() {
            let wr = inner.sq.entry(done.cookie).map(|entry| {
                SendWr::parse(entry).map_or((SendWr::wr_id_of(entry), true, 0), |wr| {
                    (wr.wr_id, wr.signaled(), wr.op.wc_opcode())
                })
            });
            // First the slot, then the completion: who sees that posts the next request at once.
            inner.sq.retire();
            if let Some((wr_id, signaled, opcode)) = wr {
                if signaled || self.signal_all || done.status != WcStatus::Success {
                    let completion = Completion {
                        wr_id,
                        status: done.status.to_ib(),
                        opcode,
                        byte_len: done.byte_len,
                        qp_num: self.qpn(),
                        ..Completion::default()
                    };
                    lost |= self.send_cq.push(&completion, false).is_err();
                }
            }
        }
        let told = matches!(inner.state, QpState::Error | QpState::SendQueueError);
        if inner.send.is_flushing() && !told {
            self.fail_sending(inner);
        } else if lost {
            self.fail_with(inner, QpEvent::Fatal);
        }
        self.tell_drained(inner);
    }

    /// Adds the payload of a request packet to the burst's current segment, and to its CRC if
    /// there is to be one.
    pub(super) fn push_request(
        &self,
        inner: &QpInner,
        packet: &RequestPacket,
        burst: &mut TxBurst,
        sum: &mut Option<u32>,
    ) -> Result<(), BuildError> {
        if packet.len == 0 {
            return Ok(());
        }
        let entry = inner
            .sq
            .entry(packet.cookie)
            .ok_or(BuildError::Protection)?;
        let payload = SendWr::parse(entry)
            .and_then(|wr| wr.payload(entry))
            .ok_or(BuildError::Protection)?;
        match payload {
            Payload::Inline(data) => {
                // CAST: `usize` is 64 bits wide here.
                let start = packet.offset as usize;
                let data = data
                    .get(start..start + packet.len as usize)
                    .ok_or(BuildError::Protection)?;
                *sum = sum.map(|sum| crate::net::crc::crc32c(sum, data));
                burst.push_bytes(data).map_err(|_| BuildError::NoRoom)?;
            }
            Payload::List(list) => {
                list.walk(packet.offset.into(), packet.len.into(), |sge| {
                    self.endpoint
                        .with_local(self.pd, &sge, 0, |memory, at, len| {
                            push_piece(memory, at, len, burst, sum)
                        })
                })
                .ok_or(BuildError::Protection)??;
            }
        }
        Ok(())
    }

    /// The memory of a request's work request is not accessible any more.
    pub(super) fn request_failed(&self, inner: &mut Locked<'_>, desc: &TxDesc) {
        inner.send.fail_message(desc.msn, WcStatus::LocalProtection);
        self.complete_sent(inner);
    }

    /// Takes a response packet, whose payload is the `len` bytes at `off` of `skb`. Returns false if
    /// it cannot be taken now.
    pub(super) fn on_response(
        &self,
        inner: &mut Locked<'_>,
        fields: &DataFields,
        skb: &RxSkb,
        off: usize,
        len: u32,
    ) -> bool {
        let target = inner.send.on_response(fields, len);
        let placed = match target {
            ResponseTarget::Ignore | ResponseTarget::Mismatch(_) => None,
            ResponseTarget::Nothing => Some(Ok(())),
            ResponseTarget::Place { cookie, offset } => {
                Some(self.place_response(inner, cookie, offset, Source::Packet(skb, off, len)))
            }
            ResponseTarget::Atomic { cookie, original } => {
                let word = original.to_ne_bytes();
                Some(self.place_response(inner, cookie, 0, Source::Bytes(&word)))
            }
        };
        match placed {
            Some(Ok(())) => inner.send.response_placed(now(), fields),
            Some(Err(AccessError::Absent)) => return false,
            Some(Err(_)) => inner
                .send
                .fail_message(fields.msn, WcStatus::LocalProtection),
            None => {}
        }
        self.complete_sent(inner);
        true
    }

    fn place_response(
        &self,
        inner: &QpInner,
        cookie: u32,
        offset: u32,
        source: Source<'_>,
    ) -> Result<(), AccessError> {
        let entry = inner.sq.entry(cookie).ok_or(AccessError::Key)?;
        let payload = SendWr::parse(entry).and_then(|wr| wr.payload(entry));
        let Some(Payload::List(list)) = payload else {
            return Err(AccessError::Key);
        };
        self.endpoint.scatter(self.pd, list, offset, &source)
    }
}

/// Adds `len` bytes at `at` in memory to the burst's current segment, and to its CRC.
pub(super) fn push_piece(
    memory: &Umem,
    at: usize,
    len: u32,
    burst: &mut TxBurst,
    sum: &mut Option<u32>,
) -> Result<(), BuildError> {
    // CAST: `usize` is 64 bits wide here.
    burst
        .push_umem(memory, at, len as usize, sum)
        .map_err(|error| match error {
            EFAULT => BuildError::Protection,
            _ => BuildError::NoRoom,
        })
}

/// Data on their way to user memory.
pub(super) enum Source<'a> {
    /// That many bytes at this offset of a received packet.
    Packet(&'a RxSkb, usize, u32),
    Bytes(&'a [u8]),
}

impl Source<'_> {
    pub(super) fn len(&self) -> u32 {
        match self {
            Source::Packet(_, _, len) => *len,
            // CAST: at most a handful of bytes.
            Source::Bytes(b) => b.len() as u32,
        }
    }

    /// Copies the bytes at `from` of the data.
    pub(super) fn read(&self, from: u32, to: &mut [u8]) -> Result<(), AccessError> {
        // CAST: `usize` is 64 bits wide here.
        let from = from as usize;
        match self {
            Source::Packet(skb, off, _) => skb.copy(off + from, to),
            Source::Bytes(b) => b
                .get(from..from + to.len())
                .ok_or(EFAULT)
                .map(|b| to.copy_from_slice(b)),
        }
        .map_err(AccessError::from)
    }

    /// Copies the `len` bytes at `from` of the data to `at` in memory.
    pub(super) fn copy_to(
        &self,
        from: u32,
        memory: &Umem,
        at: usize,
        len: u32,
    ) -> Result<(), AccessError> {
        // CAST: `usize` is 64 bits wide here.
        let (from, len) = (from as usize, len as usize);
        match self {
            Source::Packet(skb, off, _) => skb.copy_to_umem(off + from, memory, at, len),
            Source::Bytes(b) => b
                .get(from..from + len)
                .ok_or(EFAULT)
                .and_then(|b| memory.write(at, b)),
        }
        .map_err(AccessError::from)
    }
}

/// What the stream calls an operation.
fn stream_op(op: SendOp) -> stream::SendOp {
    match op {
        SendOp::Write => stream::SendOp::Write,
        SendOp::WriteImm => stream::SendOp::WriteImm,
        SendOp::Send => stream::SendOp::Send,
        SendOp::SendImm => stream::SendOp::SendImm,
        SendOp::SendInv => stream::SendOp::SendInv,
        SendOp::Read => stream::SendOp::Read,
        SendOp::CmpSwap => stream::SendOp::CmpSwap,
        SendOp::FetchAdd => stream::SendOp::FetchAdd,
        SendOp::AtomicWrite => stream::SendOp::AtomicWrite,
        SendOp::Flush => stream::SendOp::Flush,
        SendOp::LocalInv | SendOp::BindMw | SendOp::RegMr => stream::SendOp::Local,
    }
}
