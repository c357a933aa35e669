// SPDX-License-Identifier: GPL-2.0

//! The responder's half.

mod atomics;
mod attempts;
mod checks;
mod delivery;
mod failures;
mod receives;
mod responses;

use super::*;
use crate::packet::{NakCode, TxDesc};

/// Enough receives for everybody.
const POSTED: Rsn = Rsn(1_000);

fn packet(opcode: Opcode, msn: u32, offset: u32, flags: StreamFlags) -> DataFields {
    let request = matches!(
        opcode,
        Opcode::Write | Opcode::WriteImm | Opcode::ReadRequest | Opcode::CmpSwap | Opcode::FetchAdd
    );
    DataFields {
        opcode,
        flags,
        dst_qpn: B,
        src_qpn: A,
        msn: START.add(msn),
        offset,
        va: if request { 0x10_0000 } else { 0 },
        rkey: if request { 9 } else { 0 },
        length: if opcode == Opcode::ReadRequest {
            3_000
        } else {
            0
        },
        ..DataFields::default()
    }
}

fn send(msn: u32, rsn: u32, offset: u32, flags: StreamFlags) -> DataFields {
    DataFields {
        rsn: Rsn(rsn),
        ..packet(Opcode::Send, msn, offset, flags)
    }
}

/// A Read of eight bytes.
fn read(msn: u32) -> DataFields {
    DataFields {
        length: 8,
        ..packet(Opcode::ReadRequest, msn, 0, LAST)
    }
}

/// Sends the next packet of a response.
fn respond(r: &mut Receiver) -> TxDesc {
    let desc = r.next_response().unwrap();
    assert!(r.commit_response(&desc));
    desc
}

/// Takes a packet that must be welcome.
fn take(r: &mut Receiver, f: &DataFields, len: u32) -> Target {
    match r.on_packet(f, len, POSTED) {
        Verdict::Place(target) => {
            r.placed(f, len);
            target
        }
        other => panic!("{other:?} for {f:?}"),
    }
}

fn deliveries(r: &mut Receiver) -> Vec<Delivery> {
    core::iter::from_fn(|| r.pop_delivery()).collect()
}

fn refused(r: &Receiver, f: &DataFields, len: u32) -> Option<Refusal> {
    match r.on_packet(f, len, POSTED) {
        Verdict::Refuse(why) => Some(why),
        _ => None,
    }
}
