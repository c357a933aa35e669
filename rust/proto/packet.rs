// SPDX-License-Identifier: GPL-2.0

//! What one data packet carries, independent of path and encoding.

use crate::psn::{Msn, Rsn};

/// A queue pair number (24 bits used).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Qpn(pub u32);

/// Index of a path within its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathId(pub u16);

/// Opcodes of data packets. The numbers are wire code points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Fills the place of a PSN whose message no longer exists at the sender; carries nothing.
    #[default]
    Void = 0,
    /// Part of a Send.
    Send = 1,
    /// Part of a Send with immediate.
    SendImm = 2,
    /// Part of a Send with invalidate.
    SendInv = 3,
    /// Part of an RDMA Write.
    Write = 4,
    /// Part of an RDMA Write with immediate.
    WriteImm = 5,
    /// Asks for an RDMA Read.
    ReadRequest = 6,
    /// Part of the answer to a Read.
    ReadResponse = 7,
    /// Asks for an atomic compare and swap.
    CmpSwap = 8,
    /// Asks for an atomic fetch and add.
    FetchAdd = 9,
    /// The answer to an atomic.
    AtomicResponse = 10,
    /// The responder half of a stream refuses a message.
    Nak = 11,
    /// Asks for an atomic write of 8 bytes; answered as an atomic is.
    AtomicWrite = 12,
    /// Asks for what was written to be made visible, or durable; answered as an atomic is.
    Flush = 13,
}

/// Why a responder refuses a message. The numbers are wire code points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum NakCode {
    /// No receive is posted (IB RNR NAK); the packet also carries the 5-bit RNR timer code.
    Rnr = 1,
    /// The QP does not exist, is not connected to the sender, or is not ready to receive. The
    /// requester tries again after its local ACK timeout, as after IB's silent drop.
    #[default]
    NotReady = 2,
    /// IB Invalid Request NAK.
    InvalidRequest = 3,
    /// IB Remote Access Error NAK.
    RemoteAccess = 4,
    /// IB Remote Operational Error NAK.
    RemoteOperation = 5,
}

impl NakCode {
    /// The code with wire code point `code`, if there is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(NakCode::Rnr),
            2 => Some(NakCode::NotReady),
            3 => Some(NakCode::InvalidRequest),
            4 => Some(NakCode::RemoteAccess),
            5 => Some(NakCode::RemoteOperation),
            _ => None,
        }
    }
}

/// Flags of a data packet that belong to its stream. Wire bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFlags(pub u8);

impl StreamFlags {
    /// Last packet of its message.
    pub const LAST: StreamFlags = StreamFlags(1 << 0);
    /// Solicited event requested.
    pub const SOLICITED: StreamFlags = StreamFlags(1 << 1);
    /// The message begins the stream anew (unreliable streams only): nothing before it is still to
    /// come, and its receives count from 0.
    pub const START: StreamFlags = StreamFlags(1 << 2);

    /// All flags that there are.
    pub const ALL: StreamFlags = Self::LAST.with(Self::SOLICITED).with(Self::START);

    /// Whether all bits of `f` are set.
    pub const fn has(self, f: StreamFlags) -> bool {
        self.0 & f.0 == f.0
    }

    /// Both sets together.
    pub const fn with(self, f: StreamFlags) -> StreamFlags {
        StreamFlags(self.0 | f.0)
    }
}

/// What a path remembers of a packet until it is acknowledged: enough for the stream to build the
/// packet again. Meaning of the members by opcode:
///
/// * requests: `qpn` local QP, `msn` and `epoch` of the message, `offset` and `len` of the payload;
/// * responses: `qpn` local (responder) QP, `msn` and `epoch` of the peer's request;
/// * [`Opcode::Nak`]: `qpn` the local QP refused for (0 if there is none), `peer_qpn` whom to tell,
///   `msn`/`epoch` what is refused, `offset` the [`NakCode`], `len` the RNR timer code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxDesc {
    /// What the packet is.
    pub opcode: Opcode,
    /// Flags that go on the wire.
    pub flags: StreamFlags,
    /// Attempt number of the stream, see [`crate::stream`].
    pub epoch: u16,
    /// The local QP.
    pub qpn: Qpn,
    /// The peer's QP.
    pub peer_qpn: Qpn,
    /// Message number.
    pub msn: Msn,
    /// Byte offset of the payload in the message.
    pub offset: u32,
    /// Payload length in bytes.
    pub len: u32,
}

impl Opcode {
    /// The opcode with wire code point `code`, if there is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Opcode::Void,
            1 => Opcode::Send,
            2 => Opcode::SendImm,
            3 => Opcode::SendInv,
            4 => Opcode::Write,
            5 => Opcode::WriteImm,
            6 => Opcode::ReadRequest,
            7 => Opcode::ReadResponse,
            8 => Opcode::CmpSwap,
            9 => Opcode::FetchAdd,
            10 => Opcode::AtomicResponse,
            11 => Opcode::Nak,
            12 => Opcode::AtomicWrite,
            13 => Opcode::Flush,
            _ => return None,
        })
    }

    /// Whether packets of this opcode may carry payload.
    pub const fn carries_payload(self) -> bool {
        matches!(
            self,
            Opcode::Send
                | Opcode::SendImm
                | Opcode::SendInv
                | Opcode::Write
                | Opcode::WriteImm
                | Opcode::ReadResponse
        )
    }

    /// Whether this is a request that is executed in its turn, once, and answered with what it found
    /// or a mere [`Opcode::AtomicResponse`].
    pub const fn is_atomic(self) -> bool {
        matches!(
            self,
            Opcode::CmpSwap | Opcode::FetchAdd | Opcode::AtomicWrite | Opcode::Flush
        )
    }

    /// Whether this is (part of) a request, which a stream may refuse.
    pub const fn is_request(self) -> bool {
        !matches!(
            self,
            Opcode::Void | Opcode::ReadResponse | Opcode::AtomicResponse | Opcode::Nak
        )
    }
}

impl TxDesc {
    /// Bytes of payload in the packet; [`TxDesc::len`] of others than data has other meanings.
    pub const fn payload_len(&self) -> u32 {
        if self.opcode.carries_payload() {
            self.len
        } else {
            0
        }
    }
}

/// What the header of a data packet says to the stream: everything but path, PSN and stamp.
///
/// Flat, so that the wire format and the streams need to agree on names only. A member that the
/// opcode does not carry is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataFields {
    /// What the packet is.
    pub opcode: Opcode,
    /// Stream flags.
    pub flags: StreamFlags,
    /// The receiver's QP.
    pub dst_qpn: Qpn,
    /// The sender's QP.
    pub src_qpn: Qpn,
    /// Message number; in responses and NAKs that of the request.
    pub msn: Msn,
    /// Attempt number of the message, see [`crate::stream`].
    pub epoch: u16,
    /// Byte offset of the payload in the message.
    pub offset: u32,
    /// Remote address of the start of the message (Write, Read, atomics).
    pub va: u64,
    /// Remote key (Write, Read, atomics); the key to invalidate (SendInv).
    pub rkey: u32,
    /// The receive that the message consumes (Send, SendImm, SendInv, WriteImm).
    pub rsn: Rsn,
    /// Immediate data (SendImm, WriteImm): the big-endian 32-bit word, read as a number. What a Flush
    /// does: its placement type in bits 0–7, its selectivity in bits 8–15, with the values of
    /// libibverbs.
    pub imm: u32,
    /// Bytes to read (ReadRequest) or to flush (Flush).
    pub length: u32,
    /// Compare value (CmpSwap) or addend (FetchAdd).
    pub compare_add: u64,
    /// Swap value (CmpSwap), or the value to write (AtomicWrite).
    pub swap: u64,
    /// Value found at the responder (AtomicResponse).
    pub original: u64,
    /// Why the message is refused (Nak).
    pub code: NakCode,
    /// RNR timer code, 5 bits (Nak with [`NakCode::Rnr`]).
    pub rnr_timer: u8,
}
