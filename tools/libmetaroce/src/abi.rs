// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The structures exchanged with the module, and that they are laid out as both sides think.

use crate::bindings as c;
use core::mem::{offset_of, size_of};
use core::{ptr, slice};
use ring::layout;

pub(crate) use c::{
    metaroce_cqe as Cqe, metaroce_recv_wqe as RecvWqe, metaroce_send_wqe as SendWqe,
    metaroce_sge as Sge,
};

/// A structure that is no more than its bytes.
///
/// # Safety
///
/// The type has no padding, and every pattern of bits is a value of it.
pub(crate) unsafe trait Plain: Copy {
    /// Returns the value's bytes.
    fn bytes(&self) -> &[u8] {
        slice_bytes(slice::from_ref(self))
    }

    /// Makes a value of its bytes; [`None`] if they are of another length.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != size_of::<Self>() {
            return None;
        }
        // SAFETY: The length was checked, the read may be unaligned, and by the trait's contract
        // any bytes are a value.
        Some(unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) })
    }
}

/// Returns the bytes of a slice of plain values.
pub(crate) fn slice_bytes<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: The bytes of the slice are all initialized, as there is no padding, and borrowed
    // for as long as the result.
    unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

// SAFETY: Integers without padding: the assertions below add up the sizes.
unsafe impl Plain for Cqe {}
// SAFETY: As above.
unsafe impl Plain for SendWqe {}
// SAFETY: As above.
unsafe impl Plain for RecvWqe {}
// SAFETY: Two words and a double word, without padding.
unsafe impl Plain for c::ibv_sge {}

/// Completion queue as the kernel answers its creation.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CreateCqResp {
    pub(crate) core: c::ib_uverbs_create_cq_resp,
    pub(crate) drv: c::metaroce_create_cq_resp,
}

/// Completion queue as the kernel answers its resizing.
#[repr(C)]
#[derive(Default)]
pub(crate) struct ResizeCqResp {
    pub(crate) core: c::ib_uverbs_resize_cq_resp,
    pub(crate) drv: c::metaroce_resize_cq_resp,
}

/// Shared receive queue as the kernel answers its creation.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CreateSrqResp {
    pub(crate) core: c::ib_uverbs_create_srq_resp,
    pub(crate) drv: c::metaroce_create_srq_resp,
}

/// Modification of a shared receive queue.
#[repr(C)]
#[derive(Default)]
pub(crate) struct ModifySrq {
    pub(crate) core: c::ibv_modify_srq,
    pub(crate) drv: c::metaroce_modify_srq_req,
}

/// Address handle as the kernel answers its creation.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CreateAhResp {
    pub(crate) core: c::ib_uverbs_create_ah_resp,
    pub(crate) drv: c::metaroce_create_ah_resp,
}

/// Creation of a queue pair.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CreateQp {
    pub(crate) core: c::ibv_create_qp,
    pub(crate) drv: c::metaroce_create_qp_req,
}

/// Queue pair as the kernel answers its creation.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CreateQpResp {
    pub(crate) core: c::ib_uverbs_create_qp_resp,
    pub(crate) drv: c::metaroce_create_qp_resp,
}

/// Creation of a queue pair, with extensions.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CreateQpEx {
    pub(crate) core: c::ibv_create_qp_ex,
    pub(crate) drv: c::metaroce_create_qp_req,
}

/// Queue pair as the kernel answers its creation with extensions.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CreateQpExResp {
    pub(crate) core: c::ib_uverbs_ex_create_qp_resp,
    pub(crate) drv: c::metaroce_create_qp_resp,
}

/// Opening of a device.
#[repr(C)]
#[derive(Default)]
pub(crate) struct GetContext {
    pub(crate) core: c::ibv_get_context,
    pub(crate) drv: c::metaroce_alloc_ucontext_req,
}

/// Context as the kernel answers its opening.
#[repr(C)]
#[derive(Default)]
pub(crate) struct GetContextResp {
    pub(crate) core: c::ib_uverbs_get_context_resp,
    pub(crate) drv: c::metaroce_alloc_ucontext_resp,
}

/// The doorbell: a list of no work requests.
#[repr(C)]
pub(crate) struct Doorbell {
    hdr: c::ib_uverbs_cmd_hdr,
    response: u64,
    qp_handle: u32,
    wr_count: u32,
    sge_count: u32,
    wqe_size: u32,
}

impl Doorbell {
    /// Makes the command that rings for the queue pair `qp_handle`.
    pub(crate) fn new(qp_handle: u32, response: &mut c::ib_uverbs_post_send_resp) -> Self {
        const WORD: usize = size_of::<u32>();
        Self {
            hdr: c::ib_uverbs_cmd_hdr {
                command: c::IB_USER_VERBS_CMD_POST_SEND,
                in_words: (size_of::<Self>() / WORD) as u16,
                out_words: (size_of::<c::ib_uverbs_post_send_resp>() / WORD) as u16,
            },
            response: ptr::from_mut(response) as u64,
            qp_handle,
            wr_count: 0,
            sge_count: 0,
            wqe_size: size_of::<c::ib_uverbs_send_wr>() as u32,
        }
    }
}

// The ring crate's idea of the header is the C header's.
const _: () = {
    assert!(offset_of!(c::metaroce_ring_hdr, producer) == layout::PRODUCER);
    assert!(offset_of!(c::metaroce_ring_hdr, consumer) == layout::CONSUMER);
    assert!(offset_of!(c::metaroce_ring_hdr, need_doorbell) == layout::NEED_DOORBELL);
    assert!(size_of::<c::metaroce_ring_hdr>() == layout::HEADER_SIZE);
    assert!(c::METAROCE_RING_HDR_SIZE as usize == layout::HEADER_SIZE);
};

// No padding in what is copied as bytes.
const _: () = {
    assert!(size_of::<Cqe>() == c::METAROCE_CQE_SIZE as usize);
    assert!(size_of::<Cqe>() == 2 * 8 + 12 * 4);
    assert!(size_of::<SendWqe>() == c::METAROCE_SEND_WQE_SIZE as usize);
    assert!(size_of::<SendWqe>() == 4 * 8 + 2 + 2 + 3 * 4 + 4 * 4);
    assert!(size_of::<RecvWqe>() == c::METAROCE_RECV_WQE_SIZE as usize);
    assert!(size_of::<RecvWqe>() == 8 + 2 * 4);
};

// A list of `ibv_sge` is copied into a slot as it is.
const _: () = {
    assert!(size_of::<Sge>() == size_of::<c::ibv_sge>());
    assert!(size_of::<Sge>() == 8 + 2 * 4);
    assert!(offset_of!(Sge, addr) == offset_of!(c::ibv_sge, addr));
    assert!(offset_of!(Sge, length) == offset_of!(c::ibv_sge, length));
    assert!(offset_of!(Sge, lkey) == offset_of!(c::ibv_sge, lkey));
};

// The driver's part follows the core's without a gap, where the kernel looks for it.
const _: () = {
    assert!(offset_of!(CreateAhResp, drv) == size_of::<c::ib_uverbs_create_ah_resp>());
    assert!(offset_of!(CreateCqResp, drv) == size_of::<c::ib_uverbs_create_cq_resp>());
    assert!(offset_of!(ResizeCqResp, drv) == size_of::<c::ib_uverbs_resize_cq_resp>());
    assert!(offset_of!(CreateSrqResp, drv) == size_of::<c::ib_uverbs_create_srq_resp>());
    assert!(offset_of!(ModifySrq, drv) == size_of::<c::ibv_modify_srq>());
    assert!(offset_of!(CreateQp, drv) == size_of::<c::ibv_create_qp>());
    assert!(offset_of!(CreateQpResp, drv) == size_of::<c::ib_uverbs_create_qp_resp>());
    assert!(offset_of!(CreateQpEx, drv) == size_of::<c::ibv_create_qp_ex>());
    assert!(offset_of!(CreateQpExResp, drv) == size_of::<c::ib_uverbs_ex_create_qp_resp>());
    assert!(offset_of!(GetContext, drv) == size_of::<c::ibv_get_context>());
    assert!(offset_of!(GetContextResp, drv) == size_of::<c::ib_uverbs_get_context_resp>());
    assert!(
        size_of::<Doorbell>()
            == size_of::<c::ib_uverbs_cmd_hdr>() + size_of::<c::ib_uverbs_post_send>()
    );
};
