// SPDX-License-Identifier: GPL-2.0

//! Paths: ordered packet sequences with a replaceable route.
