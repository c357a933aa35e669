// SPDX-License-Identifier: GPL-2.0

//! What the two ends do.

use super::*;

/// Sends numbered packets, and keeps account of those that the peer sends.
pub struct Counter {
    pub to_send: u32,
    pub sent: u32,
    pub len: u32,
    pub rng: Rng,
    /// Packets refused and aborted by this side, 1/10,000.
    pub refuse: u32,
    pub abort: u32,
    /// By number: how often it came, and whether it was refused.
    pub received: HashMap<u32, bool>,
    pub refused: u32,
    /// Numbers whose descriptor came back.
    pub acked: HashMap<u32, ()>,
    /// Numbers that the peer refused.
    pub naks: HashMap<u32, ()>,
}

impl Counter {
    pub fn new(to_send: u32, seed: u64) -> Self {
        Counter {
            to_send,
            sent: 0,
            len: 512,
            rng: Rng::new(seed),
            refuse: 0,
            abort: 0,
            received: HashMap::new(),
            refused: 0,
            acked: HashMap::new(),
            naks: HashMap::new(),
        }
    }

    pub fn done(&self, peer: &Counter) -> bool {
        self.acked.len() as u32 == self.to_send
            && peer.received.len() as u32 == self.to_send
            && self.naks.len() as u32 == peer.refused
    }
}

impl App for Counter {
    fn next(&mut self, _: Instant) -> Option<TxDesc> {
        (self.sent < self.to_send).then(|| TxDesc {
            opcode: Opcode::Write,
            qpn: Qpn(1),
            peer_qpn: Qpn(2),
            msn: Msn(self.sent),
            len: self.len,
            ..TxDesc::default()
        })
    }

    fn committed(&mut self, _: Instant, desc: &TxDesc) {
        assert_eq!(desc.msn.0, self.sent);
        self.sent += 1;
    }

    fn build(&mut self, desc: &TxDesc, payload: &mut Vec<u8>) -> Option<DataFields> {
        let fields = DataFields {
            opcode: desc.opcode,
            msn: desc.msn,
            src_qpn: desc.qpn,
            dst_qpn: desc.peer_qpn,
            ..DataFields::default()
        };
        payload.resize(desc.len as usize, desc.msn.0 as u8);
        Some(fields)
    }

    fn receive(&mut self, _: Instant, f: &DataFields, payload: &[u8]) -> Taken {
        if f.opcode == Opcode::Nak {
            assert!(
                !self.acked.contains_key(&f.msn.0),
                "acknowledged before the NAK came"
            );
            assert!(self.naks.insert(f.msn.0, ()).is_none(), "NAK twice");
            return Taken::Accept;
        }
        assert!(payload.iter().all(|b| *b == f.msn.0 as u8));
        if self.rng.chance(self.abort) {
            return Taken::Abort;
        }
        let refuse = self.rng.chance(self.refuse);
        let before = self.received.insert(f.msn.0, refuse);
        assert!(before.is_none(), "packet {} delivered twice", f.msn.0);
        if !refuse {
            return Taken::Accept;
        }
        self.refused += 1;
        Taken::Refuse(
            Nak {
                code: NakCode::Rnr,
                msn: f.msn,
                qpn: f.dst_qpn,
                peer_qpn: f.src_qpn,
                ..Nak::default()
            }
            .to_desc(),
        )
    }

    fn acked(&mut self, _: Instant, desc: &TxDesc) {
        assert!(
            self.acked.insert(desc.msn.0, ()).is_none(),
            "acknowledged twice"
        );
    }
}
