// SPDX-License-Identifier: GPL-2.0

//! Work requests in, completions out.

use core::ops::DerefMut;

use super::{Completion, QueueFull, SendStream};
use crate::psn::Msn;
use crate::stream::message::State;
use crate::stream::{before, SendMsg, SendOp, SendWork, WcStatus, MAX_MSG_LEN};
use crate::time::Instant;

impl<B: DerefMut<Target = [SendMsg]>> SendStream<B> {
    /// Whether [`post`](Self::post) has room.
    pub fn can_post(&self) -> bool {
        self.next.wrapping_sub(self.una) < self.size
    }

    /// Takes a work request. One that cannot be carried out (longer than [`MAX_MSG_LEN`], a Read
    /// where `max_rd_atomic` is 0) is taken too, and fails when its turn comes; after a failure
    /// everything posted is flushed.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] if [`can_post`](Self::can_post) is false.
    pub fn post(&mut self, now: Instant, work: &SendWork) -> Result<(), QueueFull> {
        let state = if work.op.has_response() && self.cfg.max_rd_atomic == 0 {
            State::Broken(WcStatus::LocalQpOperation)
        } else if work.len > MAX_MSG_LEN && !work.op.is_atomic() {
            State::Broken(WcStatus::LocalLength)
        } else {
            State::Posted
        };
        self.push(now, work, state)
    }

    /// Takes a work request that the caller found to be invalid: all before it complete, then it
    /// ends with `status` (not `Success`) and the stream with it.
    ///
    /// # Errors
    ///
    /// [`QueueFull`] if [`can_post`](Self::can_post) is false.
    pub fn post_broken(
        &mut self,
        now: Instant,
        work: &SendWork,
        status: WcStatus,
    ) -> Result<(), QueueFull> {
        self.push(now, work, State::Broken(status))
    }

    fn push(&mut self, now: Instant, work: &SendWork, state: State) -> Result<(), QueueFull> {
        if !self.can_post() {
            return Err(QueueFull);
        }
        let (pos, msn, rsn, epoch) = (self.next, self.next_msn, self.next_rsn, self.epoch);
        let entry = self.at_mut(pos).ok_or(QueueFull)?;
        *entry = SendMsg {
            va: work.va,
            compare_add: work.compare_add,
            swap: work.swap,
            cookie: work.cookie,
            len: if work.op.is_atomic() || work.op == SendOp::AtomicWrite {
                8
            } else {
                work.len
            },
            rkey: work.rkey,
            imm_or_inv: work.imm_or_inv,
            rsn,
            msn,
            // This member belongs to the message whose MSN falls on the entry.
            pos_of_msn: entry.pos_of_msn,
            packets: 0,
            counted: 0,
            epoch,
            op: work.op,
            state,
            fence: work.fence,
            after_all: work.after_all,
            solicited: work.solicited,
        };
        if work.op != SendOp::Local {
            self.at_mut(msn.0).ok_or(QueueFull)?.pos_of_msn = pos;
            self.next_msn = msn.add(1);
        }
        if work.op.consumes_receive() {
            self.next_rsn = rsn.add(1);
        }
        if self.head == self.next {
            // Was idle: time starts to count.
            self.progress = now;
        }
        self.next = pos.wrapping_add(1);
        self.settle();
        Ok(())
    }

    /// The next completion in posting order.
    pub fn pop_completed(&mut self) -> Option<Completion> {
        if self.una == self.next {
            return None;
        }
        let status = if self.flushing {
            WcStatus::Flushed
        } else if self.una != self.head {
            WcStatus::Success
        } else {
            let failure = self.failure.filter(|f| f.pos == self.una)?;
            self.flushing = true;
            failure.status
        };
        let msg = self.at(self.una)?;
        let completion = Completion {
            cookie: msg.cookie,
            status,
            op: msg.op,
            byte_len: msg.len,
        };
        self.una = self.una.wrapping_add(1);
        if self.una == self.next && self.failure.is_some_and(|f| f.pos == self.una) {
            self.flushing = true;
        }
        if self.flushing {
            // Whatever was in flight is of no interest any more.
            self.head = self.una;
            self.cursor = self.una;
            self.cursor_offset = 0;
            self.started = self.una;
            self.reads = 0;
            self.hold = None;
        }
        Some(completion)
    }

    /// Whether the stream has ended: the failing work request was handed out with its status, and
    /// the QP must be in the error state.
    pub fn is_flushing(&self) -> bool {
        self.flushing
    }

    /// Ends the stream: the oldest work request that is not done ends with `status`, the rest is
    /// flushed. For the move to the error state `status` is [`WcStatus::Flushed`].
    pub fn fail(&mut self, status: WcStatus) {
        if self.flushing {
            return;
        }
        if self.una == self.next {
            self.flushing = true;
        } else if self.head == self.next {
            // Nothing to carry the status.
            self.set_failure(self.head, WcStatus::Flushed);
        } else {
            self.set_failure(self.head, status);
        }
    }

    /// Ends the stream at message `msn`: earlier ones complete, then it ends with `status`, the
    /// rest is flushed. For local errors, such as a buffer that has become inaccessible.
    pub fn fail_message(&mut self, msn: Msn, status: WcStatus) {
        if let Some(pos) = self.find(msn) {
            self.set_failure(pos, status);
        }
    }

    /// Starts or ends draining (the SQD state, IBTA 1.4, 10.3.1.6): while draining, no further
    /// message is started.
    pub fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Whether draining is asked for and every started message is done.
    pub fn is_drained(&self) -> bool {
        self.draining && !before(self.head, self.started)
    }

    /// Whether nothing is posted that has not been handed out as complete.
    pub fn is_empty(&self) -> bool {
        self.una == self.next
    }
}
