// SPDX-License-Identifier: GPL-2.0

//! Sending again what was lost, and refusals that belong to no queue pair.

use super::{
    super::{
        conn::Conn,
        now,
        requester::BuildError, //
    },
    burst::Sender,
    packet::Content, //
};
use proto::packet::Opcode;

impl Conn {
    /// Sends NAKs, and again what was lost.
    pub(super) fn send_again(&self) {
        {
            let mut inner = self.inner.lock();
            while let Some(nak) = inner.proto.poll_nak(now()) {
                let content = Content::nak(&nak.desc);
                let mut sender = Sender::new(self, nak.path);
                let _ = sender.push(&mut inner, None, &content, &nak.desc, nak.tx);
                sender.flush(&mut inner);
            }
        }
        loop {
            let Some(lost) = self.inner.lock().proto.next_retransmit() else {
                return;
            };
            let qp = match lost.desc.opcode {
                Opcode::Void | Opcode::Nak => None,
                _ => self.endpoint.host().qps.lookup(lost.desc.qpn.0),
            };
            let mut qp_inner = qp.as_ref().map(|qp| qp.inner.lock());
            let content = match &qp_inner {
                // The number may have been given to another queue pair since.
                Some(q) if q.belongs_to(self) => q.content(&lost.desc),
                _ => None,
            }
            .unwrap_or_else(|| match lost.desc.opcode {
                Opcode::Nak => Content::nak(&lost.desc),
                _ => Content::void(&lost.desc),
            });
            let built = {
                let mut inner = self.inner.lock();
                let Some(tx) = inner.proto.retransmit(now(), lost.path, lost.psn) else {
                    continue;
                };
                let mut sender = Sender::again(self, lost.path);
                let whose = qp.as_deref().zip(qp_inner.as_deref());
                let built = sender.push(&mut inner, whose, &content, &lost.desc, tx);
                sender.flush(&mut inner);
                let counters = qp_inner.as_ref().and_then(|q| q.counters_on(self));
                if let (Some(counters), Some(cause)) = (counters, tx.cause) {
                    counters.sent_again(inner.plane_of(lost.path), cause);
                }
                built
            };
            if let (Err(BuildError::Protection), Some(qp), Some(q)) = (built, &qp, &mut qp_inner) {
                match lost.desc.opcode {
                    Opcode::ReadResponse => qp.response_gone(q, &lost.desc),
                    _ => qp.request_failed(q, &lost.desc),
                }
                // The NAK is to be sent.
                qp.want_to_send(self);
            }
        }
    }
}
