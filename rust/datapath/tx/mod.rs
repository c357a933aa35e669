// SPDX-License-Identifier: GPL-2.0

//! Sending: what the transport has due becomes socket buffers.
//!
//! Everything that a path carries gets its PSN and goes to the network under one hold of the
//! connection's lock, so a path stays in order on the host.
//!
//! Here queue pairs get their turns; [`again`] sends what was lost, [`control`] what connections
//! tell each other. [`burst`] collects packets, [`packet`] writes them.

mod again;
mod burst;
mod control;
mod packet;

use self::{
    burst::Sender,
    packet::Content, //
};
use super::{
    conn::Conn,
    now,
    qp::{
        Locked,
        Qp,
        QpInner, //
    },
    qp_counters::QpCounters,
    requester::BuildError,
};
use crate::rdma::qp::QpState;
use kernel::sync::Arc;
use proto::packet::{
    Opcode,
    TxDesc, //
};

/// Queue pairs served in one round, and bursts sent for each, before others get their turn.
const TURNS: usize = 16;
const BURSTS: usize = 4;

/// What became of a queue pair's turn.
enum Turn {
    /// It has nothing to send now.
    Done,
    /// It goes to the end of the queue.
    More,
    /// No path takes anything now.
    Blocked,
}

impl Conn {
    /// One round of everything that may have come due.
    pub(super) fn pass(&self) {
        self.send_control();
        self.send_again();
        self.serve();
        self.conclude();
    }

    /// Gives the waiting queue pairs their turns.
    fn serve(&self) {
        for _ in 0..TURNS {
            let Some(qpn) = self.dequeue() else {
                return;
            };
            let Some(qp) = self.endpoint.host().qps.lookup(qpn) else {
                continue;
            };
            match qp.turn(self) {
                Turn::Done => {}
                Turn::More => qp.want_again(self, false),
                Turn::Blocked => {
                    qp.want_again(self, true);
                    return;
                }
            }
        }
        // The others wait for the next round, after acknowledgements had theirs.
        self.ask_again();
    }
}

impl QpInner {
    /// Whether the queue pair is connected by `conn`.
    pub(super) fn belongs_to(&self, conn: &Conn) -> bool {
        self.conn.as_deref().is_some_and(|c| core::ptr::eq(c, conn))
    }

    /// The counter that the queue pair is bound to, if it is connected by `conn`.
    fn counters_on(&self, conn: &Conn) -> Option<&QpCounters> {
        self.counters.as_deref().filter(|_| self.belongs_to(conn))
    }

    /// What the packet of `desc` carries; [`None`] if there is nothing to send in it any more.
    fn content(&self, desc: &TxDesc) -> Option<Content> {
        match desc.opcode {
            Opcode::ReadResponse | Opcode::AtomicResponse => {
                self.recv.response_packet(desc).map(Content::Response)
            }
            Opcode::Nak => Some(Content::nak(desc)),
            _ => self.send.packet(desc).map(Content::Request),
        }
    }

    /// The next packet of the queue pair, if one may be sent now: refusals, answers, requests.
    pub(super) fn next_packet(&self) -> Option<TxDesc> {
        if let Some(nak) = &self.nak {
            return Some(nak.to_desc());
        }
        self.recv
            .next_response()
            .or_else(|| self.send.next_segment(now()))
    }

    /// Takes the packet that [`Self::next_packet`] showed.
    fn commit(&mut self, desc: &TxDesc) {
        match desc.opcode {
            Opcode::Nak => self.nak = None,
            Opcode::ReadResponse | Opcode::AtomicResponse => {
                self.recv.commit_response(desc);
            }
            _ => {
                self.send.commit(now(), desc);
            }
        }
    }
}

impl Qp {
    /// Sends what it has, as far as paths take it and others are not kept waiting.
    fn turn(self: &Arc<Self>, conn: &Conn) -> Turn {
        // From here on, whoever has something new for it enters it again.
        self.left_queue();
        let mut inner = self.inner.lock();
        if !inner.belongs_to(conn) {
            return Turn::Done;
        }
        let mut turn = Turn::More;
        for _ in 0..BURSTS {
            let more = self.fetch(&mut inner);
            if inner.next_packet().is_none() {
                if !more {
                    turn = Turn::Done;
                }
                break;
            }
            if !self.send_burst(&mut inner, conn) {
                // Acknowledgements will bring it back, no doorbell is needed.
                if inner.state == QpState::ReadyToSend {
                    inner.sq.stay_awake();
                }
                self.introduce(&inner, conn);
                turn = Turn::Blocked;
                break;
            }
        }
        self.complete_sent(&mut inner);
        self.arm(&inner);
        turn
    }

    /// Sends one burst on one path. Returns false if no path takes anything.
    fn send_burst(&self, inner: &mut Locked<'_>, conn: &Conn) -> bool {
        let mut failed = None;
        {
            let mut c = conn.inner.lock();
            let now = now();
            let Some(burst) = c.proto.reserve(now) else {
                return false;
            };
            let mut sender = Sender::new(conn, burst.path);
            let (mut packets, mut bytes) = (0, 0);
            let mut next = inner.next_packet();
            for n in 1..=burst.max_packets {
                let Some(desc) = next else {
                    break;
                };
                // What an earlier life of the queue pair sent may have been credited to a response
                // of this one. It is passed over, or it would be tried for ever.
                let content = inner.content(&desc).unwrap_or_else(|| Content::void(&desc));
                inner.commit(&desc);
                next = inner.next_packet();
                let last = next.is_none() || n == burst.max_packets;
                // There is room, `reserve` said so under the same lock.
                let Some(tx) = c.proto.assign(now, burst.path, desc, last) else {
                    break;
                };
                packets += 1;
                bytes += u64::from(desc.payload_len());
                let built = sender.push(&mut c, Some((self, &**inner)), &content, &desc, tx);
                if let Err(BuildError::Protection) = built {
                    failed = Some(desc);
                    break;
                }
            }
            sender.flush(&mut c);
            if let Some(counters) = &inner.counters {
                counters.sent(c.plane_of(burst.path), packets, bytes);
            }
        }
        if let Some(desc) = failed {
            self.inaccessible(inner, &desc);
        }
        true
    }

    /// The memory that a packet carries is not accessible any more.
    fn inaccessible(&self, inner: &mut Locked<'_>, desc: &TxDesc) {
        match desc.opcode {
            Opcode::ReadResponse => self.response_failed(inner, desc),
            _ => self.request_failed(inner, desc),
        }
    }
}
