// SPDX-License-Identifier: GPL-2.0

//! Where the packets of a path go just now.

/// The route of a path. Planes are indices into the connection's plane lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Index of the local plane.
    pub local_plane: u8,
    /// Index of the peer's plane.
    pub remote_plane: u8,
    /// UDP source port, the entropy that ECMP sees.
    pub src_port: u16,
    /// Counts the path's routes, modulo 256; goes on the wire.
    pub epoch: u8,
}
