// SPDX-License-Identifier: GPL-2.0

//! The requester's half.

mod ends;
mod local;
mod naks;
mod packets;
mod patience;
mod queue;
mod responses;

use super::*;
use crate::packet::{NakCode, TxDesc};
use crate::time::Duration;

/// Lets the time come for which the stream waits; returns it.
fn expire(s: &mut Sender) -> Instant {
    let now = s.poll_timeout().unwrap();
    s.on_timeout(now, T0);
    now
}

/// Sends everything that may be sent.
fn pump(s: &mut Sender, now: Instant) -> Vec<TxDesc> {
    let mut sent = Vec::new();
    while let Some(desc) = s.next_segment(now) {
        assert!(s.packet(&desc).is_some(), "cannot build {desc:?}");
        assert!(s.commit(now, &desc));
        s.assert_invariants();
        assert!(s.packet(&desc).is_some(), "cannot rebuild {desc:?}");
        sent.push(desc);
    }
    sent
}

fn ack_all(s: &mut Sender, now: Instant, descs: &[TxDesc]) {
    for desc in descs {
        s.on_acked(now, desc);
        s.assert_invariants();
    }
}

fn nak(code: NakCode, msn: Msn, epoch: u16) -> DataFields {
    DataFields {
        opcode: Opcode::Nak,
        dst_qpn: A,
        src_qpn: B,
        msn,
        epoch,
        code,
        rnr_timer: 1,
        ..DataFields::default()
    }
}

fn respond(s: &mut Sender, msn: Msn, len: u32) {
    let f = DataFields {
        opcode: Opcode::ReadResponse,
        flags: StreamFlags::LAST,
        dst_qpn: A,
        src_qpn: B,
        msn,
        ..DataFields::default()
    };
    assert!(matches!(
        s.on_response(&f, len),
        ResponseTarget::Place { offset: 0, .. }
    ));
    s.response_placed(T0, &f);
    s.assert_invariants();
}
