// SPDX-License-Identifier: GPL-2.0

//! What carries the verbs out.

pub(crate) mod counters;
pub(crate) mod cq;
pub(crate) mod endpoint;
pub(crate) mod limits;
pub(crate) mod mr;
pub(crate) mod qp;
