// SPDX-License-Identifier: GPL-2.0

//! Message state of one connected queue pair.
//!
//! A queue pair has two streams: [`SendStream`] is its requester half, [`RecvStream`] its responder
//! half. Both are driven under the QP's lock and never call the connection. Packets may arrive in
//! any order, each exactly once (paths drop duplicates), so messages complete by counting packets.
//!
//! # Numbers
//!
//! Messages are numbered (MSN) in posting order, from the PSN that the application gave to
//! `modify_qp`. Messages that consume a receive also carry the number of that receive (RSN, from
//! 0). Every packet but the last carries exactly one MTU of payload, so offsets are multiples of it.
//! At most [`MSG_WINDOW`] messages of a stream are outstanding.
//!
//! # Refusals and epochs
//!
//! A responder acknowledges a packet only after it was placed, or discarded on purpose. A packet
//! that it refuses stays unacknowledged until the peer has acknowledged the NAK, so a refusal can
//! never be overtaken by the completion of what it refuses.
//!
//! After a NAK that can be retried the requester sends the refused message and all later ones again
//! from the start, under a higher *epoch*. Epochs are 16-bit serial numbers, 0 in a new stream
//! and in the lower half of the numbers in one that begins anew.
//! Two rules make the attempts independent of how packets overtake each other:
//!
//! * The requester counts an acknowledgement only if its packet has the epoch that the message has
//!   now.
//! * The responder keeps, for each message number of its window, the lowest epoch that it still
//!   takes. Older packets are discarded, a newer one makes the message start again. Refusing a
//!   packet of message m and epoch e raises that bound to e + 1 for m and all later messages.
//!
//! The NAK carries m and e. If the requester has gone back to m or before since it sent that packet,
//! then m has a higher epoch, and the NAK is an echo and ignored; all that the responder has
//! forgotten belongs to attempts that the requester has given up. Otherwise m has epoch e, and all
//! later messages have e or above. Of those that the responder has discarded (epoch e) none can
//! complete, since completions are in order and m cannot complete: the packet is held until the
//! requester has seen the NAK and gone back. So several refusals may be on their way at once, in any
//! order, also from before the responder had a stream at all ([`Nak::not_ready`]).
//!
//! # Order of failures
//!
//! A fatal refusal (IBTA 1.4, 9.9.2 and 9.9.3) takes effect in message order: earlier messages
//! still complete, then the refused one fails with its status, then the rest is flushed. The
//! responder reports [`Delivery::Failed`] when all earlier messages are delivered and all earlier
//! responses acknowledged.

mod message;
mod nak;
mod recv;
mod response;
mod send;
mod slot;
mod status;
#[cfg(test)]
mod tests;
mod timer;

pub use message::{SendMsg, SendOp, SendWork};
pub use nak::Nak;
pub use recv::{
    Delivery, Received, RecvConfig, RecvStream, Refusal, RemoteAccess, Tail, Target, Verdict,
};
pub use response::{MemoryRange, Response, ResponsePacket};
pub use send::{Completion, QueueFull, RequestPacket, ResponseTarget, SendConfig, SendStream};
pub use slot::MsgSlot;
pub use status::WcStatus;
pub use timer::{local_ack_timeout, rnr_timer};

use core::num::NonZeroU32;

/// Most messages outstanding per stream: ring length that both halves should be given.
pub const MSG_WINDOW: u32 = 128;

/// Longest message in bytes (IBTA 1.4, 9.7.8: 2^31).
pub const MAX_MSG_LEN: u32 = 1 << 31;

/// Packets that a message of `len` bytes takes; an empty message takes one.
fn packet_count(len: u32, mtu: NonZeroU32) -> u32 {
    let full = len / mtu;
    let rest = len % mtu;
    full.saturating_add(u32::from(rest != 0)).max(1)
}

/// Makes an MTU usable as a divisor; 0 counts as 1.
fn nonzero_mtu(mtu: u32) -> NonZeroU32 {
    NonZeroU32::new(mtu).unwrap_or(NonZeroU32::MIN)
}

/// Whether epoch `a` comes before `b`, in the serial order of RFC 1982.
fn epoch_before(a: u16, b: u16) -> bool {
    let d = b.wrapping_sub(a);
    d != 0 && d < 1 << 15
}

/// The later one of two epochs.
fn later_epoch(a: u16, b: u16) -> u16 {
    if epoch_before(a, b) {
        b
    } else {
        a
    }
}

/// Whether ring position `a` comes before `b`; positions run freely modulo 2^32.
fn before(a: u32, b: u32) -> bool {
    let d = b.wrapping_sub(a);
    d != 0 && d < 1 << 31
}

/// The largest power of two that fits `len` entries, at most `limit`; 0 if there is no entry.
fn ring_size(len: usize, limit: u32) -> u32 {
    let len = u32::try_from(len).unwrap_or(u32::MAX).min(limit);
    match len.checked_ilog2() {
        Some(log) => 1 << log,
        None => 0,
    }
}

/// The storage index of free-running position `pos` in a ring of `size` entries.
fn ring_index(pos: u32, size: u32) -> usize {
    // CAST: widening on every platform that has RDMA (usize is at least 32 bits).
    (pos & size.wrapping_sub(1)) as usize
}
