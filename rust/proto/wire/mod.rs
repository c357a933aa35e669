// SPDX-License-Identifier: GPL-2.0

//! Wire format, version 1.
