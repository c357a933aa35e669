// SPDX-License-Identifier: GPL-2.0

//! Takes packets in order and nothing else; the notification point of DCQCN.

use super::RcPacket;
use crate::time::{Ps, US};

/// At most one CNP in so long.
const CNP_EVERY: Ps = 50 * US;
/// At most so many packets without acknowledgement.
const ACK_EVERY: u32 = 16;

/// The receiving end.
#[derive(Debug, Default)]
pub struct Receiver {
    expected: u64,
    /// A NAK for `expected` went out.
    nak_sent: bool,
    unacked: u32,
    cnp_at: Ps,
    /// Payload bytes that have arrived.
    pub delivered: u64,
    /// Messages that have arrived.
    pub complete: Vec<u32>,
    messages: u32,
    /// Packets thrown away because one before was missing.
    pub out_of_order: u64,
}

impl Receiver {
    /// Takes a packet; gives the answers to `out`.
    pub fn receive(&mut self, now: Ps, packet: &RcPacket, ce: bool, mut out: impl FnMut(RcPacket)) {
        let RcPacket::Data { psn, len, last } = *packet else {
            return;
        };
        if ce && now >= self.cnp_at {
            self.cnp_at = now + CNP_EVERY;
            out(RcPacket::Cnp);
        }
        if psn > self.expected {
            self.out_of_order += 1;
            if !self.nak_sent {
                self.nak_sent = true;
                out(RcPacket::Nak { psn: self.expected });
            }
            return;
        }
        if psn == self.expected {
            self.expected += 1;
            self.nak_sent = false;
            self.delivered += u64::from(len);
            if last {
                self.complete.push(self.messages);
                self.messages += 1;
            }
        }
        self.unacked += 1;
        // A duplicate is acknowledged too: the acknowledgement may have been lost.
        if last || psn + 1 < self.expected || self.unacked >= ACK_EVERY {
            self.unacked = 0;
            out(RcPacket::Ack { psn: self.expected });
        }
    }
}
