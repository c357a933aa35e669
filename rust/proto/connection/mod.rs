// SPDX-License-Identifier: GPL-2.0

//! The connection shared by all queue pairs of an endpoint pair.
