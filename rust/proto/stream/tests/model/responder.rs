// SPDX-License-Identifier: GPL-2.0

//! The model of the responder: what is placed, refused and delivered, and when.

use super::*;

impl Sim {
    pub(super) fn send_response(&mut self) -> bool {
        let Some(desc) = self.b.next_response() else {
            return false;
        };
        let (i, spec) = self.spec(desc.msn);
        assert!(spec.op.has_response());
        assert!(
            self.specs[..i]
                .iter()
                .enumerate()
                .all(|(k, s)| k < self.delivered || matches!(s.op, SendOp::Read | SendOp::Local)),
            "executed before earlier messages were complete"
        );
        let packet = self.b.response_packet(&desc).expect("new response");
        if spec.fault == Some(Fault::KeyLater) && (self.rng.chance(50) || desc_is_last(&desc)) {
            self.break_read(desc.msn);
            return true;
        }
        if self.rng.chance(10) {
            return true;
        }
        assert!(self.b.commit_response(&desc));
        self.net.push(Item::Response(desc, Some(packet)));
        true
    }

    fn break_read(&mut self, msn: Msn) {
        self.broken_read = true;
        if let Some(nak) = self.b.response_failed(msn, Refusal::RemoteAccess) {
            let fields = Nak::fields(&nak.to_desc()).unwrap();
            self.net.push(Item::Nak(fields, None));
        }
    }

    pub(super) fn on_request(&mut self, desc: TxDesc, packet: &RequestPacket) {
        let f = &packet.fields;
        if self.refused_early < self.setup.not_ready {
            self.refused_early += 1;
            self.hold(Nak::not_ready(f), desc, packet);
            return;
        }
        let (i, spec) = self.spec(f.msn);
        match self.b.on_packet(f, packet.len, Rsn(self.recv_posted)) {
            Verdict::Place(target) => {
                let is_turn = self.b.is_turn(f, packet.len);
                let bad = match target {
                    Target::Recv { rsn, offset } => {
                        assert_eq!(Some(rsn), spec.rsn);
                        assert!(rsn.0 < self.recv_posted);
                        assert_eq!(offset, packet.offset);
                        (spec.fault == Some(Fault::Short) && offset + packet.len == spec.len)
                            .then_some(Refusal::ReceiveTooShort)
                    }
                    Target::Memory(range) | Target::Ordered(range) => {
                        let is_last = packet.offset + packet.len == spec.len;
                        let ordered = self.setup.last_byte_ordered && is_last;
                        assert_eq!(matches!(target, Target::Ordered(_)), ordered);
                        assert_eq!(range.va, 0x1000 + u64::from(packet.offset));
                        assert_eq!((range.rkey, range.len), (spec.msn.0, packet.len));
                        (spec.fault == Some(Fault::Key)).then_some(Refusal::RemoteAccess)
                    }
                    Target::ReadFrom(range) => {
                        assert_eq!((range.rkey, range.len), (spec.msn.0, spec.len));
                        (spec.fault == Some(Fault::Key)).then_some(Refusal::RemoteAccess)
                    }
                    Target::None => None,
                };
                if let Some(why) = bad {
                    let nak = self.b.refuse(f, why).expect("judged under the same lock");
                    self.hold(nak, desc, packet);
                    return;
                }
                assert!(i >= self.delivered, "placed after delivery: {spec:?}");
                *self.placed.entry((i, packet.offset)).or_default() += 1;
                self.b.placed(f, packet.len);
                if let Target::Ordered(_) = target {
                    self.b.hold(f, &tail_of(i, packet.len));
                    let in_place = (self.delivered..=i).all(|k| self.is_placed(k));
                    assert!(!is_turn || in_place, "its turn has not come");
                    self.seen.early += u32::from(!is_turn);
                }
                self.net.push(Item::RequestAck(desc));
            }
            Verdict::Discard => self.net.push(Item::RequestAck(desc)),
            Verdict::Refuse(why) => {
                // A fatal one comes from here only if its NAK found no room before, or was an echo.
                let again = (self.setup.naks_dropped != 0 || self.responder_failed)
                    && spec.failure() == Some(WcStatus::from_nak(why.code()));
                assert!(
                    again || matches!(why, Refusal::ReceiverNotReady | Refusal::NotReady),
                    "{why:?} for {f:?}"
                );
                let nak = self.b.refuse(f, why).expect("judged under the same lock");
                if why == Refusal::ReceiverNotReady && self.setup.naks_dropped == 0 {
                    assert!(spec.rsn.unwrap().0 >= self.recv_posted);
                }
                self.hold(nak, desc, packet);
            }
        }
    }

    fn hold(&mut self, nak: Nak, desc: TxDesc, packet: &RequestPacket) {
        if self.rng.chance(self.setup.naks_dropped) {
            // No room for the NAK: the packet was never seen, and comes again.
            self.net.push(Item::Request(desc, Some(*packet)));
            return;
        }
        if matches!(nak.code, NakCode::Rnr | NakCode::NotReady) {
            self.seen.go_backs += 1;
        }
        if nak.code == NakCode::Rnr {
            *self.rnr_refusals.entry(self.by_msn[&nak.msn]).or_default() += 1;
        }
        let fields = Nak::fields(&nak.to_desc()).unwrap();
        assert_eq!((fields.dst_qpn, fields.src_qpn), (A, B));
        self.net.push(Item::Nak(fields, Some(desc)));
    }

    pub(super) fn pop_deliveries(&mut self) {
        while let Some(delivery) = self.b.pop_delivery() {
            assert!(!self.responder_failed);
            if let Delivery::Failed { why, receive } = delivery {
                self.on_failed(why, receive);
                continue;
            }
            // Reads are executed without a word, and local operations never come here.
            while matches!(self.specs[self.delivered].op, SendOp::Read | SendOp::Local) {
                self.check_placed(self.delivered);
                self.delivered += 1;
            }
            let i = self.delivered;
            let spec = self.specs[i];
            self.check_placed(i);
            if let Delivery::Tail { target, tail } = delivery {
                assert!(
                    self.setup.last_byte_ordered
                        && matches!(spec.op, SendOp::Write | SendOp::WriteImm)
                );
                let len = u32::try_from(tail.bytes().len()).unwrap();
                assert_eq!((target.rkey, target.len), (spec.msn.0, len));
                assert_eq!(target.va, 0x1000 + u64::from(spec.len - len));
                let in_last = spec.len - (spec.packets() - 1) * MTU;
                assert_eq!(tail, tail_of(i, in_last));
                assert!(self.ended.insert(i), "written twice");
                continue;
            }
            if matches!(spec.op, SendOp::Write | SendOp::WriteImm) {
                let has_tail = self.setup.last_byte_ordered && spec.len > 0;
                assert_eq!(self.ended.contains(&i), has_tail, "{spec:?}");
            }
            match delivery {
                Delivery::Receive(r) => {
                    assert_eq!(Some(r.rsn), spec.rsn);
                    assert_eq!(r.rsn.0, self.received);
                    self.received += 1;
                    assert_eq!((r.opcode, r.byte_len), (spec.op.opcode(), spec.len));
                    let imm = matches!(spec.op, SendOp::SendImm | SendOp::WriteImm);
                    assert_eq!(r.imm, if imm { !spec.msn.0 } else { 0 });
                    let inv = spec.op == SendOp::SendInv;
                    assert_eq!(r.invalidate, if inv { !spec.msn.0 } else { 0 });
                }
                Delivery::Write { byte_len } => {
                    assert_eq!((spec.op, spec.len), (SendOp::Write, byte_len));
                }
                Delivery::Atomic { opcode, target, .. } => {
                    assert_eq!(opcode, spec.op.opcode());
                    assert_eq!((target.rkey, target.len), (spec.msn.0, 8));
                    if spec.fault.is_some() {
                        let nak = self.b.atomic_result(Err(Refusal::RemoteAccess)).unwrap();
                        let fields = Nak::fields(&nak.to_desc()).unwrap();
                        self.net.push(Item::Nak(fields, None));
                        continue;
                    }
                    let before = self.atomic_originals.insert(i, self.counter);
                    assert_eq!(before, None, "executed twice");
                    assert_eq!(self.b.atomic_result(Ok(self.counter)), None);
                    self.counter += 1;
                }
                Delivery::Failed { .. } | Delivery::Tail { .. } => unreachable!(),
            }
            self.delivered += 1;
        }
    }

    fn check_placed(&self, i: usize) {
        assert!(self.is_placed(i));
    }

    fn is_placed(&self, i: usize) -> bool {
        let spec = self.specs[i];
        if spec.op == SendOp::Local {
            return true;
        }
        let packets = if spec.op.has_response() {
            1
        } else {
            spec.packets()
        };
        (0..packets).all(|p| self.placed.contains_key(&(i, p * MTU)))
    }

    fn on_failed(&mut self, why: Refusal, receive: Option<(Rsn, WcStatus)>) {
        self.responder_failed = true;
        let i = self.first_fault().expect("no reason to fail");
        let spec = self.specs[i];
        match spec.fault.unwrap() {
            Fault::Short => {
                assert_eq!(why, Refusal::ReceiveTooShort);
                assert_eq!(receive, Some((spec.rsn.unwrap(), WcStatus::LocalLength)));
            }
            Fault::Key | Fault::KeyLater => {
                assert_eq!((why, receive), (Refusal::RemoteAccess, None));
            }
            Fault::Local => panic!("failed for {spec:?}"),
        }
        let missing = self.specs[self.delivered.min(i)..i]
            .iter()
            .find(|s| !matches!(s.op, SendOp::Read | SendOp::Local));
        assert!(missing.is_none(), "failed before {missing:?}");
        assert!(self.broken_read || self.delivered <= i);
        self.b.stop();
    }
}

/// The last bytes of message `i`, of a packet of `len` bytes.
fn tail_of(i: usize, len: u32) -> Tail {
    Tail::new(&[u8::try_from(i % 251).unwrap(); Tail::MAX][..Tail::len_of(len)])
}

fn desc_is_last(desc: &TxDesc) -> bool {
    desc.flags.has(StreamFlags::LAST) && desc.opcode == Opcode::ReadResponse
}
