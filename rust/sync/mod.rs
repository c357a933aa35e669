// SPDX-License-Identifier: GPL-2.0

//! Synchronisation, timers, work and identifiers, as the `kernel` crate does not offer them yet.

pub mod global_mutex;
pub mod hrtimer;
pub mod id_table;
pub mod index;
pub mod list;
pub mod lock_bh;
pub mod percpu_counters;
pub mod work;
