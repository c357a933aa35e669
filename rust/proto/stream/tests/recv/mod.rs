// SPDX-License-Identifier: GPL-2.0

//! The responder's half.

mod atomics;
mod attempts;
mod checks;
mod delivery;
mod failures;
mod receives;
mod responses;

use std::vec::Vec;

use super::*;
use crate::packet::{DataFields, NakCode, Opcode, StreamFlags};
use crate::psn::{Msn, Rsn};

const START: Msn = Msn(0xffff_fff0);
const LAST: StreamFlags = StreamFlags::LAST;
const NONE: StreamFlags = StreamFlags(0);

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
