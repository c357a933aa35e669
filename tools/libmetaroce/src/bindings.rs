// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Generated bindings to libibverbs' driver interface, the module's ABI and libc.

#![allow(
    clippy::all,
    clippy::indexing_slicing,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn
)]

include!(env!("METAROCE_BINDINGS"));
