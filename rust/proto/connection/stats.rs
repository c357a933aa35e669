// SPDX-License-Identifier: GPL-2.0

//! Counters of a connection and of its local planes.

/// What a connection counts beside its paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnStats {
    /// ACKs sent.
    pub acks_sent: u64,
    /// Blocks in them.
    pub ack_blocks_sent: u64,
    /// ACKs received.
    pub acks_received: u64,
    /// Packets received for a path that does not exist.
    pub bad_path: u64,
    /// NAKs of the connection sent.
    pub naks_sent: u64,
    /// Packets dropped because there was no room for a NAK.
    pub naks_full: u64,
    /// INITs sent.
    pub inits_sent: u64,
    /// INITs received.
    pub inits_received: u64,
    /// INITs with another id than the established peer's.
    pub challenges: u64,
    /// RESETs received that concerned the connection.
    pub resets_received: u64,
    /// Paths moved to another plane or source port by a timeout.
    pub reroutes_timeout: u64,
    /// Times that a pair of planes carried nothing, while others did, and all its paths moved.
    pub planes_left: u64,
    /// Paths that went back to their planes because those work again.
    pub returns: u64,
    /// Paths moved because a plane went down or came back.
    pub reroutes_plane: u64,
}

/// What a local plane sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneStats {
    /// Data packets sent for the first time.
    pub packets: u64,
    /// Payload bytes of them.
    pub bytes: u64,
    /// Retransmissions.
    pub retransmits: u64,
    /// Times that the plane went down.
    pub downs: u64,
}
