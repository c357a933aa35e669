// SPDX-License-Identifier: GPL-2.0

//! Loss detection and timers.
