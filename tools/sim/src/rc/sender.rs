// SPDX-License-Identifier: GPL-2.0

//! Sends in order, and from the loss on again.

use std::collections::VecDeque;

use super::dcqcn::Dcqcn;
use super::{RcPacket, OVERHEAD};
use crate::time::{Ps, MS};

/// Retransmission timeout; NICs have 4 ms and more, this is generous.
const TIMEOUT: Ps = MS;
/// Packets outstanding at most.
const WINDOW: u64 = 1024;
/// Messages of a flow that never ends.
const ENDLESS: u32 = 16 << 20;

/// A message that is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Message {
    first: u64,
    packets: u64,
    len: u32,
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    mtu: u32,
    dcqcn: Dcqcn,
    una: u64,
    next: u64,
    /// One past the last packet posted.
    end: u64,
    messages: VecDeque<Message>,
    endless: bool,
    /// When the rate allows the next packet.
    pace: Ps,
    timeout_at: Option<Ps>,
    /// Packets sent again.
    pub retransmits: u64,
    /// Timeouts.
    pub timeouts: u64,
    highest: u64,
}

impl Sender {
    /// A sender on a link that takes `per_byte` picoseconds for a byte.
    pub fn new(mtu: u32, per_byte: Ps) -> Self {
        Sender {
            mtu,
            dcqcn: Dcqcn::new(1.0 / per_byte as f64),
            una: 0,
            next: 0,
            end: 0,
            messages: VecDeque::new(),
            endless: false,
            pace: 0,
            timeout_at: None,
            retransmits: 0,
            timeouts: 0,
            highest: 0,
        }
    }

    /// Another message of `len` bytes, at least 1.
    pub fn post(&mut self, len: u32) {
        let packets = u64::from(len.max(1).div_ceil(self.mtu));
        self.messages.push_back(Message {
            first: self.end,
            packets,
            len: len.max(1),
        });
        self.end += packets;
    }

    /// Makes the flow go on for ever, or lets it end with what is posted.
    pub fn set_endless(&mut self, endless: bool) {
        self.endless = endless;
    }

    /// Whether there is anything to send, or to send again.
    pub fn wants_to_send(&self) -> bool {
        self.endless || self.next < self.end
    }

    /// The rate in bytes per picosecond.
    pub fn rate(&self) -> f64 {
        self.dcqcn.rate()
    }

    /// Takes an answer.
    pub fn receive(&mut self, now: Ps, packet: &RcPacket) {
        match *packet {
            RcPacket::Data { .. } => {}
            RcPacket::Cnp => self.dcqcn.on_cnp(now),
            RcPacket::Ack { psn } => self.advance(now, psn),
            RcPacket::Nak { psn } => {
                self.advance(now, psn);
                self.next = self.una;
            }
        }
    }

    fn advance(&mut self, now: Ps, psn: u64) {
        if psn > self.una {
            self.una = psn;
            self.next = self.next.max(psn);
            self.timeout_at = (self.una < self.highest).then_some(now + TIMEOUT);
            while self
                .messages
                .front()
                .is_some_and(|m| m.first + m.packets <= psn)
            {
                self.messages.pop_front();
            }
        }
    }

    /// Goes back if the timer has run out.
    pub fn on_timeout(&mut self, now: Ps) {
        if self.timeout_at.is_some_and(|t| t <= now) {
            self.timeouts += 1;
            self.next = self.una;
            self.timeout_at = Some(now + TIMEOUT);
        }
    }

    /// The next packet, if rate and window allow one.
    pub fn next(&mut self, now: Ps) -> Option<RcPacket> {
        if self.endless && self.next == self.end {
            self.post(ENDLESS);
        }
        if now < self.pace || self.next >= self.end || self.next - self.una >= WINDOW {
            return None;
        }
        let psn = self.next;
        let message = self.messages.iter().find(|m| psn < m.first + m.packets)?;
        let offset = (psn - message.first) * u64::from(self.mtu);
        let left = u64::from(message.len) - offset;
        let len = left.min(u64::from(self.mtu)) as u32;
        let last = psn + 1 == message.first + message.packets;
        self.next += 1;
        if psn < self.highest {
            self.retransmits += 1;
        }
        self.highest = self.highest.max(self.next);
        self.timeout_at.get_or_insert(now + TIMEOUT);
        let size = u64::from(len + OVERHEAD);
        self.dcqcn.on_sent(now, size);
        self.pace = self.pace.max(now) + (size as f64 / self.dcqcn.rate()) as Ps;
        Some(RcPacket::Data { psn, len, last })
    }

    /// When there is something to do, if nothing arrives before.
    pub fn deadline(&self, now: Ps) -> Option<Ps> {
        let sends = self.wants_to_send() && self.next - self.una < WINDOW && self.pace > now;
        let pace = sends.then_some(self.pace);
        [pace, self.timeout_at].into_iter().flatten().min()
    }
}
