// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Open devices: the table of verbs, and what is asked of the device itself.

use crate::abi::{GetContext, GetContextResp};
use crate::bindings as c;
use crate::errno::Errno;
use crate::{ah, cq, cq_ex, mr, mw, pd, qp, srq, td};
use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr;
use std::io::{Cursor, Write};

/// An open device; libibverbs allocates it.
#[repr(C)]
struct Context {
    verbs: c::verbs_context,
    /// Extensions of the module that may be used.
    features: u64,
}

/// Verbs that are not here answer EOPNOTSUPP.
static OPS: c::verbs_context_ops = {
    // SAFETY: All members are optional functions, for which zero is `None`.
    let mut ops: c::verbs_context_ops = unsafe { core::mem::zeroed() };
    ops.advise_mr = Some(c::ibv_cmd_advise_mr);
    ops.alloc_mw = Some(mw::alloc_mw);
    ops.alloc_parent_domain = Some(pd::alloc_parent_domain);
    ops.alloc_pd = Some(pd::alloc_pd);
    ops.alloc_td = Some(td::alloc_td);
    ops.attach_mcast = Some(c::ibv_cmd_attach_mcast);
    ops.bind_mw = Some(mw::bind_mw);
    ops.create_ah = Some(ah::create_ah);
    ops.create_cq = Some(cq::create_cq);
    ops.create_cq_ex = Some(cq_ex::create_cq_ex);
    ops.create_qp = Some(qp::create_qp);
    ops.create_qp_ex = Some(qp::create_qp_ex);
    ops.create_srq = Some(srq::create_srq);
    ops.dealloc_mw = Some(mw::dealloc_mw);
    ops.dealloc_pd = Some(pd::dealloc_pd);
    ops.dealloc_td = Some(td::dealloc_td);
    ops.dereg_mr = Some(mr::dereg_mr);
    ops.destroy_ah = Some(ah::destroy_ah);
    ops.destroy_cq = Some(cq::destroy_cq);
    ops.destroy_qp = Some(qp::destroy_qp);
    ops.destroy_srq = Some(srq::destroy_srq);
    ops.detach_mcast = Some(c::ibv_cmd_detach_mcast);
    ops.free_context = Some(free_context);
    ops.modify_cq = Some(cq::modify_cq);
    ops.modify_qp = Some(qp::modify_qp);
    ops.modify_srq = Some(srq::modify_srq);
    ops.poll_cq = Some(cq::poll_cq);
    ops.post_recv = Some(qp::post_recv);
    ops.post_send = Some(qp::post_send);
    ops.post_srq_recv = Some(srq::post_srq_recv);
    ops.query_device_ex = Some(query_device_ex);
    ops.query_port = Some(query_port);
    ops.query_qp = Some(qp::query_qp);
    ops.query_srq = Some(srq::query_srq);
    ops.reg_dmabuf_mr = Some(mr::reg_dmabuf_mr);
    ops.reg_mr = Some(mr::reg_mr);
    ops.req_notify_cq = Some(c::ibv_cmd_req_notify_cq);
    ops.rereg_mr = Some(mr::rereg_mr);
    ops.resize_cq = Some(cq::resize_cq);
    ops
};

/// `ibv_open_device()`.
///
/// # Safety
///
/// libibverbs passes a device of this provider and a file that it has opened for it.
pub(crate) unsafe extern "C" fn alloc_context(
    device: *mut c::ibv_device,
    cmd_fd: c_int,
    _private_data: *mut c_void,
) -> *mut c::verbs_context {
    // SAFETY: libibverbs allocates a zeroed object of the size given; the pointer says where in
    // it the common part is, and is not followed.
    let context = unsafe {
        c::_verbs_init_and_alloc_context(
            device,
            cmd_fd,
            size_of::<Context>(),
            ptr::without_provenance_mut(offset_of!(Context, verbs)),
            c::METAROCE_DRIVER_ID,
        )
    }
    .cast::<Context>();
    if context.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: Just allocated, and known to nobody else.
    match unsafe { open(context) } {
        Ok(()) => context.cast(),
        Err(error) => {
            // SAFETY: As `free_context`, which nobody can have called.
            unsafe {
                c::verbs_uninit_context(context.cast());
                c::free(context.cast());
            }
            error.null()
        }
    }
}

/// Agrees with the kernel on the ABI and sets the verbs.
///
/// # Safety
///
/// `context` is a new context of this provider.
unsafe fn open(context: *mut Context) -> Result<(), Errno> {
    let mut resp = GetContextResp::default();
    let mut cmd = GetContext::default();
    cmd.drv.abi_version = c::METAROCE_ABI_VERSION;

    // SAFETY: The context is the caller's; command and response are as long as they say.
    Errno::check(unsafe {
        c::ibv_cmd_get_context(
            context.cast(),
            &mut cmd.core,
            size_of::<GetContext>(),
            #[cfg(pabi = "65")]
            ptr::null_mut(),
            &mut resp.core,
            size_of::<GetContextResp>(),
        )
    })?;

    // SAFETY: The context is the caller's, and the table is a static.
    unsafe {
        (*context).features = resp.drv.features;
        c::verbs_set_ops(context.cast(), &OPS);
    }
    Ok(())
}

/// `ibv_close_device()`.
///
/// # Safety
///
/// `context` came from [`alloc_context`] and is not used afterwards.
unsafe extern "C" fn free_context(context: *mut c::ibv_context) {
    // SAFETY: The `ibv_context` is the last member of `verbs_context`, which is the first of the
    // object; libibverbs has allocated it with malloc().
    unsafe {
        let context = context
            .byte_sub(offset_of!(c::verbs_context, context))
            .cast::<c::verbs_context>();
        c::verbs_uninit_context(context);
        c::free(context.cast());
    }
}

// The beginning of the allocation is the beginning of `verbs_context`.
const _: () = assert!(offset_of!(Context, verbs) == 0);

/// `ibv_query_device_ex()` and `ibv_query_device()`.
///
/// # Safety
///
/// `context` is an open context of this provider, `input` null or readable, `attr` writable for
/// `attr_size` bytes.
unsafe extern "C" fn query_device_ex(
    context: *mut c::ibv_context,
    input: *const c::ibv_query_device_ex_input,
    attr: *mut c::ibv_device_attr_ex,
    attr_size: usize,
) -> c_int {
    let mut resp = c::ib_uverbs_ex_query_device_resp::default();
    let mut resp_size = size_of_val(&resp);
    // SAFETY: By this function's contract; the response is as long as said.
    let ret = unsafe {
        c::ibv_cmd_query_device_any(context, input, attr, attr_size, &mut resp, &mut resp_size)
    };
    if ret == 0 {
        // SAFETY: libibverbs has written at least `orig_attr`.
        let text = unsafe { &mut (*attr).orig_attr.fw_ver };
        format_version(resp.base.fw_ver, text);
    }
    ret
}

/// Writes a version, 16 bits a part, as C string.
fn format_version(version: u64, text: &mut [c_char]) {
    let part = |shift: u32| (version >> shift) & 0xffff;
    let mut buffer = [0u8; 32];
    // The longest is 17 characters; there is always a zero behind it.
    let _ = write!(
        Cursor::new(&mut buffer[..]),
        "{}.{}.{}",
        part(32),
        part(16),
        part(0)
    );
    for (to, from) in text.iter_mut().zip(buffer) {
        // CAST: ASCII.
        *to = from as c_char;
    }
}

/// `ibv_query_port()`.
///
/// # Safety
///
/// `context` is an open context of this provider, `attr` writable.
unsafe extern "C" fn query_port(
    context: *mut c::ibv_context,
    port: u8,
    attr: *mut c::ibv_port_attr,
) -> c_int {
    let mut cmd = c::ibv_query_port::default();
    // SAFETY: By this function's contract; the command lives through the call.
    unsafe { c::ibv_cmd_query_port(context, port, attr, &mut cmd, size_of_val(&cmd)) }
}
