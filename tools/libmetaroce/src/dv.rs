// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Direct verbs, `metaroce_dv.h`: methods of the kernel module beyond verbs.

use crate::bindings as c;
use crate::errno::{code, Errno};
use core::ffi::{c_int, c_ulong, c_void};
use core::ptr;

/// `RDMA_VERBS_IOCTL`, whose size is that of the header: `_IOWR(0x1b, 1, …)`.
const VERBS_IOCTL: c_ulong =
    (3 << 30) | ((size_of::<c::ib_uverbs_ioctl_hdr>() as c_ulong) << 16) | (0x1b << 8) | 1;

/// Most attributes of a method.
const ATTRS: usize = 2;

/// A call of a method, as `ioctl(RDMA_VERBS_IOCTL)` takes it.
#[repr(C)]
struct Call {
    header: c::ib_uverbs_ioctl_hdr,
    attrs: [c::ib_uverbs_attr; ATTRS],
}

// The attributes follow the header at once.
const _: () = assert!(core::mem::offset_of!(Call, attrs) == size_of::<c::ib_uverbs_ioctl_hdr>());

impl Call {
    /// Begins a call of a method of the driver's own object.
    fn new(method: c::metaroce_dv_methods) -> Self {
        Self {
            header: c::ib_uverbs_ioctl_hdr {
                // CAST: The numbers have 16 bits.
                object_id: c::METAROCE_OBJECT_DV as u16,
                method_id: method as u16,
                driver_id: c::METAROCE_DRIVER_ID,
                ..c::ib_uverbs_ioctl_hdr::default()
            },
            attrs: [c::ib_uverbs_attr::default(); ATTRS],
        }
    }

    /// Adds an attribute that must be known.
    fn push(&mut self, id: u32, len: usize, data: u64) {
        if let Some(attr) = self.attrs.get_mut(usize::from(self.header.num_attrs)) {
            // CAST: The numbers, and lengths of what is in the ABI, have 16 bits.
            attr.attr_id = id as u16;
            attr.len = len as u16;
            attr.flags = c::UVERBS_ATTR_F_MANDATORY as u16;
            attr.__bindgen_anon_1.data = data;
            self.header.num_attrs += 1;
        }
    }

    /// Makes the call.
    ///
    /// # Safety
    ///
    /// `context` is an open context of this provider; the attributes are those of the method, with
    /// addresses of live objects of its types.
    unsafe fn run(mut self, context: *mut c::ibv_context) -> Result<(), Errno> {
        let n = usize::from(self.header.num_attrs);
        let len = size_of::<c::ib_uverbs_ioctl_hdr>() + n * size_of::<c::ib_uverbs_attr>();
        // CAST: Some hundred bytes.
        self.header.length = len as u16;
        // SAFETY: The context is live; the call is as long as it says.
        let ret = unsafe { c::ioctl((*context).cmd_fd, VERBS_IOCTL, ptr::from_mut(&mut self)) };
        if ret != 0 {
            return Err(Errno::last());
        }
        Ok(())
    }
}

// The header for applications has the values of the ABI.
const _: () = {
    assert!(c::METAROCE_DV_DEVICE_ATTR_PLANES == c::METAROCE_DV_DEVICE_PLANES);
    assert!(c::METAROCE_DV_DEVICE_ATTR_PATHS_PER_PLANE == c::METAROCE_DV_DEVICE_PATHS_PER_PLANE);
    assert!(c::METAROCE_DV_DEVICE_ATTR_CC == c::METAROCE_DV_DEVICE_LAW);
    assert!(c::METAROCE_DV_DEVICE_ATTR_OFFLOAD == c::METAROCE_DV_DEVICE_OFFLOAD);
    assert!(c::METAROCE_DV_QP_ATTR_PLANES == c::METAROCE_DV_QP_PLANES);
    assert!(c::METAROCE_DV_QP_ATTR_PATHS_PER_PLANE == c::METAROCE_DV_QP_PATHS_PER_PLANE);
    assert!(c::METAROCE_DV_QP_ATTR_CC == c::METAROCE_DV_QP_LAW);
    assert!(c::METAROCE_DV_QP_ATTR_ORDERING == c::METAROCE_DV_QP_ORDERING);
    assert!(c::METAROCE_DV_QP_ATTR_OFFLOAD == c::METAROCE_DV_QP_OFFLOAD);
    assert!(c::METAROCE_DV_QP_FLAG_OFFLOADED == c::METAROCE_DV_QP_OFFLOADED);
    assert!(c::METAROCE_DV_QP_FLAG_OWN_CONNECTION == c::METAROCE_DV_QP_OWN_CONNECTION);
    assert!(c::METAROCE_DV_QP_FLAG_ESTABLISHED == c::METAROCE_DV_QP_ESTABLISHED);
    assert!(c::METAROCE_DV_CC_ECN == c::METAROCE_DV_LAW_ECN);
    assert!(c::METAROCE_DV_CC_DELAY == c::METAROCE_DV_LAW_DELAY);
    assert!(c::METAROCE_DV_CC_FIXED == c::METAROCE_DV_LAW_FIXED);
    assert!(c::METAROCE_DV_OFFLOAD_DEVICE == c::METAROCE_DV_POLICY_DEVICE);
    assert!(c::METAROCE_DV_OFFLOAD_OFF == c::METAROCE_DV_POLICY_OFF);
    assert!(c::METAROCE_DV_OFFLOAD_PREFER == c::METAROCE_DV_POLICY_PREFER);
    assert!(c::METAROCE_DV_OFFLOAD_REQUIRE == c::METAROCE_DV_POLICY_REQUIRE);
    assert!(c::METAROCE_DV_LAST_BYTE_ORDERED == c::METAROCE_DV_ORDER_LAST_BYTE);
    assert!(c::METAROCE_DV_COMPLETION_ORDERED == c::METAROCE_DV_ORDER_COMPLETION);
    assert!(c::METAROCE_DV_MAX_PLANES == c::METAROCE_DV_PLANES);
};

/// Returns the address of a structure that the kernel reads or writes.
fn address<T>(place: *mut T) -> u64 {
    place.cast::<c_void>().expose_provenance() as u64
}

/// `metaroce_dv_is_supported()`.
///
/// # Safety
///
/// `device` is null or a device of libibverbs.
#[no_mangle]
pub unsafe extern "C" fn metaroce_dv_is_supported(device: *mut c::ibv_device) -> bool {
    // SAFETY: By this function's contract.
    !device.is_null() && unsafe { crate::driver::is_ours(device) }
}

/// `metaroce_dv_query_device()`.
///
/// # Safety
///
/// `context` is an open context, and `attr` readable and writable.
#[no_mangle]
pub unsafe extern "C" fn metaroce_dv_query_device(
    context: *mut c::ibv_context,
    attr: *mut c::metaroce_dv_device_attr,
) -> c_int {
    // SAFETY: By this function's contract.
    code(unsafe { query_device(context, &mut *attr) })
}

/// # Safety
///
/// `context` is an open context.
unsafe fn query_device(
    context: *mut c::ibv_context,
    attr: &mut c::metaroce_dv_device_attr,
) -> Result<(), Errno> {
    // SAFETY: By this function's contract.
    unsafe { check(context, attr.comp_mask) }?;
    let mut resp = c::metaroce_dv_device::default();
    let mut call = Call::new(c::METAROCE_METHOD_QUERY_DEVICE);
    let (id, len) = (c::METAROCE_ATTR_QUERY_DEVICE_RESP, size_of_val(&resp));
    call.push(id, len, address(&mut resp));
    // SAFETY: The context was checked; the response lives through the call.
    unsafe { call.run(context) }?;
    *attr = c::metaroce_dv_device_attr {
        comp_mask: 0,
        used_planes: resp.used_planes,
        paths_per_plane: resp.paths_per_plane,
        cc: resp.law,
        offload: resp.offload,
        planes: resp.planes,
        planes_up: resp.planes_up,
        max_paths_per_plane: resp.max_paths_per_plane,
        max_paths: resp.max_paths,
        cc_supported: resp.laws,
        ordering: resp.ordering,
        ordering_supported: resp.orderings,
        ifindex: resp.ifindex,
    };
    Ok(())
}

/// `metaroce_dv_modify_device()`.
///
/// # Safety
///
/// `context` is an open context, and `attr` readable.
#[no_mangle]
pub unsafe extern "C" fn metaroce_dv_modify_device(
    context: *mut c::ibv_context,
    attr: *const c::metaroce_dv_device_attr,
    mask: u32,
) -> c_int {
    // SAFETY: By this function's contract.
    code(unsafe { modify_device(context, &*attr, mask) })
}

/// # Safety
///
/// `context` is an open context.
unsafe fn modify_device(
    context: *mut c::ibv_context,
    attr: &c::metaroce_dv_device_attr,
    mask: u32,
) -> Result<(), Errno> {
    // SAFETY: By this function's contract.
    unsafe { check(context, attr.comp_mask) }?;
    let mut req = c::metaroce_dv_modify_device {
        mask,
        planes: attr.used_planes,
        paths_per_plane: attr.paths_per_plane,
        law: attr.cc,
        offload: attr.offload,
        reserved: 0,
    };
    let mut call = Call::new(c::METAROCE_METHOD_MODIFY_DEVICE);
    let (id, len) = (c::METAROCE_ATTR_MODIFY_DEVICE_REQ, size_of_val(&req));
    call.push(id, len, address(&mut req));
    // SAFETY: The context was checked; the request lives through the call.
    unsafe { call.run(context) }
}

/// `metaroce_dv_query_qp()`.
///
/// # Safety
///
/// `qp` is a live queue pair, and `attr` readable and writable.
#[no_mangle]
pub unsafe extern "C" fn metaroce_dv_query_qp(
    qp: *mut c::ibv_qp,
    attr: *mut c::metaroce_dv_qp_attr,
) -> c_int {
    // SAFETY: By this function's contract.
    code(unsafe { query_qp(qp, &mut *attr) })
}

/// # Safety
///
/// `qp` is a live queue pair.
unsafe fn query_qp(qp: *mut c::ibv_qp, attr: &mut c::metaroce_dv_qp_attr) -> Result<(), Errno> {
    // SAFETY: By this function's contract; these members do not change.
    let (context, handle) = unsafe { ((*qp).context, (*qp).handle) };
    // SAFETY: The context of a live queue pair.
    unsafe { check(context, attr.comp_mask) }?;
    let mut resp = c::metaroce_dv_qp::default();
    let mut call = Call::new(c::METAROCE_METHOD_QUERY_QP);
    call.push(c::METAROCE_ATTR_QUERY_QP_HANDLE, 0, handle.into());
    let (id, len) = (c::METAROCE_ATTR_QUERY_QP_RESP, size_of_val(&resp));
    call.push(id, len, address(&mut resp));
    // SAFETY: The context was checked; the response lives through the call.
    unsafe { call.run(context) }?;
    *attr = c::metaroce_dv_qp_attr {
        comp_mask: 0,
        planes: resp.planes,
        paths_per_plane: resp.paths_per_plane,
        cc: resp.law,
        ordering: resp.ordering,
        offload: resp.offload,
        flags: resp.flags,
        planes_up: resp.planes_up,
        paths: resp.paths,
        connection: resp.connection,
    };
    Ok(())
}

/// `metaroce_dv_modify_qp()`.
///
/// # Safety
///
/// `qp` is a live queue pair, and `attr` readable.
#[no_mangle]
pub unsafe extern "C" fn metaroce_dv_modify_qp(
    qp: *mut c::ibv_qp,
    attr: *const c::metaroce_dv_qp_attr,
    mask: u32,
) -> c_int {
    // SAFETY: By this function's contract.
    code(unsafe { modify_qp(qp, &*attr, mask) })
}

/// # Safety
///
/// `qp` is a live queue pair.
unsafe fn modify_qp(
    qp: *mut c::ibv_qp,
    attr: &c::metaroce_dv_qp_attr,
    mask: u32,
) -> Result<(), Errno> {
    // SAFETY: By this function's contract; these members do not change.
    let (context, handle) = unsafe { ((*qp).context, (*qp).handle) };
    // SAFETY: The context of a live queue pair.
    unsafe { check(context, attr.comp_mask) }?;
    let mut req = c::metaroce_dv_modify_qp {
        mask,
        planes: attr.planes,
        paths_per_plane: attr.paths_per_plane,
        law: attr.cc,
        ordering: attr.ordering,
        offload: attr.offload,
    };
    let mut call = Call::new(c::METAROCE_METHOD_MODIFY_QP);
    call.push(c::METAROCE_ATTR_MODIFY_QP_HANDLE, 0, handle.into());
    let (id, len) = (c::METAROCE_ATTR_MODIFY_QP_REQ, size_of_val(&req));
    call.push(id, len, address(&mut req));
    // SAFETY: The context was checked; the request lives through the call.
    unsafe { call.run(context) }
}

/// Sees to it that a context is one of this provider, and that no member is asked for that is not
/// known.
///
/// # Safety
///
/// `context` is an open context.
unsafe fn check(context: *mut c::ibv_context, comp_mask: u64) -> Result<(), Errno> {
    // SAFETY: By this function's contract; a context does not outlive its device.
    if !unsafe { crate::driver::is_ours((*context).device) } || comp_mask != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}
