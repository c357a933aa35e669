// SPDX-License-Identifier: GPL-2.0

//! ib_core's table of the operations of a driver.

use core::marker::PhantomData;

use kernel::ModuleMetadata;

use super::{
    super::object::{
        Ah,
        Counter,
        Cq,
        Mw,
        Pd,
        Qp,
        Srq,
        UserContext, //
    },
    Operations, //
};

/// ib_core's table of the operations of `T`.
pub(in crate::rdma) struct VTable<T: Operations>(PhantomData<T>);

impl<T: Operations> VTable<T> {
    /// Commands of user space that ib_core does not allow by itself.
    pub(in crate::rdma) const UVERBS_COMMANDS: u64 = 1
        << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND
        | 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;

    /// The second of the bit fields, `uverbs_robust_udata`.
    const ROBUST_UDATA: u8 = 1 << 1;

    pub(in crate::rdma) const OPS: &'static bindings::ib_device_ops = &bindings::ib_device_ops {
        owner: <T::Module as ModuleMetadata>::THIS_MODULE.as_ptr().cast(),
        driver_id: T::DRIVER_ID,
        uverbs_abi_ver: T::UVERBS_ABI_VERSION,
        _bitfield_1: bindings::__BindgenBitfieldUnit::new([Self::ROBUST_UDATA]),

        query_device: Some(Self::query_device),
        modify_device: Some(Self::modify_device),
        process_mad: Some(Self::process_mad),
        query_port: Some(Self::query_port),
        get_port_immutable: Some(Self::get_port_immutable),
        get_link_layer: Some(Self::get_link_layer),
        query_pkey: Some(Self::query_pkey),
        get_dev_fw_str: if T::HAS_FW_STR {
            Some(Self::get_dev_fw_str)
        } else {
            None
        },
        report_port_event: if T::REPORTS_PORT_EVENTS {
            Some(Self::report_port_event)
        } else {
            None
        },
        dealloc_driver: Some(Self::dealloc_driver),

        alloc_ucontext: Some(Self::alloc_ucontext),
        dealloc_ucontext: Some(Self::dealloc_ucontext),
        disassociate_ucontext: Some(Self::disassociate_ucontext),
        mmap: Some(Self::mmap),
        mmap_free: Some(Self::mmap_free),
        size_ib_ucontext: UserContext::<T>::SIZE,

        alloc_pd: Some(Self::alloc_pd),
        dealloc_pd: Some(Self::dealloc_pd),
        size_ib_pd: Pd::<T>::SIZE,

        create_ah: Some(Self::create_ah),
        create_user_ah: Some(Self::create_ah),
        modify_ah: Some(Self::modify_ah),
        query_ah: Some(Self::query_ah),
        destroy_ah: Some(Self::destroy_ah),
        size_ib_ah: Ah::<T>::SIZE,

        add_gid: Some(Self::add_gid),
        del_gid: Some(Self::del_gid),

        create_cq: Some(Self::create_cq),
        create_user_cq: Some(Self::create_cq),
        resize_user_cq: Some(Self::resize_user_cq),
        modify_cq: Some(Self::modify_cq),
        destroy_cq: Some(Self::destroy_cq),
        poll_cq: Some(Self::poll_cq),
        req_notify_cq: Some(Self::req_notify_cq),
        size_ib_cq: Cq::<T>::SIZE,

        create_qp: Some(Self::create_qp),
        modify_qp: Some(Self::modify_qp),
        query_qp: Some(Self::query_qp),
        destroy_qp: Some(Self::destroy_qp),
        post_send: Some(Self::post_send),
        post_recv: Some(Self::post_recv),
        attach_mcast: Some(Self::attach_mcast),
        detach_mcast: Some(Self::detach_mcast),
        size_ib_qp: Qp::<T>::SIZE,

        create_srq: Some(Self::create_srq),
        modify_srq: Some(Self::modify_srq),
        query_srq: Some(Self::query_srq),
        destroy_srq: Some(Self::destroy_srq),
        post_srq_recv: Some(Self::post_srq_recv),
        size_ib_srq: Srq::<T>::SIZE,

        get_dma_mr: Some(Self::get_dma_mr),
        reg_user_mr: Some(Self::reg_user_mr),
        reg_user_mr_dmabuf: Some(Self::reg_user_mr_dmabuf),
        alloc_mr: Some(Self::alloc_mr),
        map_mr_sg: Some(Self::map_mr_sg),
        rereg_user_mr: Some(Self::rereg_user_mr),
        advise_mr: Some(Self::advise_mr),
        dereg_mr: Some(Self::dereg_mr),

        alloc_mw: Some(Self::alloc_mw),
        dealloc_mw: Some(Self::dealloc_mw),
        size_ib_mw: Mw::<T>::SIZE,

        alloc_hw_port_stats: Some(Self::alloc_hw_port_stats),
        alloc_hw_device_stats: Some(Self::alloc_hw_device_stats),
        get_hw_stats: Some(Self::get_hw_stats),

        counter_init: Some(Self::counter_init),
        counter_alloc_stats: Some(Self::counter_alloc_stats),
        counter_bind_qp: Some(Self::counter_bind_qp),
        counter_unbind_qp: Some(Self::counter_unbind_qp),
        counter_update_stats: Some(Self::counter_update_stats),
        counter_dealloc: Some(Self::counter_dealloc),
        size_rdma_counter: Counter::<T>::SIZE,

        fill_res_mr_entry: if T::HAS_FILL_MR {
            Some(Self::fill_res_mr_entry)
        } else {
            None
        },
        fill_res_qp_entry: if T::HAS_FILL_QP {
            Some(Self::fill_res_qp_entry)
        } else {
            None
        },

        device_group: T::ATTRIBUTES.as_raw(),

        ..pin_init::zeroed()
    };
}
