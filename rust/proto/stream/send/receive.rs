// SPDX-License-Identifier: GPL-2.0

//! Acknowledgements, NAKs and responses.

use core::ops::DerefMut;

use super::{Hold, ResponseTarget, SendStream};
use crate::packet::{DataFields, NakCode, Opcode, Qpn, StreamFlags, TxDesc};
use crate::stream::message::State;
use crate::stream::{
    before, epoch_before, later_epoch, local_ack_timeout, rnr_timer, SendMsg, SendOp, WcStatus,
};
use crate::time::{Duration, Instant};

/// How long to wait after NotReady where the QP has no local ACK timeout: that of exponent 14.
const DEFAULT_NOT_READY_WAIT: Duration = Duration(4_096 << 14);

impl<B: DerefMut<Target = [SendMsg]>> SendStream<B> {
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
        if self.cfg.unreliable {
            return self.skip(pos, pos.wrapping_add(1), f.epoch);
        }
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
            (Opcode::AtomicResponse, SendOp::AtomicWrite | SendOp::Flush) if payload_len == 0 => {
                Ok(ResponseTarget::Nothing)
            }
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

    /// Sends everything again that was sent, as the peer has got none of it: it went over another
    /// connection than the peer's.
    pub fn restart(&mut self, now: Instant) {
        self.hold = None;
        self.tries = 0;
        self.rnr_tries = 0;
        self.progress = now;
        self.go_back(self.head, self.epoch);
    }

    /// Sends the message at `pos` and all later ones again, above `epoch`.
    pub(super) fn go_back(&mut self, pos: u32, epoch: u16) {
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
}
