// SPDX-License-Identifier: GPL-2.0

//! The host as its endpoint sees it.

use super::*;

impl App for Host {
    fn next(&mut self, now: Instant) -> Option<TxDesc> {
        let n = self.qps.len();
        for i in 0..n {
            let at = (self.turn + i) % n;
            let q = &mut self.qps[at];
            if now < q.ready_at {
                continue;
            }
            let desc = q.rx.next_response().or_else(|| q.tx.next_segment(now));
            if desc.is_some() {
                self.turn = at;
                return desc;
            }
        }
        None
    }

    fn committed(&mut self, now: Instant, desc: &TxDesc) {
        let i = self.index(desc.qpn).expect("a QP of this host");
        let q = &mut self.qps[i];
        let ok = match desc.opcode {
            Opcode::ReadResponse | Opcode::AtomicResponse => q.rx.commit_response(desc),
            _ => q.tx.commit(now, desc),
        };
        assert!(ok);
        q.settle(now, &mut self.naks);
        // Messages of different QPs mix.
        self.turn = self.rng.below(self.qps.len() as u64) as usize;
    }

    fn build(&mut self, desc: &TxDesc, payload: &mut Vec<u8>) -> Option<DataFields> {
        let i = self.index(desc.qpn)?;
        let q = &self.qps[i];
        match desc.opcode {
            Opcode::ReadResponse | Opcode::AtomicResponse => {
                let p = q.rx.response_packet(desc)?;
                payload.extend(q.read(&p.source));
                Some(p.fields)
            }
            _ => {
                let p = q.tx.packet(desc)?;
                payload.extend(q.mine.bytes(p.cookie as usize, p.offset, p.len));
                Some(p.fields)
            }
        }
    }

    fn receive(&mut self, now: Instant, f: &DataFields, payload: &[u8]) -> Taken {
        let qp = self
            .index(f.dst_qpn)
            .filter(|i| self.qps[*i].ready_at <= now);
        let request = f.opcode.is_request();
        let Some(i) = qp else {
            return if request {
                Taken::Refuse(Nak::not_ready(f).to_desc())
            } else {
                Taken::Accept
            };
        };
        let q = &mut self.qps[i];
        let nak = match f.opcode {
            Opcode::Nak => {
                q.tx.on_nak(now, f);
                None
            }
            _ if request => q.request(f, payload),
            _ => {
                q.response(now, f, payload);
                None
            }
        };
        q.settle(now, &mut self.naks);
        match nak {
            Some(nak) => Taken::Refuse(nak.to_desc()),
            None => Taken::Accept,
        }
    }

    fn acked(&mut self, now: Instant, desc: &TxDesc) {
        let Some(i) = self.index(desc.qpn) else {
            return;
        };
        let q = &mut self.qps[i];
        match desc.opcode {
            Opcode::ReadResponse | Opcode::AtomicResponse => q.rx.on_response_acked(desc),
            _ => q.tx.on_acked(now, desc),
        }
        q.settle(now, &mut self.naks);
    }

    fn pop_nak(&mut self) -> Option<TxDesc> {
        self.naks.pop()
    }

    fn deadline(&self) -> Option<Instant> {
        let timers = self.qps.iter().filter_map(|q| q.tx.poll_timeout());
        let ready = self
            .qps
            .iter()
            .map(|q| q.ready_at)
            .filter(|t| *t > self.now);
        let post = self.receives_missing().then_some(self.next_post);
        timers.chain(ready).chain(post).min()
    }

    fn on_timeout(&mut self, now: Instant, progress: Instant) {
        self.now = now;
        for q in &mut self.qps {
            q.tx.on_timeout(now, progress);
        }
        self.settle(now);
    }

    fn established(&mut self, payload_mtu: u16) {
        for q in &mut self.qps {
            let mtu = q.tx.config().mtu.min(u32::from(payload_mtu));
            assert!(q.tx.set_mtu(mtu));
            q.rx.set_mtu(mtu);
        }
    }

    fn broken(&mut self) {
        self.broken = true;
        for q in &mut self.qps {
            q.rx.stop();
            q.tx.fail(WcStatus::RetryExceeded);
        }
    }
}
