// SPDX-License-Identifier: GPL-2.0

//! The baseline: a reliable connection on a single path with go-back-N and DCQCN, as NICs for
//! RoCEv2 have it (InfiniBand architecture specification, 9.7; rate control in [`dcqcn`]).
//!
//! A lossy fabric, as for MetaRoCE: there is no pause.

pub mod dcqcn;
mod receiver;
mod sender;

pub use receiver::Receiver;
pub use sender::Sender;

/// Packets of the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RcPacket {
    /// Packet `psn`, of `len` payload bytes.
    Data {
        /// Its number.
        psn: u64,
        /// Bytes of payload.
        len: u32,
        /// It ends a message, and asks for an acknowledgement.
        last: bool,
    },
    /// Everything before `psn` has arrived.
    Ack {
        /// The next one expected.
        psn: u64,
    },
    /// As [`RcPacket::Ack`], and `psn` is missing.
    Nak {
        /// The next one expected.
        psn: u64,
    },
    /// Congestion notification.
    Cnp,
}

/// Bytes on the wire beside the payload: preamble, gap, Ethernet, IPv4, UDP, BTH, RETH, ICRC.
pub const OVERHEAD: u32 = 38 + 20 + 8 + 12 + 16 + 4;
/// An acknowledgement or notification: the least Ethernet frame.
pub const CONTROL: u32 = 84;
