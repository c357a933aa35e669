// SPDX-License-Identifier: GPL-2.0

//! Messages of the requester.

use super::WcStatus;
use crate::packet::Opcode;
use crate::psn::{Msn, Rsn};
use crate::state::{fields, numbered, Field};
use crate::wire::cursor;

/// What a work request of the send queue does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendOp {
    /// Send.
    #[default]
    Send,
    /// Send with immediate.
    SendImm,
    /// Send with invalidate.
    SendInv,
    /// RDMA Write.
    Write,
    /// RDMA Write with immediate.
    WriteImm,
    /// RDMA Read.
    Read,
    /// Atomic compare and swap.
    CmpSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// Atomic write of 8 bytes.
    AtomicWrite,
    /// Flush of what was written.
    Flush,
    /// An operation that the caller carries out itself when its turn comes (local invalidate,
    /// memory window bind, fast registration). It takes its place in the order of execution and
    /// completion, and sends nothing.
    Local,
}

impl SendOp {
    /// Opcode of the request's packets; local operations have none.
    pub(super) const fn opcode(self) -> Opcode {
        match self {
            SendOp::Send => Opcode::Send,
            SendOp::SendImm => Opcode::SendImm,
            SendOp::SendInv => Opcode::SendInv,
            SendOp::Write => Opcode::Write,
            SendOp::WriteImm => Opcode::WriteImm,
            SendOp::Read => Opcode::ReadRequest,
            SendOp::CmpSwap => Opcode::CmpSwap,
            SendOp::FetchAdd => Opcode::FetchAdd,
            SendOp::AtomicWrite => Opcode::AtomicWrite,
            SendOp::Flush => Opcode::Flush,
            SendOp::Local => Opcode::Void,
        }
    }

    /// Whether the peer answers (what `max_rd_atomic` limits and a fence waits for).
    pub const fn has_response(self) -> bool {
        matches!(
            self,
            SendOp::Read | SendOp::CmpSwap | SendOp::FetchAdd | SendOp::AtomicWrite | SendOp::Flush
        )
    }

    /// Whether it is an atomic that fetches.
    pub const fn is_atomic(self) -> bool {
        matches!(self, SendOp::CmpSwap | SendOp::FetchAdd)
    }

    /// Whether it consumes a receive of the peer.
    pub const fn consumes_receive(self) -> bool {
        matches!(
            self,
            SendOp::Send | SendOp::SendImm | SendOp::SendInv | SendOp::WriteImm
        )
    }
}

/// A work request for [`super::SendStream::post`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendWork {
    /// What to do.
    pub op: SendOp,
    /// Fence indicator (IBTA 1.4, 10.8.3.3): wait for all earlier Reads and atomics.
    pub fence: bool,
    /// Wait until all earlier messages are done.
    pub after_all: bool,
    /// Solicited event indicator.
    pub solicited: bool,
    /// Length of the local buffer list in bytes, or of what is flushed; ignored for atomics, whose
    /// length is 8.
    pub len: u32,
    /// Remote address (Write, Read, atomics, Flush).
    pub va: u64,
    /// Remote key (Write, Read, atomics).
    pub rkey: u32,
    /// Immediate data as the big-endian word read as a number (SendImm, WriteImm), or the remote
    /// key to invalidate (SendInv), or what to do (Flush), see [`DataFields::imm`].
    ///
    /// [`DataFields::imm`]: crate::packet::DataFields::imm
    pub imm_or_inv: u32,
    /// Compare value (CmpSwap) or addend (FetchAdd).
    pub compare_add: u64,
    /// Swap value (CmpSwap), or the value to write (AtomicWrite).
    pub swap: u64,
    /// Given back in packets and the completion; means nothing to the stream.
    pub cookie: u32,
}

/// How far a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing of it sent under its current epoch.
    #[default]
    Posted,
    /// Sent at least in part.
    Sent,
    /// Acknowledged, or answered, in full.
    Done,
    /// Ends with this status when its turn to be sent comes.
    Broken(WcStatus),
}

/// One entry of a send stream's message ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendMsg {
    pub(super) va: u64,
    pub(super) compare_add: u64,
    pub(super) swap: u64,
    pub(super) cookie: u32,
    pub(super) len: u32,
    pub(super) rkey: u32,
    pub(super) imm_or_inv: u32,
    pub(super) rsn: Rsn,
    pub(super) msn: Msn,
    /// Ring position of the message whose MSN falls on this entry. Local operations take entries
    /// but no MSN, so the two run apart.
    pub(super) pos_of_msn: u32,
    /// Packets to be counted until it is done: its own, or those of the response.
    pub(super) packets: u32,
    /// Packets counted.
    pub(super) counted: u32,
    pub(super) epoch: u16,
    pub(super) op: SendOp,
    pub(super) state: State,
    pub(super) fence: bool,
    pub(super) after_all: bool,
    pub(super) solicited: bool,
}

const _: () = assert!(core::mem::size_of::<SendMsg>() <= 80);

numbered!(SendOp {
    Send,
    SendImm,
    SendInv,
    Write,
    WriteImm,
    Read,
    CmpSwap,
    FetchAdd,
    AtomicWrite,
    Flush,
    Local,
});

impl Field for State {
    fn put(&self, w: &mut cursor::Writer<'_>) -> Option<()> {
        w.u8(match self {
            State::Posted => 0,
            State::Sent => 1,
            State::Done => 2,
            State::Broken(_) => 3,
        })?;
        match self {
            State::Broken(status) => status.put(w),
            _ => Some(()),
        }
    }

    fn get(r: &mut cursor::Reader<'_>) -> Option<Self> {
        Some(match r.u8().ok()? {
            0 => State::Posted,
            1 => State::Sent,
            2 => State::Done,
            3 => State::Broken(WcStatus::get(r)?),
            _ => return None,
        })
    }
}

fields!(SendMsg {
    va,
    compare_add,
    swap,
    cookie,
    len,
    rkey,
    imm_or_inv,
    rsn,
    msn,
    pos_of_msn,
    packets,
    counted,
    epoch,
    op,
    state,
    fence,
    after_all,
    solicited,
});
