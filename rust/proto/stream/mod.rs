// SPDX-License-Identifier: GPL-2.0

//! Message state of one RC queue pair.
