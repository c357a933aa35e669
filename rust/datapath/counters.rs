// SPDX-License-Identifier: GPL-2.0

//! The counters of a device.

use crate::rdma::stats::CounterDesc;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// A counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counter {
            $($(#[$doc])* $variant,)*
        }

        /// Descriptions of the counters, in the order of [`Counter`].
        pub(crate) static DESCS: &[CounterDesc] = &[$(CounterDesc::new($name)),*];

        /// Number of counters.
        pub(crate) const COUNT: usize = [$(Counter::$variant),*].len();
    };
}

counters! {
    /// Packets sent.
    TxPackets = c"tx_packets",
    /// Packets received.
    RxPackets = c"rx_packets",
}
