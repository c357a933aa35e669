// SPDX-License-Identifier: GPL-2.0

//! The model of the requester: what is posted, sent and complete, and with which status.

use super::*;

impl Sim {
    pub(super) fn post(&mut self) -> bool {
        let Some(spec) = self.specs.get(self.posted).copied() else {
            return false;
        };
        if !self.a.can_post() {
            return false;
        }
        let work = SendWork {
            op: spec.op,
            fence: spec.fence,
            after_all: false,
            solicited: false,
            len: spec.len,
            va: 0x1000,
            rkey: spec.msn.0,
            imm_or_inv: !spec.msn.0,
            compare_add: 1,
            swap: 0,
            cookie: u32::try_from(self.posted).unwrap(),
        };
        if spec.fault == Some(Fault::Local) {
            let status = WcStatus::LocalProtection;
            self.a.post_broken(self.now, &work, status).unwrap();
        } else {
            self.a.post(self.now, &work).unwrap();
        }
        self.posted += 1;
        true
    }

    pub(super) fn send_request(&mut self) -> bool {
        if let Some(cookie) = self.a.next_local() {
            let spec = self.specs[usize::try_from(cookie).unwrap()];
            assert_eq!(spec.op, SendOp::Local);
            self.a.local_done(self.now, Ok(()));
            return true;
        }
        let Some(desc) = self.a.next_segment(self.now) else {
            return false;
        };
        let packet = self.a.packet(&desc).expect("new packet");
        if self.rng.chance(10) {
            // No path had room after all.
            return true;
        }
        assert!(self.a.commit(self.now, &desc));
        assert_eq!(self.a.packet(&desc), Some(packet));
        self.net.push(Item::Request(desc, Some(packet)));
        true
    }

    pub(super) fn on_response(&mut self, packet: &ResponsePacket) {
        let f = &packet.fields;
        let (i, spec) = self.spec(f.msn);
        match self.a.on_response(f, packet.source.len) {
            ResponseTarget::Place { cookie, offset } => {
                assert_eq!(usize::try_from(cookie).unwrap(), i);
                assert_eq!(
                    packet.source,
                    MemoryRange {
                        va: 0x1000 + u64::from(offset),
                        rkey: spec.msn.0,
                        len: packet.source.len
                    }
                );
                *self.response_placed.entry((i, offset)).or_default() += 1;
                self.a.response_placed(self.now, f);
            }
            ResponseTarget::Atomic { cookie, original } => {
                assert_eq!(usize::try_from(cookie).unwrap(), i);
                assert_eq!(self.atomic_originals[&i], original);
                *self.response_placed.entry((i, 0)).or_default() += 1;
                self.a.response_placed(self.now, f);
            }
            ResponseTarget::Nothing => panic!("nobody asked for that"),
            ResponseTarget::Ignore => assert!(self.a_is_failing(i), "response ignored"),
            ResponseTarget::Mismatch(status) => panic!("{status:?}"),
        }
    }

    /// Whether the requester has a reason not to want responses for message `i` any more.
    fn a_is_failing(&self, i: usize) -> bool {
        self.failed || self.setup.rnr_retry != 7 || self.first_fault().is_some_and(|f| f <= i)
    }

    pub(super) fn pop_completions(&mut self) {
        while let Some(c) = self.a.pop_completed() {
            let i = self.completed;
            let spec = self.specs[i];
            assert_eq!(usize::try_from(c.cookie).unwrap(), i, "out of order");
            assert_eq!((c.op, c.byte_len), (spec.op, spec.len));
            self.completed += 1;
            if self.failed {
                assert_eq!(c.status, WcStatus::Flushed);
                continue;
            }
            match c.status {
                WcStatus::Success => {
                    assert!(spec.fault.is_none(), "{spec:?} went unnoticed");
                    self.check_success(i, &spec);
                }
                WcStatus::RnrRetryExceeded => {
                    assert_ne!(self.setup.rnr_retry, 7);
                    let refusals = self.rnr_refusals[&i];
                    assert!(refusals > u32::from(self.setup.rnr_retry), "too early");
                    self.failed = true;
                }
                status => {
                    assert_eq!(Some(i), self.first_fault());
                    assert_eq!(Some(status), spec.failure());
                    self.failed = true;
                }
            }
        }
    }

    fn check_success(&self, i: usize, spec: &Spec) {
        if spec.op.has_response() {
            for p in 0..spec.packets() {
                let count = self.response_placed.get(&(i, p * MTU));
                assert_eq!(count, Some(&1), "response of {spec:?}");
            }
        } else if spec.op != SendOp::Local {
            assert!(i < self.delivered, "complete before delivery: {spec:?}");
        }
    }
}
