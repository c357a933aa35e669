// SPDX-License-Identifier: GPL-2.0

//! What the data path counts, and the names under which `rdma statistic` shows it.

use kernel::prelude::*;

/// Names of the counters, in the order in which
/// [`Endpoint::counters`](super::endpoint::Endpoint::counters) fills them in.
pub(crate) const NAMES: [&CStr; 2] = [c"tx_packets", c"rx_packets"];
