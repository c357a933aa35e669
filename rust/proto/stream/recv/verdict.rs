// SPDX-License-Identifier: GPL-2.0

//! What a responder makes of packets and messages.

use super::Tail;
use crate::packet::{NakCode, Opcode};
use crate::psn::Rsn;
use crate::state::numbered;
use crate::stream::{MemoryRange, WcStatus};

/// What becomes of a request packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Copy the payload there, or check what is asked for, then call [`RecvStream::placed`]; or, if
    /// that is not possible, [`RecvStream::refuse`].
    Place(Target),
    /// Acknowledge it and forget it.
    Discard,
    /// Call [`RecvStream::refuse`] with this reason.
    Refuse(Refusal),
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Into receive number `rsn`, at `offset` of its buffer list.
    Recv {
        /// The receive.
        rsn: Rsn,
        /// Byte offset in its buffer list.
        offset: u32,
    },
    /// Into registered memory, which must allow remote writes. Exactly as long as the payload.
    Memory(MemoryRange),
    /// Likewise, but for the last bytes, which [`RecvStream::hold`] takes: as many as a [`Tail`] has
    /// room for.
    Ordered(MemoryRange),
    /// Nowhere yet: a Read of this range is asked for, which must allow remote reads.
    ReadFrom(MemoryRange),
    /// Nowhere: there is no payload and nothing to check yet.
    None,
}

/// Why the responder refuses a packet or fails to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No receive is posted.
    ReceiverNotReady,
    /// The stream is not connected to the sender, or has ended.
    NotReady,
    /// The request breaks the protocol or is not enabled on this QP.
    InvalidRequest,
    /// Key, bounds or permissions of the remote memory do not allow it.
    RemoteAccess,
    /// The responder cannot carry it out, for a reason of its own.
    RemoteOperation,
    /// The message is longer than the receive that it consumes.
    ReceiveTooShort,
    /// The buffers of the receive are not accessible.
    ReceiveProtection,
}

numbered!(Refusal {
    ReceiverNotReady,
    NotReady,
    InvalidRequest,
    RemoteAccess,
    RemoteOperation,
    ReceiveTooShort,
    ReceiveProtection,
});

impl Refusal {
    /// What the requester is told.
    pub const fn code(self) -> NakCode {
        match self {
            Refusal::ReceiverNotReady => NakCode::Rnr,
            Refusal::NotReady => NakCode::NotReady,
            Refusal::InvalidRequest | Refusal::ReceiveTooShort => NakCode::InvalidRequest,
            Refusal::RemoteAccess => NakCode::RemoteAccess,
            Refusal::RemoteOperation | Refusal::ReceiveProtection => NakCode::RemoteOperation,
        }
    }

    /// Whether the requester does not try again.
    pub(super) const fn is_fatal(self) -> bool {
        !matches!(self, Refusal::ReceiverNotReady | Refusal::NotReady)
    }

    /// How the receive ends that the refused message consumes, if that is at fault.
    pub(super) const fn receive_status(self) -> Option<WcStatus> {
        match self {
            Refusal::ReceiveTooShort => Some(WcStatus::LocalLength),
            Refusal::ReceiveProtection => Some(WcStatus::LocalProtection),
            _ => None,
        }
    }
}

/// A message that consumed a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The receive.
    pub rsn: Rsn,
    /// [`Opcode::Send`], [`Opcode::SendImm`], [`Opcode::SendInv`] or [`Opcode::WriteImm`].
    pub opcode: Opcode,
    /// Length of the message.
    pub byte_len: u32,
    /// Immediate data (SendImm, WriteImm): the big-endian word read as a number.
    pub imm: u32,
    /// Key to invalidate (SendInv).
    pub invalidate: u32,
    /// Solicited event requested.
    pub solicited: bool,
}

/// Something that happens in message order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A receive is complete.
    Receive(Received),
    /// A Write is complete.
    Write {
        /// Length of the message.
        byte_len: u32,
    },
    /// Everything before the last bytes of a Write is in its place: they are to be written now, so
    /// that who sees them sees the rest as well. The Write itself is delivered next.
    Tail {
        /// Where they belong.
        target: MemoryRange,
        /// The bytes.
        tail: Tail,
    },
    /// Execute this atomic, once, and call [`RecvStream::atomic_result`]. Nothing more is delivered
    /// before.
    Atomic {
        /// The operation: [`Opcode::CmpSwap`], [`Opcode::FetchAdd`], [`Opcode::AtomicWrite`] or
        /// [`Opcode::Flush`].
        opcode: Opcode,
        /// 8 bytes, naturally aligned, which must allow remote atomics (or writes); or what is to be
        /// flushed.
        target: MemoryRange,
        /// What a Flush does, see [`DataFields::imm`](crate::packet::DataFields::imm).
        what: u32,
        /// Compare value or addend.
        compare_add: u64,
        /// Swap value, or the value to write.
        swap: u64,
    },
    /// The stream has ended with a fatal refusal: the QP must go to the error state.
    Failed {
        /// Why.
        why: Refusal,
        /// The receive to complete with an error first.
        receive: Option<(Rsn, WcStatus)>,
    },
}
