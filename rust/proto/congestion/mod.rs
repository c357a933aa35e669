// SPDX-License-Identifier: GPL-2.0

//! Congestion control behind one trait.
