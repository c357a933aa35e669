// SPDX-License-Identifier: GPL-2.0

//! What acknowledgements lead to: the queue pairs whose packets have arrived go on.

use super::super::{
    conn::Conn,
    now,
    qp::Qp, //
};
use kernel::sync::Arc;
use proto::{
    packet::{
        Opcode,
        Qpn, //
    },
    path::Acked,
};

/// Acknowledged packets credited under one hold of a connection's lock.
const CREDITS: usize = 16;

impl Conn {
    /// Credits the queue pairs whose packets the peer has acknowledged.
    pub(super) fn credit_acked(&self) {
        loop {
            let mut credits = [Acked::default(); CREDITS];
            let mut n = 0;
            {
                let mut inner = self.inner.lock();
                if inner.paused {
                    return;
                }
                for slot in &mut credits {
                    let Some(acked) = inner.proto.pop_acked() else {
                        break;
                    };
                    *slot = acked;
                    n += 1;
                }
            }
            self.credit(credits.get(..n).unwrap_or(&[]));
            if n < CREDITS {
                return;
            }
        }
    }

    fn credit(&self, mut packets: &[Acked]) {
        while let Some(Acked { desc: first, .. }) = packets.first() {
            let same = packets.iter().take_while(|p| p.desc.qpn == first.qpn);
            let same = same.count().min(packets.len());
            let (mine, rest) = packets.split_at(same);
            packets = rest;
            let Some(qp) = self.lookup(first.qpn) else {
                continue;
            };
            let mut inner = qp.inner.lock();
            if !inner.belongs_to(self) {
                continue;
            }
            let mut spurious = 0;
            for Acked {
                desc,
                spurious: needless,
            } in mine
            {
                spurious += u64::from(*needless);
                match desc.opcode {
                    Opcode::Void | Opcode::Nak => {}
                    Opcode::ReadResponse | Opcode::AtomicResponse => {
                        inner.recv.on_response_acked(desc);
                    }
                    _ => inner.send.on_acked(now(), desc),
                }
            }
            if let Some(counters) = inner.counters.as_ref().filter(|_| spurious > 0) {
                counters.spurious(spurious);
            }
            qp.complete_sent(&mut inner);
            // A response that is acknowledged makes room for the next.
            qp.deliver(&mut inner);
            qp.arm(&inner);
            qp.want_if_ready(&mut inner, self);
        }
    }

    fn lookup(&self, qpn: Qpn) -> Option<Arc<Qp>> {
        self.endpoint.host().qps.lookup(qpn.0)
    }
}
