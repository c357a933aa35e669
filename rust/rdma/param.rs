// SPDX-License-Identifier: GPL-2.0

//! Module parameters of types that the `module!` macro does not have.

use kernel::prelude::*;

/// Returns the parameter `cc`: the name of a law of congestion control, as the user wrote it.
pub fn cc() -> &'static CStr {
    // SAFETY: The string is a static of this module, terminated by whoever parses parameters, and
    // does not change any more when the module's code runs.
    unsafe { CStr::from_char_ptr(bindings::metaroce_param_cc()) }
}

/// Returns the parameter `offload`: the name of a policy, as the user wrote it.
pub fn offload() -> &'static CStr {
    // SAFETY: As above.
    unsafe { CStr::from_char_ptr(bindings::metaroce_param_offload()) }
}
