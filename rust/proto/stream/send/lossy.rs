// SPDX-License-Identifier: GPL-2.0

//! Streams that lose messages without telling (UC).
//!
//! What the network loses is sent again, as ever. But a message that the peer refuses, or does not
//! answer, counts as done, and the stream goes on behind it. As the peer may have any part of what
//! was given up, both sides have to agree on where they are: the next message is sent alone, under a
//! new epoch, with [`StreamFlags::START`](crate::packet::StreamFlags::START), and the peer forgets
//! everything before it. It counts receives from 0 again, so those that dropped messages would have
//! had go to later ones. A new stream begins in the same way.

use core::ops::DerefMut;

use super::SendStream;
use crate::psn::Rsn;
use crate::stream::message::State;
use crate::stream::{before, SendMsg, SendOp};

impl<B: DerefMut<Target = [SendMsg]>> SendStream<B> {
    /// Gives up all that is posted, up to the first that has to do with this side alone: the peer
    /// does not answer, or is gone. Does nothing on a reliable stream.
    pub fn lose(&mut self) {
        if !self.cfg.unreliable || self.flushing {
            return;
        }
        let mut end = self.head;
        while end != self.next && !self.ended_before(end) {
            let lost = before(end, self.started)
                || self
                    .at(end)
                    .is_some_and(|m| m.op != SendOp::Local && !matches!(m.state, State::Broken(_)));
            if !lost {
                break;
            }
            end = end.wrapping_add(1);
        }
        if end != self.head {
            self.skip(self.head, end, self.epoch);
        }
    }

    /// Takes work requests again, after a failure of this side alone has flushed all (the way out of
    /// the SQE state). Does nothing on a reliable stream, or before all are handed out.
    pub fn resume(&mut self) {
        if !self.cfg.unreliable || !self.flushing || !self.is_empty() {
            return;
        }
        self.flushing = false;
        self.failure = None;
        self.skip(self.next, self.next, self.epoch);
    }

    /// Gives up the messages from `pos` to before `end`, which were sent under `epoch` or before.
    pub(super) fn skip(&mut self, pos: u32, end: u32, epoch: u16) {
        let mut p = pos;
        while before(p, end) {
            if let Some(msg) = self.at_mut(p) {
                msg.state = State::Done;
            }
            p = p.wrapping_add(1);
        }
        self.restart = Some(end);
        self.hold = None;
        self.next_rsn = Rsn(0);
        let mut p = end;
        while before(p, self.next) {
            let rsn = self.next_rsn;
            if let Some(msg) = self.at_mut(p) {
                msg.rsn = rsn;
                let taken = u32::from(msg.op.consumes_receive());
                self.next_rsn = rsn.add(taken);
            }
            p = p.wrapping_add(1);
        }
        self.go_back(end, epoch);
    }

    /// The message at `head` is done, and left.
    pub(super) fn leave_restart(&mut self) {
        if self.restart == Some(self.head) {
            // What has to do with this side alone tells the peer nothing.
            let local = self.at(self.head).is_some_and(|m| m.op == SendOp::Local);
            self.restart = local.then_some(self.head.wrapping_add(1));
        }
    }

    /// Whether the message at `cursor` has to wait, until all before it are done or until the peer
    /// has begun anew.
    pub(super) fn waits_for_restart(&self) -> bool {
        self.restart
            .is_some_and(|r| !before(self.cursor, r) && (self.cursor != r || self.head != r))
    }
}
