// SPDX-License-Identifier: GPL-2.0

//! Tests of the message state: each half by itself, then both over a network that reorders.

mod lossy;
mod model;
mod order;
mod recv;
mod rng;
mod send;

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::packet::{DataFields, Opcode, Qpn, StreamFlags};
use crate::psn::{Msn, Rsn};
use crate::time::Instant;

/// QP numbers of the requester and the responder in all tests.
const A: Qpn = Qpn(0x11);
const B: Qpn = Qpn(0x22);

/// The first message, shortly before the numbers wrap.
const START: Msn = Msn(0xffff_fff0);

/// When tests begin.
const T0: Instant = Instant(1_000_000);

const LAST: StreamFlags = StreamFlags::LAST;
const NONE: StreamFlags = StreamFlags(0);

type Sender = SendStream<Box<[SendMsg]>>;
type Receiver = RecvStream<Box<[MsgSlot]>, Box<[Response]>>;

fn send_config() -> SendConfig {
    SendConfig {
        qpn: A,
        peer_qpn: B,
        mtu: 1024,
        sq_psn: START.0,
        max_rd_atomic: 4,
        retry_cnt: 7,
        rnr_retry: 7,
        ack_timeout: 14,
        unreliable: false,
    }
}

fn recv_config() -> RecvConfig {
    RecvConfig {
        qpn: B,
        peer_qpn: A,
        mtu: 1024,
        rq_psn: START.0,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 1,
        access: RemoteAccess {
            write: true,
            read: true,
            atomic: true,
            flush: true,
        },
        unreliable: false,
        last_byte_ordered: false,
    }
}

fn sender(cfg: SendConfig) -> Sender {
    let window = usize::try_from(MSG_WINDOW).unwrap();
    SendStream::new(vec![SendMsg::default(); window].into(), cfg)
}

fn receiver(cfg: RecvConfig) -> Receiver {
    let window = usize::try_from(MSG_WINDOW).unwrap();
    RecvStream::new(
        vec![MsgSlot::default(); window].into(),
        vec![Response::default(); 8].into(),
        cfg,
    )
}

fn work(op: SendOp, len: u32, cookie: u32) -> SendWork {
    SendWork {
        op,
        len,
        va: 0x1_0000,
        rkey: 7,
        cookie,
        ..SendWork::default()
    }
}

fn completed(s: &mut Sender) -> Vec<(u32, WcStatus)> {
    core::iter::from_fn(|| s.pop_completed())
        .map(|c| (c.cookie, c.status))
        .collect()
}
