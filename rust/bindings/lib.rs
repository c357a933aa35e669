// SPDX-License-Identifier: GPL-2.0

//! What `bindgen` makes of the kernel headers that the `kernel` crate does not
//! bind, and of this module's own C helpers and user ABI.

#![no_std]
#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
#![cfg_attr(not(CONFIG_RUSTC_HAS_UNNECESSARY_TRANSMUTES), allow(unknown_lints))]
#![allow(unnecessary_transmutes)]

mod abi;

mod bindings_raw {
    use kernel::ffi;
    use pin_init::{MaybeZeroable, Zeroable};

    // Written by hand, the kernel blocks these types from bindgen.
    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    // SAFETY: `__BindgenBitfieldUnit<Storage>` is a newtype around `Storage`.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    include!(env!("METAROCE_GENERATED"));
}

pub use abi::UserAbi;
pub use bindings_raw::*;
