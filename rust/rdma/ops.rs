// SPDX-License-Identifier: GPL-2.0

//! The operations of a device.

mod counter;
mod cq;
mod mcast;
mod mr;
mod mw;
mod srq;

use core::{
    marker::PhantomData,
    time::Duration, //
};

use kernel::{
    alloc::Flags,
    error::from_result,
    prelude::*,
    ModuleMetadata, //
};

use super::{
    attr::{
        DeviceAttr,
        PortAttr, //
    },
    device::{
        Device,
        PORT, //
    },
    event::{
        CqEvents,
        QpEvents,
        SrqEvents, //
    },
    gid::{
        Gid,
        GidEntry, //
    },
    methods::Definitions,
    mmap,
    object::{
        Ah,
        Counter,
        Cq,
        Mappable,
        Mr,
        Mw,
        Object,
        Pd,
        Qp,
        Reporting,
        Srq,
        UserContext, //
    },
    post::{
        post_list,
        RecvRequest,
        SendRequest, //
    },
    qp::{
        AddressVector,
        AttrMask,
        QpAttr,
        QpCap,
        QpType, //
    },
    restrack,
    stats::{
        self,
        CounterDesc, //
    },
    sysfs::AttributeGroup,
    udata::UserData,
    wc::Completions, //
};

/// What a completion queue is created with.
#[derive(Clone, Copy, Debug)]
pub struct CqInit {
    /// Number of completions that there must be room for.
    pub entries: u32,
    /// The completion vector.
    pub comp_vector: u32,
    /// Whether completions carry time stamps.
    pub timestamps: bool,
}

/// What a queue pair is created with.
pub struct QpInit<'a, T: Operations> {
    /// The service type.
    pub qp_type: QpType,
    /// Sizes that the queues must have.
    pub cap: QpCap,
    /// Where sends complete.
    pub send_cq: Option<&'a Cq<T>>,
    /// Where receives complete.
    pub recv_cq: Option<&'a Cq<T>>,
    /// Where receives are taken from, if not from a queue of the pair's own.
    pub srq: Option<&'a Srq<T>>,
    /// Whether every send makes a completion.
    pub signal_all: bool,
    /// Of the values of `enum ib_qp_create_flags`.
    pub create_flags: u32,
}

/// What a queue pair was created with.
#[derive(Clone, Copy, Debug)]
pub struct QpCreated {
    /// Number of the queue pair, of 24 bits.
    pub qp_num: u32,
    /// Sizes that the queues have.
    pub cap: QpCap,
}

/// What is found out about a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpQueried {
    /// The attributes.
    pub attr: QpAttr,
    /// Whether every send makes a completion.
    pub signal_all: bool,
}

/// Sizes of a shared receive queue.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs)]
pub struct SrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    /// Fewer receives than this raise an event, once; 0 for none.
    pub limit: u32,
}

/// What is to be changed of a shared receive queue.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs)]
pub struct SrqChange {
    pub max_wr: Option<u32>,
    pub limit: Option<u32>,
}

/// What a memory region is registered with.
#[derive(Clone, Copy, Debug)]
pub struct MrInit {
    /// Address in the process.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Address by which work requests name the first byte.
    pub virt_addr: u64,
    /// Of the values of `enum ib_access_flags`; checked by ib_core against each other.
    pub access_flags: u32,
}

/// What is to be changed of a memory region, beside its domain.
#[derive(Clone, Copy, Debug)]
pub struct MrChange {
    /// Address in the process, length, and address by which work requests name the first byte.
    pub range: Option<(u64, u64, u64)>,
    /// Of the values of `enum ib_access_flags`; checked by ib_core against each other.
    pub access_flags: Option<u32>,
}

/// A range of a memory region.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs)]
pub struct MemoryRange {
    pub lkey: u32,
    pub addr: u64,
    pub len: u32,
}

/// The keys of a memory region.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs)]
pub struct MrKeys {
    pub lkey: u32,
    pub rkey: u32,
}

/// A type of memory windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MwType {
    /// Bound by a verb.
    One,
    /// Bound and invalidated by work requests.
    Two,
}

/// A driver: its data, and what ib_core asks of it.
///
/// All operations but those that say otherwise may sleep. Operations on the same object are
/// serialised by ib_core where that matters: an object is not destroyed while another operation
/// uses it.
#[vtable]
pub trait Operations: Sized + Send + Sync + 'static {
    /// The module that the driver is in.
    type Module: ModuleMetadata;

    /// The driver's part of a user context.
    type UserContext: Send + Sync;
    /// The driver's part of a protection domain.
    type Pd: Send + Sync;
    /// The driver's part of an address handle.
    type Ah: Send + Sync;
    /// The driver's part of a completion queue.
    type Cq: Send + Sync;
    /// The driver's part of a queue pair.
    type Qp: Send + Sync;
    /// The driver's part of a shared receive queue.
    type Srq: Send + Sync;
    /// The driver's part of a memory region.
    type Mr: Send + Sync;
    /// The driver's part of a memory window.
    type Mw: Send + Sync;
    /// A counter that queue pairs are bound to.
    type Counter: Send + Sync;

    /// Number of the driver, the same as in its user-space part.
    const DRIVER_ID: u32;

    /// Version of the ABI with the user-space part.
    const UVERBS_ABI_VERSION: u32;

    /// Whether the driver reports by itself when the port goes up and down, see
    /// [`Device::report`]; otherwise ib_core does so when its network device does.
    const REPORTS_PORT_EVENTS: bool = false;

    /// The counters of the port and of queue pairs, for `rdma statistic show` and sysfs.
    const COUNTERS: &'static [CounterDesc];

    /// The counters of the device, for sysfs.
    const DEVICE_COUNTERS: &'static [CounterDesc];

    /// The driver's own attributes in sysfs.
    const ATTRIBUTES: &'static AttributeGroup<Self>;

    /// What user space can ask of the driver beyond verbs.
    const METHODS: &'static Definitions<Self>;

    /// Says what the device can do.
    fn query_device(dev: &Device<Self>) -> Result<DeviceAttr>;

    /// Says in what state the port is.
    fn query_port(dev: &Device<Self>) -> Result<PortAttr>;

    /// Says which firmware the device has.
    fn fw_str(_dev: &Device<Self>) -> &'static CStr {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Makes a user context.
    fn alloc_ucontext(dev: &Device<Self>, udata: UserData<'_, Self>) -> Result<Self::UserContext>;

    /// Makes a protection domain, for a user in the kernel if there is no `udata`.
    fn alloc_pd(dev: &Device<Self>, udata: Option<UserData<'_, Self>>) -> Result<Self::Pd>;

    /// Makes an address handle, for a user in the kernel if there is no `udata`.
    ///
    /// Called in a context in which memory can be allocated with `flags`. The handle may be dropped
    /// in any context if a user in the kernel has it.
    fn create_ah(
        dev: &Device<Self>,
        pd: &Pd<Self>,
        address: &AddressVector,
        flags: Flags,
        udata: Option<UserData<'_, Self>>,
    ) -> Result<Self::Ah>;

    /// Changes where an address handle leads.
    fn modify_ah(ah: &Ah<Self>, address: &AddressVector) -> Result;

    /// Returns where an address handle leads.
    fn query_ah(ah: &Ah<Self>) -> AddressVector;

    /// The port has another GID.
    fn add_gid(dev: &Device<Self>, entry: GidEntry) -> Result;

    /// The port has the GID of an index no more.
    fn remove_gid(dev: &Device<Self>, index: u16);

    /// Makes a completion queue, for a user in the kernel if there is no `udata`; returns how many
    /// completions it has room for, too.
    fn create_cq(
        dev: &Device<Self>,
        init: &CqInit,
        events: CqEvents,
        udata: Option<UserData<'_, Self>>,
    ) -> Result<(Self::Cq, u32)>;

    /// Changes the size of a completion queue that a process has; returns how many completions it
    /// has room for.
    fn resize_cq(
        dev: &Device<Self>,
        cq: &Cq<Self>,
        entries: u32,
        udata: UserData<'_, Self>,
    ) -> Result<u32>;

    /// Holds events of a completion queue back until there are `count` completions, but no longer
    /// than `period`; not at all if either is zero.
    fn moderate_cq(dev: &Device<Self>, cq: &Cq<Self>, count: u16, period: Duration);

    /// Ends the use of a completion queue, which is dropped after this.
    fn destroy_cq(dev: &Device<Self>, cq: &Cq<Self>);

    /// Arms a completion queue: the next completion, or the next solicited one, is reported as an
    /// event. Returns whether there may be completions that came before.
    ///
    /// Called in any context.
    fn req_notify_cq(dev: &Device<Self>, cq: &Cq<Self>, solicited_only: bool) -> Result<bool>;

    /// Takes completions out of a queue of a user in the kernel.
    ///
    /// Called in any context.
    fn poll_cq(dev: &Device<Self>, cq: &Cq<Self>, places: &mut Completions<'_>) -> Result;

    /// Makes a queue pair, for a user in the kernel if there is no `udata`.
    fn create_qp(
        dev: &Device<Self>,
        pd: &Pd<Self>,
        init: &QpInit<'_, Self>,
        events: QpEvents,
        udata: Option<UserData<'_, Self>>,
    ) -> Result<(Self::Qp, QpCreated)>;

    /// Modifies the attributes of `attr` that are in `mask`.
    fn modify_qp(dev: &Device<Self>, qp: &Qp<Self>, attr: &QpAttr, mask: AttrMask) -> Result;

    /// Returns all attributes of a queue pair.
    fn query_qp(dev: &Device<Self>, qp: &Qp<Self>) -> Result<QpQueried>;

    /// Ends the use of a queue pair, which is dropped after this.
    fn destroy_qp(dev: &Device<Self>, qp: &Qp<Self>);

    /// Adds a datagram queue pair to a multicast group.
    fn attach_mcast(dev: &Device<Self>, qp: &Qp<Self>, group: Gid) -> Result;

    /// Takes a datagram queue pair out of a multicast group.
    fn detach_mcast(dev: &Device<Self>, qp: &Qp<Self>, group: Gid) -> Result;

    /// Makes a shared receive queue; returns the sizes that it has, too.
    fn create_srq(
        dev: &Device<Self>,
        pd: &Pd<Self>,
        attr: &SrqAttr,
        events: SrqEvents,
        udata: Option<UserData<'_, Self>>,
    ) -> Result<(Self::Srq, SrqAttr)>;

    /// Changes a shared receive queue.
    fn modify_srq(
        dev: &Device<Self>,
        srq: &Srq<Self>,
        change: &SrqChange,
        udata: Option<UserData<'_, Self>>,
    ) -> Result;

    /// Returns the sizes and the limit of a shared receive queue.
    fn query_srq(dev: &Device<Self>, srq: &Srq<Self>) -> Result<SrqAttr>;

    /// Takes a receive work request of a user in the kernel.
    ///
    /// Called in any context.
    fn post_srq_recv(dev: &Device<Self>, srq: &Srq<Self>, request: &RecvRequest<'_>) -> Result;

    /// Shows the work requests that were taken since the last call.
    ///
    /// Called in any context.
    fn posted_srq(dev: &Device<Self>, srq: &Srq<Self>);

    /// Looks at the work that user space has put in the queues of a queue pair. Process context.
    fn doorbell(dev: &Device<Self>, qp: &Qp<Self>) -> Result;

    /// Takes a send work request of a user in the kernel. [`Self::posted`] follows.
    ///
    /// Called in any context.
    fn post_send(dev: &Device<Self>, qp: &Qp<Self>, request: &SendRequest<'_, Self>) -> Result;

    /// Takes a receive work request of a user in the kernel. [`Self::posted`] follows.
    ///
    /// Called in any context.
    fn post_recv(dev: &Device<Self>, qp: &Qp<Self>, request: &RecvRequest<'_>) -> Result;

    /// Begins with the work requests that were taken since the last call.
    ///
    /// Called in any context.
    fn posted(dev: &Device<Self>, qp: &Qp<Self>);

    /// Makes a region of all memory of the kernel, for a user there.
    fn get_dma_mr(dev: &Device<Self>, pd: &Pd<Self>, access: u32) -> Result<(Self::Mr, MrKeys)>;

    /// Registers a range of the current process's memory.
    fn reg_user_mr(
        dev: &Device<Self>,
        pd: &Pd<Self>,
        init: &MrInit,
        udata: UserData<'_, Self>,
    ) -> Result<(Self::Mr, MrKeys)>;

    /// Makes a region for fast registration of up to `max_pages` pages, for a user in the kernel.
    fn alloc_mr(dev: &Device<Self>, pd: &Pd<Self>, max_pages: u32) -> Result<(Self::Mr, MrKeys)>;

    /// Begins the list of pages, of this size, that the next fast registration opens.
    ///
    /// Called in any context; so are those for each page, and for the end.
    fn map_begin(mr: &Mr<Self>, page_size: u32) -> Result;

    /// Adds a page to the list; its address is one of the DMA mapping.
    fn map_page(mr: &Mr<Self>, address: u64) -> Result;

    /// Ends the list: `length` bytes are meant, the first of which is at
    /// [`Registration::iova`](super::post::Registration::iova) modulo the size of a page in the
    /// first page.
    fn map_end(mr: &Mr<Self>, length: u64) -> Result;

    /// Changes a memory region, which then belongs to domain `pd`. Its keys stay.
    fn rereg_mr(dev: &Device<Self>, mr: &Mr<Self>, pd: &Pd<Self>, change: &MrChange) -> Result;

    /// Fetches memory of a region of domain `pd` that is not pinned, for reading or writing.
    fn prefetch_mr(dev: &Device<Self>, pd: &Pd<Self>, range: &MemoryRange, write: bool) -> Result;

    /// Ends the use of a memory region, which is dropped after this, unless it fails.
    fn dereg_mr(dev: &Device<Self>, mr: &Mr<Self>) -> Result;

    /// Makes a memory window; returns its key, too.
    fn alloc_mw(
        dev: &Device<Self>,
        pd: &Pd<Self>,
        mw_type: MwType,
        udata: UserData<'_, Self>,
    ) -> Result<(Self::Mw, u32)>;

    /// Ends the use of a memory window, which is dropped after this.
    fn dealloc_mw(dev: &Device<Self>, mw: &Mw<Self>);

    /// Whether `rdma statistic` shows the counter of this index in [`Self::COUNTERS`] for the port;
    /// sysfs does in any case.
    fn is_of_port(index: usize) -> bool;

    /// Whether the counter of this index in [`Self::COUNTERS`] is counted for queue pairs, too.
    fn is_of_qp(index: usize) -> bool;

    /// Fills the values of [`Self::COUNTERS`], without what was counted for queue pairs that are, or
    /// were, bound to counters of their own: ib_core adds that.
    fn counters(dev: &Device<Self>, values: &mut [u64]);

    /// Makes a counter for queue pairs, and a number for it that is not zero and that no other
    /// counter of the device has.
    fn new_counter(dev: &Device<Self>) -> Result<(Self::Counter, u32)>;

    /// Counts for a queue pair by `counter` from now on, by none if that is [`None`].
    fn bind_counter(qp: &Qp<Self>, counter: Option<&Self::Counter>);

    /// Fills the values of those of [`Self::COUNTERS`] that are counted for queue pairs.
    fn counter_values(counter: &Self::Counter, values: &mut [u64]);

    /// Fills the values of [`Self::DEVICE_COUNTERS`].
    fn device_counters(dev: &Device<Self>, values: &mut [u64]);

    /// Adds the driver's attributes of a memory region.
    fn fill_mr(_mr: &Mr<Self>, _attributes: &mut restrack::Attributes<'_>) -> Result {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Adds the driver's attributes of a queue pair.
    fn fill_qp(_qp: &Qp<Self>, _attributes: &mut restrack::Attributes<'_>) -> Result {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

/// ib_core's table of the operations of `T`.
pub(super) struct VTable<T: Operations>(PhantomData<T>);

impl<T: Operations> VTable<T> {
    /// Commands of user space that ib_core does not allow by itself.
    pub(super) const UVERBS_COMMANDS: u64 = 1
        << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND
        | 1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;

    /// The second of the bit fields, `uverbs_robust_udata`.
    const ROBUST_UDATA: u8 = 1 << 1;

    pub(super) const OPS: &'static bindings::ib_device_ops = &bindings::ib_device_ops {
        owner: <T::Module as ModuleMetadata>::THIS_MODULE.as_ptr().cast(),
        driver_id: T::DRIVER_ID,
        uverbs_abi_ver: T::UVERBS_ABI_VERSION,
        _bitfield_1: bindings::__BindgenBitfieldUnit::new([Self::ROBUST_UDATA]),

        query_device: Some(Self::query_device),
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

    /// Wraps the driver's part of a user's request for an object that only user space has.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for users in the kernel.
    ///
    /// # Safety
    ///
    /// As for [`UserData::from_raw`].
    unsafe fn user<'a>(udata: *mut bindings::ib_udata) -> Result<UserData<'a, T>> {
        // SAFETY: By the requirements of this function.
        unsafe { UserData::from_raw(udata) }.ok_or(EOPNOTSUPP)
    }

    /// Sees to it that the driver's part of a request and its response, if any, are empty.
    ///
    /// # Safety
    ///
    /// As for [`UserData::from_raw`].
    unsafe fn no_udata(udata: *mut bindings::ib_udata) -> Result {
        // SAFETY: By the requirements of this function.
        match unsafe { UserData::<T>::from_raw(udata) } {
            Some(mut udata) => {
                udata.no_request()?;
                udata.no_response()
            }
            None => Ok(()),
        }
    }

    fn check_port(port: u32) -> Result {
        if port == PORT {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T`; `udata` may be null.
    unsafe extern "C" fn query_device(
        dev: *mut bindings::ib_device,
        attr: *mut bindings::ib_device_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let dev = unsafe { Device::<T>::from_raw(dev) };
            let device_attr = T::query_device(dev)?;
            // SAFETY: ib_core passes a structure of its own, zeroed.
            device_attr.fill(unsafe { &mut *attr });
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T`.
    unsafe extern "C" fn query_port(
        dev: *mut bindings::ib_device,
        port: u32,
        attr: *mut bindings::ib_port_attr,
    ) -> c_int {
        from_result(|| {
            Self::check_port(port)?;
            // SAFETY: By the requirements of this function.
            let dev = unsafe { Device::<T>::from_raw(dev) };
            let port_attr = T::query_port(dev)?;
            // SAFETY: ib_core passes a structure of its own, zeroed.
            port_attr.fill(unsafe { &mut *attr });
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T`.
    unsafe extern "C" fn get_port_immutable(
        dev: *mut bindings::ib_device,
        port: u32,
        immutable: *mut bindings::ib_port_immutable,
    ) -> c_int {
        from_result(|| {
            Self::check_port(port)?;
            // SAFETY: By the requirements of this function.
            let dev = unsafe { Device::<T>::from_raw(dev) };
            let attr = T::query_port(dev)?;
            // SAFETY: ib_core passes a structure of its own.
            let immutable = unsafe { &mut *immutable };
            // Management datagrams, and with them the connection manager, as RoCE v2 has them.
            immutable.core_cap_flags = bindings::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
            immutable.max_mad_size = bindings::IB_MGMT_MAD_SIZE;
            immutable.pkey_tbl_len = c_int::from(attr.pkey_tbl_len);
            immutable.gid_tbl_len = c_int::from(attr.gid_tbl_len);
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    unsafe extern "C" fn get_link_layer(
        _dev: *mut bindings::ib_device,
        port: u32,
    ) -> bindings::rdma_link_layer {
        match Self::check_port(port) {
            Ok(()) => bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET,
            Err(_) => bindings::rdma_link_layer_IB_LINK_LAYER_UNSPECIFIED,
        }
    }

    /// # Safety
    ///
    /// To be called by ib_core with a place for the key.
    unsafe extern "C" fn query_pkey(
        _dev: *mut bindings::ib_device,
        port: u32,
        index: u16,
        pkey: *mut u16,
    ) -> c_int {
        from_result(|| {
            Self::check_port(port)?;
            if index != 0 {
                return Err(EINVAL);
            }
            // SAFETY: By the requirements of this function.
            unsafe { *pkey = bindings::IB_DEFAULT_PKEY_FULL as u16 };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T` and `IB_FW_VERSION_NAME_MAX` bytes.
    unsafe extern "C" fn get_dev_fw_str(dev: *mut bindings::ib_device, to: *mut c_char) {
        // SAFETY: By the requirements of this function.
        let dev = unsafe { Device::<T>::from_raw(dev) };
        let from = T::fw_str(dev).to_bytes();
        // CAST: A small constant.
        let n = from
            .len()
            .min(bindings::IB_FW_VERSION_NAME_MAX as usize - 1);
        // SAFETY: `n` bytes and a terminator fit, and `from` has that many.
        unsafe {
            core::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), n);
            *to.add(n) = 0;
        }
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    unsafe extern "C" fn report_port_event(
        _dev: *mut bindings::ib_device,
        _ndev: *mut bindings::net_device,
        _event: c_ulong,
    ) {
        // The driver does it.
    }

    /// # Safety
    ///
    /// To be called by ib_core once, with a device of `T` that nobody uses any more.
    unsafe extern "C" fn dealloc_driver(dev: *mut bindings::ib_device) {
        // SAFETY: By the requirements of this function; the operations were set after the data
        // was initialised.
        unsafe { Device::<T>::deinit(dev) };
    }

    /// ib_core itself keeps no module from going whose devices can be taken from their users; here
    /// each context does, so that `rmmod` is refused while a process uses a device.
    ///
    /// # Safety
    ///
    /// To be called by ib_core with a new context of `size_ib_ucontext` bytes.
    unsafe extern "C" fn alloc_ucontext(
        context: *mut bindings::ib_ucontext,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function; the context is not initialised yet,
            // so the request must not lead to it.
            let udata = unsafe { Self::user(udata) }?.without_context();
            // SAFETY: ib_core sets the device before.
            let dev = unsafe { Device::<T>::from_raw((*context).device) };
            let data = Mappable::new(T::alloc_ucontext(dev, udata)?)?;
            // SAFETY: The module whose code is running.
            if !unsafe { bindings::try_module_get(Self::OPS.owner) } {
                return Err(ENODEV);
            }
            // SAFETY: By the requirements of this function.
            unsafe { UserContext::<T>::init(context, data) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a context whose objects are all destroyed.
    unsafe extern "C" fn dealloc_ucontext(context: *mut bindings::ib_ucontext) {
        // SAFETY: By the requirements of this function.
        unsafe { UserContext::<T>::deinit(context) };
        // SAFETY: Taken in `alloc_ucontext`. The code stays until this has returned: a module that
        // goes unregisters its devices first, and that waits for ib_core to be done with them.
        unsafe { bindings::module_put(Self::OPS.owner) };
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    unsafe extern "C" fn disassociate_ucontext(_context: *mut bindings::ib_ucontext) {
        // Mappings are of ordinary memory and may stay: ib_core destroys the objects next, and
        // the pages live as long as they are mapped.
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live context and the area that is being mapped.
    unsafe extern "C" fn mmap(
        context: *mut bindings::ib_ucontext,
        vma: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: By the requirements of this function; there is no other way to insert an entry
        // than an `MmapEntry`.
        from_result(|| unsafe { mmap::mmap(context, vma) }.map(|()| 0))
    }

    /// # Safety
    ///
    /// To be called by ib_core with an entry that nobody uses any more.
    unsafe extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
        // SAFETY: By the requirements of this function; as above.
        unsafe { mmap::mmap_free(entry) };
    }

    /// # Safety
    ///
    /// To be called by ib_core with a new domain of `size_ib_pd` bytes.
    unsafe extern "C" fn alloc_pd(
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            // SAFETY: ib_core sets the device before.
            let dev = unsafe { Device::<T>::from_raw((*pd).device) };
            let data = T::alloc_pd(dev, udata)?;
            // SAFETY: By the requirements of this function.
            unsafe { Pd::<T>::init(pd, data) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a domain that nobody uses any more.
    unsafe extern "C" fn dealloc_pd(
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            unsafe { Pd::<T>::deinit(pd) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a new handle of `size_ib_ah` bytes and attributes whose GID is
    /// resolved; `udata` is null for users in the kernel.
    unsafe extern "C" fn create_ah(
        ah: *mut bindings::ib_ah,
        init: *mut bindings::rdma_ah_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            // SAFETY: ib_core sets device and domain before.
            let (dev, pd) = unsafe {
                (
                    Device::<T>::from_raw((*ah).device),
                    Pd::<T>::from_raw((*ah).pd),
                )
            };
            // SAFETY: By the requirements of this function.
            let (address, flags) =
                unsafe { (AddressVector::from_raw(&*(*init).ah_attr), (*init).flags) };
            let sleepable = flags & bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0;
            let flags = if sleepable { GFP_KERNEL } else { GFP_ATOMIC };
            let data = T::create_ah(dev, pd, &address, flags, udata)?;
            // SAFETY: By the requirements of this function.
            unsafe { Ah::<T>::init(ah, data) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live handle of `T` and attributes whose GID is resolved.
    unsafe extern "C" fn modify_ah(
        ah: *mut bindings::ib_ah,
        attr: *mut bindings::rdma_ah_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (this, address) =
                unsafe { (Ah::<T>::from_raw(ah), AddressVector::from_raw(&*attr)) };
            T::modify_ah(this, &address).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live handle of `T` and a place for the attributes.
    unsafe extern "C" fn query_ah(
        ah: *mut bindings::ib_ah,
        attr: *mut bindings::rdma_ah_attr,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (this, attr) = unsafe { (Ah::<T>::from_raw(ah), &mut *attr) };
        T::query_ah(this).fill(attr);
        0
    }

    /// # Safety
    ///
    /// To be called by ib_core with a handle that nobody uses any more.
    unsafe extern "C" fn destroy_ah(ah: *mut bindings::ib_ah, _flags: u32) -> c_int {
        // SAFETY: By the requirements of this function.
        unsafe { Ah::<T>::deinit(ah) };
        0
    }

    /// # Safety
    ///
    /// To be called by ib_core with an entry of a port of a live device of `T`.
    unsafe extern "C" fn add_gid(
        attr: *const bindings::ib_gid_attr,
        _context: *mut *mut c_void,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, entry) = unsafe {
                (
                    Device::<T>::from_raw((*attr).device),
                    GidEntry::from_raw(attr),
                )
            };
            T::add_gid(dev, entry).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with an entry that `add_gid` was called with.
    unsafe extern "C" fn del_gid(
        attr: *const bindings::ib_gid_attr,
        _context: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (dev, index) = unsafe { (Device::<T>::from_raw((*attr).device), (*attr).index) };
        T::remove_gid(dev, index);
        0
    }

    /// # Safety
    ///
    /// To be called by ib_core with a new queue of `size_ib_cq` bytes; `attrs` is null for users
    /// in the kernel.
    unsafe extern "C" fn create_cq(
        cq: *mut bindings::ib_cq,
        attr: *const bindings::ib_cq_init_attr,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let udata =
                unsafe { UserData::from_raw(bindings::metaroce_uverbs_driver_udata(attrs)) };
            // SAFETY: ib_core sets the device before.
            let dev = unsafe { Device::<T>::from_raw((*cq).device) };
            // SAFETY: By the requirements of this function.
            let attr = unsafe { &*attr };
            const TIMESTAMPS: u32 =
                bindings::ib_uverbs_ex_create_cq_flags_IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
            if attr.flags & !TIMESTAMPS != 0 {
                return Err(EOPNOTSUPP);
            }
            let init = CqInit {
                entries: attr.cqe,
                comp_vector: attr.comp_vector,
                timestamps: attr.flags & TIMESTAMPS != 0,
            };

            // SAFETY: The events are severed below if this fails, otherwise before the queue is
            // freed, in `destroy_cq`.
            let events = unsafe { Cq::<T>::events(cq) }?;
            let (data, entries) = T::create_cq(dev, &init, events.clone(), udata)
                .and_then(|(data, entries)| Ok((data, c_int::try_from(entries)?)))
                .inspect_err(|_| events.sever())?;
            // SAFETY: By the requirements of this function.
            unsafe {
                (*cq).cqe = entries;
                Cq::<T>::init(cq, Reporting::new(data, events));
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a queue that nobody uses any more.
    unsafe extern "C" fn destroy_cq(
        cq: *mut bindings::ib_cq,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, this) =
                unsafe { (Device::<T>::from_raw((*cq).device), Cq::<T>::from_raw(cq)) };
            T::destroy_cq(dev, this);
            this.reporting().sever();
            // SAFETY: By the requirements of this function.
            unsafe { Cq::<T>::deinit(cq) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T`.
    unsafe extern "C" fn req_notify_cq(
        cq: *mut bindings::ib_cq,
        flags: bindings::ib_cq_notify_flags,
    ) -> c_int {
        const SOLICITED: u32 = bindings::ib_cq_notify_flags_IB_CQ_SOLICITED;
        const REPORT_MISSED: u32 = bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;

        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, cq) = unsafe { (Device::<T>::from_raw((*cq).device), Cq::<T>::from_raw(cq)) };
            let solicited_only =
                flags & bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK == SOLICITED;
            let missed = T::req_notify_cq(dev, cq, solicited_only)?;
            Ok(c_int::from(missed && flags & REPORT_MISSED != 0))
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a new queue pair of `size_ib_qp` bytes.
    unsafe extern "C" fn create_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let udata = unsafe { UserData::from_raw(udata) };
            // SAFETY: ib_core sets device and domain before; types that have no domain of their
            // own (XRC targets) are for users in the kernel.
            let (dev, pd) = unsafe {
                let pd = (*qp).pd;
                if pd.is_null() {
                    return Err(EOPNOTSUPP);
                }
                (Device::<T>::from_raw((*qp).device), Pd::<T>::from_raw(pd))
            };
            // SAFETY: By the requirements of this function.
            let attr = unsafe { &mut *attr };
            // SAFETY: A queue that is not null is a live one of the same device.
            let cq = |cq: *mut bindings::ib_cq| unsafe {
                (!cq.is_null()).then(|| Cq::<T>::from_raw(cq))
            };
            let init = QpInit {
                qp_type: attr.qp_type.into(),
                cap: (&attr.cap).into(),
                send_cq: cq(attr.send_cq),
                recv_cq: cq(attr.recv_cq),
                // SAFETY: A queue that is not null is a live one of the same device.
                srq: unsafe { (!attr.srq.is_null()).then(|| Srq::<T>::from_raw(attr.srq)) },
                signal_all: attr.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
                create_flags: attr.create_flags,
            };

            // SAFETY: The events are severed below if this fails, otherwise before the pair is
            // freed, in `destroy_qp`.
            let events = unsafe { Qp::<T>::events(qp) }?;
            let (data, created) = T::create_qp(dev, pd, &init, events.clone(), udata)
                .inspect_err(|_| events.sever())?;
            created.cap.fill(&mut attr.cap);
            // SAFETY: By the requirements of this function.
            unsafe {
                (*qp).qp_num = created.qp_num;
                Qp::<T>::init(qp, Reporting::new(data, events));
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T`.
    unsafe extern "C" fn modify_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        mask: c_int,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, qp) = unsafe { (Device::<T>::from_raw((*qp).device), Qp::<T>::from_raw(qp)) };
            let mask = AttrMask::from_raw(mask);
            if !mask.is_standard() {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the requirements of this function; ib_core has resolved the GID.
            let attr = unsafe { QpAttr::from_raw(&*attr, mask) }?;
            T::modify_qp(dev, qp, &attr, mask).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T`.
    unsafe extern "C" fn query_qp(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_attr,
        _mask: c_int,
        init: *mut bindings::ib_qp_init_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, this) =
                unsafe { (Device::<T>::from_raw((*qp).device), Qp::<T>::from_raw(qp)) };
            let queried = T::query_qp(dev, this)?;
            // SAFETY: By the requirements of this function; these members of the queue pair do not
            // change after its creation.
            let (attr, init, qp) = unsafe { (&mut *attr, &mut *init, &*qp) };
            queried.attr.fill(attr);
            queried.attr.cap.fill(&mut init.cap);
            init.qp_context = qp.qp_context;
            init.send_cq = qp.send_cq;
            init.recv_cq = qp.recv_cq;
            init.srq = qp.srq;
            init.qp_type = qp.qp_type;
            init.sq_sig_type = if queried.signal_all {
                bindings::ib_sig_type_IB_SIGNAL_ALL_WR
            } else {
                bindings::ib_sig_type_IB_SIGNAL_REQ_WR
            };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a queue pair that nobody uses any more.
    unsafe extern "C" fn destroy_qp(
        qp: *mut bindings::ib_qp,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, this) =
                unsafe { (Device::<T>::from_raw((*qp).device), Qp::<T>::from_raw(qp)) };
            // ib_mad destroys its queue pair before its completion queue, and may be busy with a
            // completion, for which it posts a receive in the end: resolving an address takes
            // seconds. It begins with no other any more.
            //
            // SAFETY: By the requirements of this function; ib_mad is not in that work here.
            unsafe {
                if (*qp).qp_type == bindings::ib_qp_type_IB_QPT_GSI {
                    bindings::metaroce_ib_flush_cq((*qp).send_cq);
                    bindings::metaroce_ib_flush_cq((*qp).recv_cq);
                }
            }
            T::destroy_qp(dev, this);
            this.reporting().sever();
            // SAFETY: By the requirements of this function.
            unsafe { Qp::<T>::deinit(qp) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T`.
    unsafe extern "C" fn post_send(
        qp: *mut bindings::ib_qp,
        wr: *const bindings::ib_send_wr,
        bad_wr: *mut *const bindings::ib_send_wr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, this) =
                unsafe { (Device::<T>::from_raw((*qp).device), Qp::<T>::from_raw(qp)) };
            // User space puts its work into the shared queue, and posts nothing to have it seen.
            if wr.is_null() {
                return T::doorbell(dev, this).map(|()| 0);
            }
            // SAFETY: By the requirements of this function; the member does not change.
            let is_datagram = matches!(unsafe { (*qp).qp_type }.into(), QpType::Ud | QpType::Gsi);
            let post = |wr: &bindings::ib_send_wr| {
                // SAFETY: The request belongs to a user in the kernel, who makes what its opcode
                // and the queue pair call for, or the driver refuses it without a look.
                let request = unsafe { SendRequest::from_raw(wr, is_datagram) };
                T::post_send(dev, this, &request)
            };
            // SAFETY: By the requirements of this function.
            let result = unsafe { post_list(wr, bad_wr, |wr| wr.next, post) };
            // What came before a bad request is posted.
            T::posted(dev, this);
            result
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T`.
    unsafe extern "C" fn post_recv(
        qp: *mut bindings::ib_qp,
        wr: *const bindings::ib_recv_wr,
        bad_wr: *mut *const bindings::ib_recv_wr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, this) =
                unsafe { (Device::<T>::from_raw((*qp).device), Qp::<T>::from_raw(qp)) };
            let post = |wr: &bindings::ib_recv_wr| {
                // SAFETY: The request belongs to a user in the kernel.
                let request = unsafe { RecvRequest::from_raw(wr) };
                T::post_recv(dev, this, &request)
            };
            // SAFETY: By the requirements of this function.
            let result = unsafe { post_list(wr, bad_wr, |wr| wr.next, post) };
            T::posted(dev, this);
            result
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue of `T` and places for `n` completions.
    unsafe extern "C" fn poll_cq(
        cq: *mut bindings::ib_cq,
        n: c_int,
        places: *mut bindings::ib_wc,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let (dev, cq) = unsafe { (Device::<T>::from_raw((*cq).device), Cq::<T>::from_raw(cq)) };
            // SAFETY: By the requirements of this function.
            let mut places = unsafe { Completions::from_raw(places, usize::try_from(n)?) };
            T::poll_cq(dev, cq, &mut places)?;
            Ok(c_int::try_from(places.filled())?)
        })
    }

    /// Makes ib_core's region of the driver's part; ib_core takes the memory, and fills in the
    /// rest.
    fn new_mr(
        place: KBox<core::mem::MaybeUninit<Mr<T>>>,
        data: T::Mr,
        keys: &MrKeys,
    ) -> *mut bindings::ib_mr {
        let raw = bindings::ib_mr {
            lkey: keys.lkey,
            rkey: keys.rkey,
            ..pin_init::zeroed()
        };
        let mr = KBox::write(place, Object::new(raw, data));
        KBox::into_raw(mr).cast::<bindings::ib_mr>()
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live domain of `T`.
    unsafe extern "C" fn get_dma_mr(
        pd: *mut bindings::ib_pd,
        access: c_int,
    ) -> *mut bindings::ib_mr {
        let register = || {
            // SAFETY: By the requirements of this function.
            let (dev, pd) = unsafe { (Device::<T>::from_raw((*pd).device), Pd::<T>::from_raw(pd)) };
            let place = KBox::<Mr<T>>::new_uninit(GFP_KERNEL)?;
            // CAST: A bit mask that C happens to pass as a signed number.
            let (data, keys) = T::get_dma_mr(dev, pd, access as u32)?;
            Ok(Self::new_mr(place, data, &keys))
        };
        register().unwrap_or_else(|e: Error| e.to_ptr())
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live domain of `T`.
    unsafe extern "C" fn reg_user_mr(
        pd: *mut bindings::ib_pd,
        start: u64,
        length: u64,
        virt_addr: u64,
        access_flags: c_int,
        dmah: *mut bindings::ib_dmah,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        let register = || {
            if !dmah.is_null() {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the requirements of this function.
            let udata = unsafe { Self::user(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, pd) = unsafe { (Device::<T>::from_raw((*pd).device), Pd::<T>::from_raw(pd)) };
            let init = MrInit {
                start,
                length,
                virt_addr,
                // CAST: A bit mask that C happens to pass as a signed number.
                access_flags: access_flags as u32,
            };
            let place = KBox::<Mr<T>>::new_uninit(GFP_KERNEL)?;
            let (data, keys) = T::reg_user_mr(dev, pd, &init, udata)?;
            Ok(Self::new_mr(place, data, &keys))
        };
        register().unwrap_or_else(|e: Error| e.to_ptr())
    }

    /// # Safety
    ///
    /// To be called by ib_core with a region that nobody uses any more.
    unsafe extern "C" fn dereg_mr(
        mr: *mut bindings::ib_mr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: ib_core has set the device.
            let dev = unsafe { Device::<T>::from_raw((*mr).device) };
            // SAFETY: The region is one that `new_mr` made, there is no other way.
            let mr = unsafe { KBox::from_raw(mr.cast::<Mr<T>>()) };
            if let Err(e) = T::dereg_mr(dev, &mr) {
                // It lives on.
                let _ = KBox::into_raw(mr);
                return Err(e);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    unsafe extern "C" fn alloc_hw_port_stats(
        _dev: *mut bindings::ib_device,
        _port: u32,
    ) -> *mut bindings::rdma_hw_stats {
        CounterDesc::alloc(T::COUNTERS, T::is_of_port)
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    unsafe extern "C" fn alloc_hw_device_stats(
        _dev: *mut bindings::ib_device,
    ) -> *mut bindings::rdma_hw_stats {
        CounterDesc::alloc(T::DEVICE_COUNTERS, |_| true)
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T` and counters of `alloc_hw_port_stats`, or
    /// for port 0 of `alloc_hw_device_stats`, whose lock it holds.
    unsafe extern "C" fn get_hw_stats(
        dev: *mut bindings::ib_device,
        stats: *mut bindings::rdma_hw_stats,
        port: u32,
        _index: c_int,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let dev = unsafe { Device::<T>::from_raw(dev) };
            // SAFETY: By the requirements of this function.
            let values = unsafe { stats::values(stats) }?;
            if port == 0 {
                T::device_counters(dev, values);
            } else {
                Self::check_port(port)?;
                T::counters(dev, values);
            }
            Ok(c_int::try_from(values.len())?)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live region of `T` and a message that it is building.
    unsafe extern "C" fn fill_res_mr_entry(
        msg: *mut bindings::sk_buff,
        mr: *mut bindings::ib_mr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let mr = unsafe { Mr::<T>::from_raw(mr) };
            // SAFETY: By the requirements of this function.
            unsafe { restrack::Attributes::nest(msg, |attributes| T::fill_mr(mr, attributes)) }
                .map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live queue pair of `T` and a message that it is building.
    unsafe extern "C" fn fill_res_qp_entry(
        msg: *mut bindings::sk_buff,
        qp: *mut bindings::ib_qp,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function.
            let qp = unsafe { Qp::<T>::from_raw(qp) };
            // SAFETY: By the requirements of this function.
            unsafe { restrack::Attributes::nest(msg, |attributes| T::fill_qp(qp, attributes)) }
                .map(|()| 0)
        })
    }
}
