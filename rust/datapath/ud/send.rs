// SPDX-License-Identifier: GPL-2.0

//! Sending datagrams.
//!
//! The message is copied: with its completion, which comes at once, the memory is the user's again,
//! while the packet may still wait in a queue of the host, or of the receiver's if that is the
//! same.

use super::{
    route::CachedRoute,
    Locked,
    Ud,
    UdInner, //
};
use crate::{
    datapath::{
        ah::Destination,
        cq::Completion,
        limits::MAX_DATAGRAM,
        mr::AccessError,
        wqe::{
            Payload,
            SendOp,
            SendWr, //
        },
    },
    net::{
        crc,
        tx::TxBurst, //
    },
    rdma::{
        event::QpEvent,
        qp::QpState, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use proto::{
    packet::Qpn,
    stream::WcStatus,
    wire::{
        crc as wire_crc,
        DatagramHeader,
        CRC_OFFSET,
        DATAGRAM_LEN, //
    },
};

/// Work requests that are carried out under one hold of the lock.
const BATCH: usize = 64;

/// A key of which the most significant bit is set is a controlled one: it stands for the queue
/// pair's own, which no process can make such a one without privilege (IBTA 10.2.5).
const CONTROLLED_QKEY: u32 = 1 << 31;

/// Not ECN-capable: nobody would react to marks.
const NOT_ECT: u8 = 0;

/// A checked work request.
struct Message<'a> {
    header: DatagramHeader,
    to: Destination,
    source_port: u16,
    payload: Payload<'a>,
    len: u32,
}

impl Message<'_> {
    /// Bytes above UDP.
    fn size(&self) -> u32 {
        // CAST: A small constant.
        DATAGRAM_LEN as u32 + self.len
    }
}

/// Why a message could not be added to a burst.
enum PushError {
    /// Its memory may not be used.
    Protection,
    /// Its memory is not there now, and is being fetched.
    Absent,
    /// The burst is full, or there is no memory for it.
    NoRoom,
}

impl From<AccessError> for PushError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Absent => Self::Absent,
            _ => Self::Protection,
        }
    }
}

impl From<Error> for PushError {
    /// What went wrong with memory or with the burst.
    fn from(error: Error) -> Self {
        match error {
            EAGAIN => Self::Absent,
            EFAULT => Self::Protection,
            _ => Self::NoRoom,
        }
    }
}

/// Why a work request was not carried out.
enum SendError {
    /// It ends with this status.
    Failed(WcStatus),
    /// Its memory is being fetched: to be tried again.
    Absent,
}

impl From<WcStatus> for SendError {
    fn from(status: WcStatus) -> Self {
        Self::Failed(status)
    }
}

/// Datagrams that wait to leave together, by the route that the queue pair has cached.
#[derive(Default)]
struct Pending {
    burst: Option<TxBurst>,
    /// Where all of them go.
    to: Destination,
    source_port: u16,
    /// Size of the first; all but the last are as long.
    first: u32,
    /// A shorter one was the last.
    closed: bool,
    /// Datagrams that have left.
    sent: u64,
}

impl Pending {
    fn is_for(&self, message: &Message<'_>) -> bool {
        self.to == message.to && self.source_port == message.source_port
    }

    /// Hands over what is collected.
    fn flush(&mut self, qp: &Ud, route: Option<&CachedRoute>) {
        let endpoint = &qp.endpoint;
        let Some(mut burst) = self.burst.take() else {
            return;
        };
        // CAST: At most as many as a burst has segments.
        let n = burst.segments() as u64;
        let ttl = self.to.hop_limit.max(1);
        burst.charge(&qp.account);
        let route = route.map(|cached| &cached.route).ok_or(ENETUNREACH);
        let sent = endpoint.counters.xmit(burst, route, NOT_ECT, ttl);
        if sent.is_ok() {
            endpoint.counters.datagrams_sent(n);
            self.sent += n;
        }
    }
}

impl Ud {
    /// Sends what is posted. Returns whether there may be more: the caller comes back later, so
    /// that nobody is kept from the CPU for as long as a process posts.
    pub(super) fn send_posted(self: &Arc<Self>, inner: &mut Locked<'_>) -> bool {
        let mut pending = Pending::default();
        let mut more = true;
        for _ in 0..BATCH {
            if self.account.must_wait() {
                more = false;
                // When packets have left, this goes on without a doorbell.
                inner.sq.stay_awake();
                break;
            }
            // One whose memory was not there is still in work.
            let next = match inner.sq.oldest() {
                Some(index) => Ok(Some(index)),
                None => inner.sq.fetch(),
            };
            more = match next {
                Ok(Some(index)) => self.send(inner, index, &mut pending),
                Ok(None) => match inner.sq.sleep() {
                    Ok(asleep) => !asleep,
                    Err(_) => self.wild_ring(inner),
                },
                Err(_) => self.wild_ring(inner),
            };
            if !more {
                break;
            }
        }
        pending.flush(self, inner.route.as_ref());
        if let Some(counters) = inner.counters.as_ref().filter(|_| pending.sent > 0) {
            counters.datagrams_sent(pending.sent);
        }
        if more {
            inner.sq.stay_awake();
        }
        more
    }

    fn wild_ring(self: &Arc<Self>, inner: &mut Locked<'_>) -> bool {
        self.fail_with(inner, QpEvent::Fatal);
        false
    }

    /// Carries out the work request `index`, and completes it. Returns whether to go on with the
    /// next.
    fn send(self: &Arc<Self>, inner: &mut Locked<'_>, index: u32, pending: &mut Pending) -> bool {
        let entry = inner.sq.entry(index);
        let wr_id = entry.map_or(0, SendWr::wr_id_of);
        let (signaled, opcode) = entry
            .and_then(SendWr::parse)
            .map_or((true, 0), |wr| (wr.signaled(), wr.op.wc_opcode()));
        let result = match self.transmit(inner, index, pending) {
            Ok(len) => Ok(len),
            Err(SendError::Failed(status)) => Err(status),
            Err(SendError::Absent) => {
                // The timer goes on with it, without a doorbell.
                inner.sq.stay_awake();
                self.wait_for_memory(&mut inner.patience);
                return false;
            }
        };
        inner.patience.end();
        // First the slot, then the completion: who sees that posts the next request at once.
        inner.sq.retire();
        if signaled || self.signal_all || result.is_err() {
            let completion = Completion {
                wr_id,
                status: result.err().unwrap_or(WcStatus::Success).to_ib(),
                opcode,
                byte_len: result.unwrap_or(0),
                qp_num: self.key(),
                ..Completion::default()
            };
            if self.send_cq.push(&completion, false).is_err() {
                self.fail_with(inner, QpEvent::Fatal);
                return false;
            }
        }
        if result.is_err() {
            // Receiving goes on (IBTA 10.3.1).
            inner.state = QpState::SendQueueError;
            self.flush_sends(inner);
            return false;
        }
        true
    }

    /// Sends the message of the work request `index`, and returns its length.
    ///
    /// A message that finds no way out of the host is lost, like any datagram may be.
    fn transmit(
        &self,
        inner: &mut UdInner,
        index: u32,
        pending: &mut Pending,
    ) -> Result<u32, SendError> {
        let UdInner {
            sq, route, attr, ..
        } = inner;
        let entry = sq.entry(index).ok_or(WcStatus::LocalQpOperation)?;
        let message = self.check(entry, attr.qkey)?;
        let (to, source_port) = (&message.to, message.source_port);
        if !pending.is_for(&message) {
            pending.flush(self, route.as_ref());
            (pending.to, pending.source_port) = (*to, source_port);
        }
        if !route
            .as_ref()
            .is_some_and(|cached| cached.is_for(&self.endpoint, to, source_port))
        {
            // What is collected was for the same destination and goes the new way.
            *route = CachedRoute::look_up(&self.endpoint, to, source_port).ok();
        }
        if message.len > route.as_ref().map_or(MAX_DATAGRAM, |cached| cached.mtu) {
            return Err(WcStatus::LocalLength.into());
        }
        if pending.burst.is_some() && (pending.closed || message.size() > pending.first) {
            pending.flush(self, route.as_ref());
        }
        let mut pushed = self.push(&message, pending);
        if matches!(pushed, Err(PushError::NoRoom)) && pending.burst.is_some() {
            // It may only be that the burst is full.
            pending.flush(self, route.as_ref());
            pushed = self.push(&message, pending);
        }
        match pushed {
            Ok(()) => Ok(message.len),
            Err(PushError::Protection) => Err(WcStatus::LocalProtection.into()),
            Err(PushError::Absent) => Err(SendError::Absent),
            Err(PushError::NoRoom) => {
                self.endpoint.counters.not_sent();
                Ok(message.len)
            }
        }
    }

    /// Checks a work request, and finds out where it goes.
    fn check<'a>(&self, entry: &'a [u8], own_key: u32) -> Result<Message<'a>, WcStatus> {
        let bad = WcStatus::LocalQpOperation;
        let wr = SendWr::parse(entry).ok_or(bad)?;
        let imm = match wr.op {
            SendOp::Send => None,
            SendOp::SendImm => Some(u32::from_be(wr.imm)),
            _ => return Err(bad),
        };
        let datagram = wr.datagram();
        let (to, list_end) = if self.is_kernel {
            let at = entry.len().checked_sub(Destination::SIZE).ok_or(bad)?;
            let to = entry.get(at..).and_then(Destination::decode).ok_or(bad)?;
            (to, at)
        } else {
            let ah = self.endpoint.ahs.lookup(datagram.ah).ok_or(bad)?;
            if ah.pd != self.pd {
                return Err(bad);
            }
            (ah.destination(), entry.len())
        };
        let payload = entry
            .get(..list_end)
            .and_then(|entry| wr.payload(entry))
            .ok_or(bad)?;
        let total = match payload {
            Payload::Inline(data) => data.len() as u64,
            Payload::List(list) => {
                if list
                    .iter()
                    .any(|sge| self.endpoint.check_local(self.pd, &sge, 0).is_err())
                {
                    return Err(WcStatus::LocalProtection);
                }
                list.total()
            }
        };
        let len = u32::try_from(total)
            .ok()
            .filter(|len| *len <= MAX_DATAGRAM)
            .ok_or(WcStatus::LocalLength)?;
        let q_key = match datagram.q_key {
            key if key & CONTROLLED_QKEY != 0 => own_key,
            key => key,
        };
        Ok(Message {
            header: DatagramHeader {
                dst_qpn: Qpn(datagram.qpn & 0xff_ffff),
                src_qpn: Qpn(self.qpn()),
                q_key,
                imm,
                solicited: wr.solicited(),
                src_gid: to.src,
                dst_gid: to.dst,
            },
            source_port: to.source_port(self.qpn(), datagram.qpn),
            to,
            payload,
            len,
        })
    }

    /// Adds a message to the burst.
    fn push(&self, message: &Message<'_>, pending: &mut Pending) -> Result<(), PushError> {
        let fresh = pending.burst.is_none();
        if fresh {
            pending.burst = Some(TxBurst::new().map_err(|_| PushError::NoRoom)?);
            pending.first = message.size();
            pending.closed = false;
        }
        let burst = pending.burst.as_mut().ok_or(PushError::NoRoom)?;
        burst.set_priority(message.to.priority.into());
        let written = self.write(message, burst);
        if written.is_err() {
            burst.segment_abort();
            if fresh {
                pending.burst = None;
            }
        } else {
            pending.closed = message.size() < pending.first;
        }
        written
    }

    /// Writes a datagram as a segment of a burst.
    fn write(&self, message: &Message<'_>, burst: &mut TxBurst) -> Result<(), PushError> {
        let mut buf = [0u8; DATAGRAM_LEN];
        message.header.emit(&mut buf).ok_or(PushError::NoRoom)?;
        burst.push_header(&buf)?;
        let mut sum = Some(crc::crc32c(wire_crc::CRC_SEED, &buf));
        match message.payload {
            Payload::Inline(data) => {
                sum = sum.map(|sum| crc::crc32c(sum, data));
                burst.push_bytes(data)?;
            }
            Payload::List(list) => {
                list.walk(0, message.len.into(), |sge| {
                    self.endpoint.with_local(self.pd, &sge, 0, |memory, at, n| {
                        // CAST: `usize` is 64 bits wide here.
                        burst.push_umem_copy(memory, at, n as usize, &mut sum)?;
                        Ok::<(), PushError>(())
                    })
                })
                .ok_or(PushError::Protection)??;
            }
        }
        if let Some(sum) = sum {
            burst.patch_header(CRC_OFFSET, &wire_crc::finish(sum).to_be_bytes())?;
        }
        burst.segment_end()?;
        Ok(())
    }
}
