// SPDX-License-Identifier: GPL-2.0

//! The application of the simulations: messages one way, each packet counted at the other end.
//!
//! Both ends are told of a message when it is posted, so payload need not be carried: the receiver
//! knows what must come, and that it comes once.

use std::collections::VecDeque;

use proto::packet::{DataFields, Opcode, Qpn, StreamFlags, TxDesc};
use proto::psn::Msn;
use proto::time::Instant;

use crate::endpoint::{App, Taken};

/// Messages of a flow that never ends.
const ENDLESS: u32 = 16 << 20;

/// Either end of a flow.
#[derive(Debug, Default)]
pub struct Messages {
    mtu: u32,
    /// Number of the first message in `waiting`, and bytes of it that went out.
    first: u32,
    sent: u32,
    waiting: VecDeque<u32>,
    /// There is always another message.
    endless: bool,
    /// There is always another message to expect.
    expects_endless: bool,
    /// Number of the first message in `expected`.
    base: u32,
    expected: VecDeque<Expected>,
    /// Payload bytes that have arrived.
    pub delivered: u64,
    /// Payload bytes that were acknowledged.
    pub acked: u64,
    /// Messages that have arrived, to be taken by the world.
    pub complete: Vec<u32>,
}

#[derive(Debug)]
struct Expected {
    len: u32,
    left: u32,
    /// A bit per packet; made when the first one comes.
    seen: Vec<u64>,
}

impl Messages {
    /// One end of a flow with packets of `mtu` bytes.
    pub fn new(mtu: u32) -> Self {
        Messages {
            mtu,
            ..Messages::default()
        }
    }

    /// The sender has another message of `len` bytes, at least 1.
    pub fn post(&mut self, len: u32) {
        self.waiting.push_back(len.max(1));
    }

    /// The receiver is to get another message.
    pub fn expect(&mut self, len: u32) {
        self.expected.push_back(Expected {
            len: len.max(1),
            left: len.max(1),
            seen: Vec::new(),
        });
    }

    /// Makes the flow go on for ever, or lets it end with the message that it is at.
    pub fn set_endless(&mut self, endless: bool) {
        self.endless = endless;
        if !endless && self.sent == 0 {
            self.waiting.clear();
        }
    }

    /// The receiver is to get messages for ever.
    pub fn expect_endless(&mut self) {
        self.expects_endless = true;
    }

    /// Whether there is anything to send.
    pub fn wants_to_send(&self) -> bool {
        self.endless || !self.waiting.is_empty()
    }

    /// Messages posted to this end and not sent completely.
    pub fn backlog(&self) -> usize {
        self.waiting.len()
    }

    /// Messages that have not arrived.
    pub fn outstanding(&self) -> usize {
        self.expected.len()
    }

    fn take(&mut self, msn: u32, offset: u32, len: u32) {
        let k = msn
            .checked_sub(self.base)
            .expect("a message that was complete comes again") as usize;
        while self.expects_endless && self.expected.len() <= k {
            self.expect(ENDLESS);
        }
        let mtu = self.mtu;
        let m = self.expected.get_mut(k).expect("a message that was posted");
        if m.seen.is_empty() {
            m.seen = vec![0; m.len.div_ceil(mtu).div_ceil(64) as usize];
        }
        let packet = offset / mtu;
        let (word, bit) = ((packet / 64) as usize, 1 << (packet % 64));
        assert_eq!(m.seen[word] & bit, 0, "a packet was delivered twice");
        assert_eq!(len, mtu.min(m.len - offset), "a packet has another length");
        m.seen[word] |= bit;
        m.left -= len;
        self.delivered += u64::from(len);
        if m.left == 0 {
            self.complete.push(msn);
        }
        while self.expected.front().is_some_and(|m| m.left == 0) {
            self.expected.pop_front();
            self.base += 1;
        }
    }
}

impl App for Messages {
    fn next(&mut self, _: Instant) -> Option<TxDesc> {
        if self.waiting.is_empty() && self.endless {
            self.waiting.push_back(ENDLESS);
        }
        let left = self.waiting.front()? - self.sent;
        let last = left <= self.mtu;
        Some(TxDesc {
            opcode: Opcode::Write,
            flags: if last {
                StreamFlags::LAST
            } else {
                StreamFlags(0)
            },
            epoch: 0,
            qpn: Qpn(1),
            peer_qpn: Qpn(1),
            msn: Msn(self.first),
            offset: self.sent,
            len: left.min(self.mtu),
        })
    }

    fn committed(&mut self, _: Instant, desc: &TxDesc) {
        self.sent += desc.len;
        if desc.flags.has(StreamFlags::LAST) {
            self.waiting.pop_front();
            self.first += 1;
            self.sent = 0;
        }
    }

    fn build(&mut self, desc: &TxDesc, _: &mut Vec<u8>) -> Option<DataFields> {
        Some(DataFields {
            opcode: desc.opcode,
            flags: desc.flags,
            src_qpn: desc.qpn,
            dst_qpn: desc.peer_qpn,
            msn: desc.msn,
            offset: desc.offset,
            va: 0x1_0000_0000,
            // The length travels here: the payload itself does not.
            rkey: desc.len,
            ..DataFields::default()
        })
    }

    fn receive(&mut self, _: Instant, f: &DataFields, _: &[u8]) -> Taken {
        self.take(f.msn.0, f.offset, f.rkey);
        Taken::Accept
    }

    fn acked(&mut self, _: Instant, desc: &TxDesc) {
        self.acked += u64::from(desc.len);
    }
}
