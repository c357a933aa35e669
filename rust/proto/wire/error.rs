// SPDX-License-Identifier: GPL-2.0

//! Why a datagram is dropped by the parser.

/// Why a datagram is not a valid packet; each cause has its own counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WireError {
    /// Fewer bytes than a base header, or than the header length field claims.
    TooShort = 0,
    /// A version other than [`super::VERSION`].
    BadVersion = 1,
    /// A packet type that this version does not define.
    UnknownType = 2,
    /// A flag bit that this version does not define.
    ReservedFlags = 3,
    /// The header length field disagrees with the type, the opcode or the element counts.
    BadHeaderLength = 4,
    /// A data packet with an opcode that this version does not define.
    BadOpcode = 5,
    /// A NAK with a code that this version does not define.
    BadNakCode = 6,
    /// An ACK with more than [`super::MAX_ACK_BLOCKS`] blocks.
    TooManyBlocks = 7,
    /// An ACK block with a vector longer than the 256-packet span.
    BadVector = 8,
    /// INIT or INIT_ACK with no plane or more than [`super::MAX_PLANES`].
    BadPlaneCount = 9,
    /// Payload behind a header that carries none.
    UnexpectedPayload = 10,
}

impl WireError {
    /// Number of causes, for an array of counters indexed by [`WireError::index`].
    pub const COUNT: usize = 11;

    /// Names of the causes in index order, for statistics.
    pub const NAMES: [&'static str; Self::COUNT] = [
        "too_short",
        "bad_version",
        "unknown_type",
        "reserved_flags",
        "bad_header_length",
        "bad_opcode",
        "bad_nak_code",
        "too_many_blocks",
        "bad_vector",
        "bad_plane_count",
        "unexpected_payload",
    ];

    /// Index of this cause, below [`WireError::COUNT`].
    pub const fn index(self) -> usize {
        // CAST: the discriminants are listed above.
        self as usize
    }
}
