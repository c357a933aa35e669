// SPDX-License-Identifier: GPL-2.0

//! The operations of a device.
//!
//! [`Operations`] is what a driver implements, here; `table` is ib_core's table of it. Each other
//! module has one kind of object: what its operations are given and return, and the functions that
//! ib_core calls, which `call` turns into typed ones.

mod ah;
mod call;
mod counter;
mod cq;
mod device;
mod fast_reg;
mod gid;
mod mad;
mod mcast;
mod mr;
mod mw;
mod pd;
mod post;
mod qp;
mod restrack;
mod srq;
mod stats;
mod table;
mod ucontext;

use core::time::Duration;

use kernel::{
    alloc::Flags,
    prelude::*,
    ModuleMetadata, //
};

use super::{
    attr::{
        DeviceAttr,
        PortAttr, //
    },
    device::Device,
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
    object::{
        Ah,
        Cq,
        Mr,
        Mw,
        Pd,
        Qp,
        Srq, //
    },
    post::{
        RecvRequest,
        SendRequest, //
    },
    qp::{
        AddressVector,
        AttrMask,
        QpAttr, //
    },
    restrack::Attributes,
    stats::CounterDesc,
    sysfs::AttributeGroup,
    udata::UserData,
    wc::Completions, //
};

pub(super) use self::table::VTable;

pub use self::{
    cq::CqInit,
    mad::PortCounters,
    mr::{
        MemoryRange,
        MrChange,
        MrInit,
        MrKeys, //
    },
    mw::MwType,
    qp::{
        QpCreated,
        QpInit,
        QpQueried, //
    },
    srq::{
        SrqAttr,
        SrqChange, //
    },
};

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

    /// Reads the standard counters of the port.
    fn port_counters(dev: &Device<Self>) -> PortCounters;

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

    /// Registers a range of the dma-buf that the current process has as file `fd`.
    fn reg_dma_buf_mr(
        dev: &Device<Self>,
        pd: &Pd<Self>,
        init: &MrInit,
        fd: i32,
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
    fn fill_mr(_mr: &Mr<Self>, _attributes: &mut Attributes<'_>) -> Result {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Adds the driver's attributes of a queue pair.
    fn fill_qp(_qp: &Qp<Self>, _attributes: &mut Attributes<'_>) -> Result {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}
