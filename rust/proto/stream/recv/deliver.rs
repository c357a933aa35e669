// SPDX-License-Identifier: GPL-2.0

//! What happens in message order.

use core::ops::DerefMut;

use super::{Delivery, Fatal, Received, RecvStream, Refusal};
use crate::packet::Opcode;
use crate::psn::Msn;
use crate::stream::{later_epoch, packet_count, MemoryRange, MsgSlot, Nak, Response};

impl<B, R> RecvStream<B, R>
where
    B: DerefMut<Target = [MsgSlot]>,
    R: DerefMut<Target = [Response]>,
{
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
            if self.cfg.last_byte_ordered {
                if let Some(tail) = self.pop_tail() {
                    return Some(tail);
                }
            }
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
                Opcode::CmpSwap | Opcode::FetchAdd | Opcode::AtomicWrite | Opcode::Flush => {
                    if !self.has_response_room() {
                        return None;
                    }
                    self.executing = true;
                    return Some(Delivery::Atomic {
                        opcode: slot.opcode(),
                        target: MemoryRange {
                            va: slot.va(),
                            rkey: slot.rkey(),
                            len: slot.len(),
                        },
                        what: slot.imm(),
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

    /// The atomic that [`pop_delivery`](Self::pop_delivery) handed out cannot be executed now: it is
    /// handed out again.
    pub fn atomic_later(&mut self) {
        self.executing = false;
    }

    /// Whether all messages before a fatal refusal are delivered.
    fn is_failing(&self) -> bool {
        self.fatal.is_some_and(|f| !self.next.before(f.msn))
    }

    /// Ends the stream at a Read or an atomic that could not be executed.
    pub(super) fn fail_request(&mut self, msn: Msn, epoch: u16, why: Refusal) -> Nak {
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
}
