// SPDX-License-Identifier: GPL-2.0

//! One queue pair: what it posts, what is complete, and whether what arrives is right.

use super::*;

impl Qp {
    pub(super) fn settle(&mut self, now: Instant, naks: &mut Vec<TxDesc>) {
        while let Some(d) = self.rx.pop_delivery() {
            self.deliver(&d, naks);
        }
        while self.posted < self.mine.messages.len() && self.tx.can_post() {
            let k = self.posted;
            let m = self.mine.messages[k];
            let (va, rkey) = match m.op {
                SendOp::Write | SendOp::WriteImm => (self.mine.va(k), WRITE_KEY),
                SendOp::Read => (self.mine.va(k), READ_KEY),
                _ => (0x40, ATOMIC_KEY),
            };
            let work = SendWork {
                op: m.op,
                fence: m.fence,
                len: m.len,
                va,
                rkey: if m.bad { 99 } else { rkey },
                imm_or_inv: k as u32,
                compare_add: 1,
                cookie: k as u32,
                ..SendWork::default()
            };
            self.tx.post(now, &work).expect("room was checked");
            self.posted += 1;
        }
        loop {
            if self.tx.next_local().is_some() {
                self.tx.local_done(now, Ok(()));
            }
            let Some(c) = self.tx.pop_completed() else {
                if self.tx.next_local().is_some() {
                    continue;
                }
                break;
            };
            self.complete(&c);
        }
    }

    fn complete(&mut self, c: &Completion) {
        let k = self.completions.len();
        assert_eq!(c.cookie as usize, k, "completions out of order");
        let m = self.mine.messages[k];
        if c.status == WcStatus::Success {
            assert_eq!((c.op, c.byte_len), (m.op, m.len));
            match m.op {
                SendOp::Read if m.len > 0 => {
                    let got = &self.results[&c.cookie];
                    assert_eq!(*got, self.mine.bytes(k, 0, m.len), "Read {k}");
                }
                SendOp::FetchAdd => {
                    let before = self.mine.messages[..k]
                        .iter()
                        .filter(|m| m.op == SendOp::FetchAdd)
                        .count() as u64;
                    assert_eq!(self.results[&c.cookie], before.to_ne_bytes());
                }
                _ => {}
            }
        }
        self.completions.push(*c);
    }

    fn deliver(&mut self, d: &Delivery, naks: &mut Vec<TxDesc>) {
        match d {
            Delivery::Receive(r) => {
                let k = self
                    .theirs
                    .consumers()
                    .nth(r.rsn.0 as usize)
                    .expect("a planned message");
                assert_eq!(r.rsn.0, self.received, "receives out of order");
                let m = self.theirs.messages[k];
                assert_eq!((r.opcode, r.byte_len), (opcode(m.op), m.len));
                match m.op {
                    SendOp::SendImm | SendOp::WriteImm => assert_eq!(r.imm, k as u32),
                    SendOp::SendInv => assert_eq!(r.invalidate, k as u32),
                    _ => {}
                }
                if m.op != SendOp::WriteImm {
                    let data = self.buffers.remove(&r.rsn.0).unwrap_or_default();
                    assert!(data.len() >= m.len as usize);
                    assert_eq!(data[..m.len as usize], self.theirs.bytes(k, 0, m.len)[..]);
                }
                self.received += 1;
                self.delivered += 1;
                self.check_writes(k);
            }
            Delivery::Tail { target, tail } => {
                let at = (target.va - self.theirs.va(0)) as usize;
                self.memory[at..at + target.len as usize].copy_from_slice(tail.bytes());
                // All of it is there, and so is what was sent before it.
                self.check_writes(at / self.theirs.max_len as usize);
            }
            Delivery::Write { .. } => self.delivered += 1,
            Delivery::Atomic {
                opcode,
                compare_add,
                target,
                ..
            } => {
                assert_eq!(*opcode, Opcode::FetchAdd);
                assert_eq!((target.va, target.rkey), (0x40, ATOMIC_KEY));
                let original = self.counter;
                self.counter += compare_add;
                self.atomics_seen += 1;
                self.delivered += 1;
                let nak = self.rx.atomic_result(Ok(original));
                assert!(nak.is_none());
            }
            Delivery::Failed { why, .. } => {
                self.failed = Some(*why);
                self.fail();
            }
        }
        let _ = naks;
    }

    /// A message that consumes a receive fences all Writes before it.
    fn check_writes(&self, upto: usize) {
        let writes = (0..=upto).rev().take(8);
        for k in writes {
            let m = self.theirs.messages[k];
            if matches!(m.op, SendOp::Write | SendOp::WriteImm) && !m.bad {
                let at = k * self.theirs.max_len as usize;
                let got = &self.memory[at..at + m.len as usize];
                assert_eq!(*got, self.theirs.bytes(k, 0, m.len)[..], "Write {k}");
            }
        }
    }

    pub fn fail(&mut self) {
        self.rx.stop();
        self.tx.fail(WcStatus::Flushed);
    }

    fn copy(&mut self, target: &Target, payload: &[u8]) -> Result<(), Refusal> {
        match target {
            Target::None => Ok(()),
            Target::Recv { rsn, offset } => {
                let size = self.theirs.max_len as usize;
                let buf = self.buffers.entry(rsn.0).or_insert_with(|| vec![0; size]);
                buf.get_mut(*offset as usize..*offset as usize + payload.len())
                    .ok_or(Refusal::ReceiveTooShort)?
                    .copy_from_slice(payload);
                Ok(())
            }
            Target::Memory(r) | Target::Ordered(r) => {
                let kept = match target {
                    Target::Ordered(_) => Tail::len_of(r.len),
                    _ => 0,
                };
                assert_eq!(r.len as usize, payload.len() + kept);
                if r.rkey != WRITE_KEY {
                    return Err(Refusal::RemoteAccess);
                }
                let at = (r.va - self.theirs.va(0)) as usize;
                self.memory
                    .get_mut(at..at + payload.len())
                    .ok_or(Refusal::RemoteAccess)?
                    .copy_from_slice(payload);
                Ok(())
            }
            Target::ReadFrom(r) if r.rkey != READ_KEY && r.len > 0 => Err(Refusal::RemoteAccess),
            Target::ReadFrom(_) => Ok(()),
        }
    }

    pub(super) fn request(&mut self, f: &DataFields, payload: &[u8]) -> Option<Nak> {
        if !self.rx.is_ready() {
            return Some(Nak::not_ready(f));
        }
        let len = payload.len() as u32;
        match self.rx.on_packet(f, len, Rsn(self.receives)) {
            Verdict::Discard => None,
            Verdict::Refuse(why) => self.rx.refuse(f, why),
            Verdict::Place(target) => {
                // What is kept for later.
                let (now, later) = match target {
                    Target::Ordered(_) => payload.split_at(payload.len() - Tail::len_of(len)),
                    _ => (payload, &payload[..0]),
                };
                match self.copy(&target, now) {
                    Ok(()) => {
                        self.rx.placed(f, len);
                        if !later.is_empty() {
                            self.rx.hold(f, &Tail::new(later));
                        }
                        None
                    }
                    Err(why) => self.rx.refuse(f, why),
                }
            }
        }
    }

    pub(super) fn response(&mut self, now: Instant, f: &DataFields, payload: &[u8]) {
        match self.tx.on_response(f, payload.len() as u32) {
            ResponseTarget::Place { cookie, offset } => {
                let len = self.mine.messages[cookie as usize].len as usize;
                let buf = self.results.entry(cookie).or_insert_with(|| vec![0; len]);
                buf[offset as usize..offset as usize + payload.len()].copy_from_slice(payload);
            }
            ResponseTarget::Atomic { cookie, original } => {
                self.results.insert(cookie, original.to_ne_bytes().to_vec());
            }
            ResponseTarget::Nothing | ResponseTarget::Ignore => return,
            ResponseTarget::Mismatch(status) => panic!("response does not fit: {status:?}"),
        }
        self.tx.response_placed(now, f);
    }

    /// Where a Read takes its data from: the plan of the reader says what it expects.
    pub(super) fn read(&self, r: &MemoryRange) -> Vec<u8> {
        if r.len == 0 {
            return Vec::new();
        }
        let at = r.va - self.theirs.va(0);
        let k = (at / u64::from(self.theirs.max_len)) as usize;
        let offset = (at % u64::from(self.theirs.max_len)) as u32;
        self.theirs.bytes(k, offset, r.len)
    }

    pub fn done(&self) -> bool {
        self.completions.len() == self.mine.messages.len()
    }
}
