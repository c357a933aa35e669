// SPDX-License-Identifier: GPL-2.0

//! Sequence numbers modulo 2^32 with the serial order of RFC 1982.

macro_rules! serial {
    ($(#[$m:meta])* $name:ident) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number `n` further on.
            pub const fn add(self, n: u32) -> Self {
                Self(self.0.wrapping_add(n))
            }

            /// The number `n` further back.
            pub const fn sub(self, n: u32) -> Self {
                Self(self.0.wrapping_sub(n))
            }

            /// How far this number lies ahead of `base`, modulo 2^32.
            pub const fn ahead_of(self, base: Self) -> u32 {
                self.0.wrapping_sub(base.0)
            }

            /// Whether this number comes strictly before `other`.
            pub const fn before(self, other: Self) -> bool {
                let d = other.0.wrapping_sub(self.0);
                d != 0 && d < 1 << 31
            }
        }
    };
}

serial! {
    /// Packet sequence number of one path.
    Psn
}
serial! {
    /// Message sequence number of one stream, in posting order.
    Msn
}
serial! {
    /// Number of the receive work request that a message consumes, per stream.
    Rsn
}
