// SPDX-License-Identifier: GPL-2.0

//! Which structures user space and the kernel exchange.

use crate::bindings_raw::*;

/// A structure of the ABI with the user-space provider.
///
/// # Safety
///
/// The type has no padding, so that all its bytes may be copied to user space, and any bytes from
/// there are a valid value of it.
pub unsafe trait UserAbi: Copy + Default {}

macro_rules! user_abi {
    ($($name:ident { $($member:ident: $size:literal),* $(,)? })*) => {
        $(
            // The members that are listed leave no room for padding, nor for one not listed.
            const _: () = {
                assert!(core::mem::size_of::<$name>() == 0 $(+ $size)*);
                assert!(core::mem::size_of::<$name>() % 8 == 0);
                $(
                    assert!(core::mem::offset_of!($name, $member) % 4 == 0);
                )*
            };

            // SAFETY: The members are integers and arrays of them, and by the assertions above
            // there is no padding.
            unsafe impl UserAbi for $name {}
        )*
    };
}

user_abi! {
    metaroce_alloc_ucontext_req { abi_version: 4, reserved: 4 }
    metaroce_alloc_ucontext_resp { features: 8, max_inline: 4, max_sge: 4, reserved: 16 }
    metaroce_create_cq_resp { mmap_offset: 8, mmap_size: 8, entries: 4, reserved: 4 }
    metaroce_resize_cq_resp { mmap_offset: 8, mmap_size: 8, entries: 4, reserved: 4 }
    metaroce_create_srq_resp {
        mmap_offset: 8, mmap_size: 8, entries: 4, stride: 4, max_sge: 4, reserved: 4,
    }
    metaroce_modify_srq_req { response: 8 }
    metaroce_modify_srq_resp { mmap_offset: 8, mmap_size: 8, entries: 4, stride: 4 }
    metaroce_create_ah_resp { ah: 4, reserved: 4 }
    metaroce_create_qp_req { reserved: 16 }
    metaroce_create_qp_resp {
        sq_mmap_offset: 8, sq_mmap_size: 8, rq_mmap_offset: 8, rq_mmap_size: 8,
        sq_entries: 4, sq_stride: 4, rq_entries: 4, rq_stride: 4, reserved: 16,
    }
    metaroce_dv_device {
        planes: 4, planes_up: 4, paths_per_plane: 4, law: 4, max_paths_per_plane: 4,
        max_paths: 4, laws: 4, ordering: 4, ifindex: 32, used_planes: 4, orderings: 4,
        offload: 4, reserved: 4,
    }
    metaroce_dv_modify_device {
        mask: 4, planes: 4, paths_per_plane: 4, law: 4, offload: 4, reserved: 4,
    }
    metaroce_dv_qp {
        flags: 4, connection: 4, planes: 4, planes_up: 4, paths_per_plane: 4, paths: 4, law: 4,
        ordering: 4, offload: 4, reserved: 4,
    }
    metaroce_dv_modify_qp {
        mask: 4, planes: 4, paths_per_plane: 4, law: 4, ordering: 4, offload: 4,
    }
}
