// SPDX-License-Identifier: GPL-2.0

//! One path: each half by itself, told what the other would say.

mod acks;
mod receiving;
mod route;
mod timers;
mod window;

use std::vec::Vec;

use super::*;
use crate::bits::Bits256;
use crate::congestion::FixedWindow;
use crate::packet::{Opcode, PathId, TxDesc};
use crate::recovery::{LossCause, Timers};
use crate::time::{Duration, Instant, Stamp};
use crate::wire::AckBlock;

type TestPath = Path<Vec<TxSlot>>;

/// A PSN that wraps soon.
const FIRST: Psn = Psn(0xffff_fff0);
const START: Instant = Instant(1_000_000_000);

fn path(window: u32) -> TestPath {
    let mut p = Path::new(std::vec![TxSlot::default(); SPAN as usize]).unwrap();
    let cc = Controller::Fixed(FixedWindow::new(window));
    p.restart(FIRST, FIRST, Route::default(), cc);
    p
}

fn desc(n: u32) -> TxDesc {
    TxDesc {
        opcode: Opcode::Write,
        offset: n,
        len: 100,
        ..TxDesc::default()
    }
}

fn at(us: u64) -> Instant {
    START.after(Duration::from_micros(us))
}

/// Sends `n` packets at `now`.
fn send(p: &mut TestPath, now: Instant, n: u32) -> Vec<Tx> {
    (0..n)
        .map(|i| p.tx.assign(now, desc(i), i + 1 == n).unwrap())
        .collect()
}

/// A block that acknowledges what is before `cum` and these, and echoes `echo`.
fn block(echo: &Tx, cum: u32, also: &[u32]) -> AckBlock {
    let mut b = AckBlock {
        route_epoch: echo.route_epoch,
        cum: FIRST.add(cum),
        stamp: echo.stamp,
        ..AckBlock::default()
    };
    for i in also {
        b.acked.set((i - cum - 1) as u8);
    }
    b
}

fn popped(p: &mut TestPath) -> Vec<u32> {
    let mut all: Vec<u32> = core::iter::from_fn(|| p.tx.pop_acked())
        .map(|acked| acked.desc.offset)
        .collect();
    all.sort_unstable();
    all
}

fn lost(p: &mut TestPath) -> Vec<u32> {
    core::iter::from_fn(|| p.tx.pick_lost())
        .map(|(psn, _)| psn.ahead_of(FIRST))
        .collect()
}

#[test]
fn too_few_slots_make_no_path() {
    assert!(TestPath::new(std::vec![TxSlot::default(); 255]).is_none());
}
