// SPDX-License-Identifier: GPL-2.0

//! Devices.

use super::{
    ah,
    caps,
    counters,
    cq,
    debugfs::Files,
    dv,
    mr,
    mw,
    pd,
    planes::Planes,
    port,
    qp,
    quota::Quotas,
    restrack,
    srq,
    sysfs,
    ucontext, //
};
use crate::{
    datapath::endpoint::Endpoint,
    net::netdev::NetDevice,
    offload::Site,
    params,
    rdma::{
        self,
        attr::{
            DeviceAttr,
            PortAttr, //
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
        ops::{
            CqInit,
            MemoryRange,
            MrChange,
            MrInit,
            MrKeys,
            MwType,
            PortCounters,
            QpCreated,
            QpInit,
            QpQueried,
            SrqAttr,
            SrqChange, //
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
        wc::Completions,
        Operations, //
    },
    MetaRoce,
};
use core::{
    ops::Deref,
    time::Duration, //
};
use kernel::{
    alloc::Flags,
    debugfs::Dir,
    prelude::*,
    sync::Arc, //
};

/// The data path of a device, which ends its traffic when it is dropped.
///
/// Others may hold on to the endpoint itself for a while, but it does nothing any more.
pub(super) struct Traffic(Arc<Endpoint>);

impl Traffic {
    /// Opens the data path over `ndev`.
    pub(super) fn new(ndev: &NetDevice, port: u16) -> Result<Self> {
        let law = params::default_law()?;
        Ok(Self(Endpoint::new(ndev, port, params::transport(), law)?))
    }
}

impl Deref for Traffic {
    type Target = Arc<Endpoint>;

    fn deref(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// What a device has to do with NICs, which have nothing of it any more when this is dropped.
pub(super) struct Leaving(Arc<Site>);

impl Deref for Leaving {
    type Target = Arc<Site>;

    fn deref(&self) -> &Arc<Site> {
        &self.0
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A MetaRoCE device.
///
/// Dropped in this order: nobody looks any more, NICs let go, the traffic ends, then the network devices may go.
#[pin_data]
pub(crate) struct Device {
    #[pin]
    files: Files,
    pub(super) offload: Leaving,
    pub(super) endpoint: Traffic,
    #[pin]
    pub(super) planes: Planes,
    pub(super) quotas: Arc<Quotas>,
    pub(super) pds: Arc<pd::Numbers>,
    pub(super) qp_counters: Arc<counters::Numbers>,
}

impl Device {
    /// Makes the data of a device.
    ///
    /// `dir` is its directory in debugfs.
    pub(super) fn new(endpoint: Traffic, dir: &Dir) -> impl PinInit<Self, Error> + '_ {
        let shown = endpoint.clone();
        try_pin_init!(Self {
            offload: Leaving(Site::new(shown.clone())?),
            files <- Files::new(dir, shown, offload.0.clone()),
            endpoint,
            planes <- Planes::new(),
            quotas: Arc::new(Quotas::default(), GFP_KERNEL)?,
            pds: Arc::pin_init(pd::Numbers::new(), GFP_KERNEL)?,
            qp_counters: Arc::pin_init(counters::Numbers::new(), GFP_KERNEL)?,
        })
    }
}

#[vtable]
impl Operations for Device {
    type Module = MetaRoce;

    type UserContext = ucontext::UserContext;
    type Pd = pd::Pd;
    type Ah = ah::Ah;
    type Cq = cq::Cq;
    type Qp = qp::Qp;
    type Srq = srq::Srq;
    type Mr = mr::Mr;
    type Mw = mw::Mw;
    type Counter = counters::Counter;

    const DRIVER_ID: u32 = bindings::METAROCE_DRIVER_ID;
    const UVERBS_ABI_VERSION: u32 = bindings::METAROCE_ABI_VERSION;
    // A device of several planes is up as long as one of them is.
    const REPORTS_PORT_EVENTS: bool = true;
    const COUNTERS: &'static [CounterDesc] = &counters::DESCS;
    const DEVICE_COUNTERS: &'static [CounterDesc] = &counters::PATH_DESCS;
    const ATTRIBUTES: &'static AttributeGroup<Self> = &sysfs::GROUP;
    const METHODS: &'static Definitions<Self> = &dv::DEFINITIONS;

    fn query_device(dev: &rdma::Device<Self>) -> Result<DeviceAttr> {
        Ok(caps::query(dev))
    }

    fn query_port(dev: &rdma::Device<Self>) -> Result<PortAttr> {
        port::query(dev)
    }

    fn port_counters(dev: &rdma::Device<Self>) -> PortCounters {
        counters::of_port(dev)
    }

    fn fw_str(_dev: &rdma::Device<Self>) -> &'static CStr {
        c"0.1"
    }

    fn alloc_ucontext(
        _dev: &rdma::Device<Self>,
        udata: UserData<'_, Self>,
    ) -> Result<Self::UserContext> {
        ucontext::alloc(udata)
    }

    fn alloc_pd(dev: &rdma::Device<Self>, udata: Option<UserData<'_, Self>>) -> Result<Self::Pd> {
        pd::alloc(dev, udata)
    }

    fn create_ah(
        dev: &rdma::Device<Self>,
        pd: &rdma::Pd<Self>,
        address: &AddressVector,
        flags: Flags,
        udata: Option<UserData<'_, Self>>,
    ) -> Result<Self::Ah> {
        ah::create(dev, pd, address, flags, udata)
    }

    fn modify_ah(ah: &rdma::Ah<Self>, address: &AddressVector) -> Result {
        ah.modify(address)
    }

    fn query_ah(ah: &rdma::Ah<Self>) -> AddressVector {
        ah.query()
    }

    fn add_gid(dev: &rdma::Device<Self>, entry: GidEntry) -> Result {
        dev.endpoint.add_gid(entry)
    }

    fn remove_gid(dev: &rdma::Device<Self>, index: u16) {
        dev.endpoint.remove_gid(index);
    }

    fn create_cq(
        dev: &rdma::Device<Self>,
        init: &CqInit,
        events: CqEvents,
        udata: Option<UserData<'_, Self>>,
    ) -> Result<(Self::Cq, u32)> {
        cq::create(dev, init, events, udata)
    }

    fn resize_cq(
        _dev: &rdma::Device<Self>,
        cq: &rdma::Cq<Self>,
        entries: u32,
        udata: UserData<'_, Self>,
    ) -> Result<u32> {
        cq.resize(entries, udata)
    }

    fn moderate_cq(_dev: &rdma::Device<Self>, cq: &rdma::Cq<Self>, count: u16, period: Duration) {
        cq.moderate(count, period);
    }

    fn destroy_cq(_dev: &rdma::Device<Self>, cq: &rdma::Cq<Self>) {
        cq.destroy();
    }

    fn req_notify_cq(
        _dev: &rdma::Device<Self>,
        cq: &rdma::Cq<Self>,
        solicited_only: bool,
    ) -> Result<bool> {
        Ok(cq.arm(solicited_only))
    }

    fn poll_cq(
        dev: &rdma::Device<Self>,
        cq: &rdma::Cq<Self>,
        places: &mut Completions<'_>,
    ) -> Result {
        cq.poll(dev, places)
    }

    fn create_qp(
        dev: &rdma::Device<Self>,
        pd: &rdma::Pd<Self>,
        init: &QpInit<'_, Self>,
        events: QpEvents,
        udata: Option<UserData<'_, Self>>,
    ) -> Result<(Self::Qp, QpCreated)> {
        qp::create(dev, pd, init, events, udata)
    }

    fn modify_qp(
        dev: &rdma::Device<Self>,
        qp: &rdma::Qp<Self>,
        attr: &QpAttr,
        mask: AttrMask,
    ) -> Result {
        qp.modify(dev, attr, mask)
    }

    fn query_qp(_dev: &rdma::Device<Self>, qp: &rdma::Qp<Self>) -> Result<QpQueried> {
        Ok(qp.query())
    }

    fn destroy_qp(_dev: &rdma::Device<Self>, qp: &rdma::Qp<Self>) {
        qp.destroy();
    }

    fn attach_mcast(_dev: &rdma::Device<Self>, qp: &rdma::Qp<Self>, group: Gid) -> Result {
        qp.attach(group)
    }

    fn detach_mcast(_dev: &rdma::Device<Self>, qp: &rdma::Qp<Self>, group: Gid) -> Result {
        qp.detach(group)
    }

    fn doorbell(_dev: &rdma::Device<Self>, qp: &rdma::Qp<Self>) -> Result {
        qp.doorbell();
        Ok(())
    }

    fn post_send(
        _dev: &rdma::Device<Self>,
        qp: &rdma::Qp<Self>,
        request: &SendRequest<'_, Self>,
    ) -> Result {
        qp.post_send(request)
    }

    fn post_recv(
        _dev: &rdma::Device<Self>,
        qp: &rdma::Qp<Self>,
        request: &RecvRequest<'_>,
    ) -> Result {
        qp.post_recv(request)
    }

    fn posted(_dev: &rdma::Device<Self>, qp: &rdma::Qp<Self>) {
        qp.posted();
    }

    fn get_dma_mr(
        dev: &rdma::Device<Self>,
        pd: &rdma::Pd<Self>,
        access: u32,
    ) -> Result<(Self::Mr, MrKeys)> {
        mr::all_memory(dev, pd, access)
    }

    fn create_srq(
        dev: &rdma::Device<Self>,
        pd: &rdma::Pd<Self>,
        attr: &SrqAttr,
        events: SrqEvents,
        udata: Option<UserData<'_, Self>>,
    ) -> Result<(Self::Srq, SrqAttr)> {
        srq::create(dev, pd, attr, events, udata)
    }

    fn modify_srq(
        _dev: &rdma::Device<Self>,
        srq: &rdma::Srq<Self>,
        change: &SrqChange,
        udata: Option<UserData<'_, Self>>,
    ) -> Result {
        srq.modify(change, udata)
    }

    fn query_srq(_dev: &rdma::Device<Self>, srq: &rdma::Srq<Self>) -> Result<SrqAttr> {
        Ok(srq.query())
    }

    fn post_srq_recv(
        _dev: &rdma::Device<Self>,
        srq: &rdma::Srq<Self>,
        request: &RecvRequest<'_>,
    ) -> Result {
        srq.post(request)
    }

    fn posted_srq(_dev: &rdma::Device<Self>, srq: &rdma::Srq<Self>) {
        srq.posted();
    }

    fn reg_user_mr(
        dev: &rdma::Device<Self>,
        pd: &rdma::Pd<Self>,
        init: &MrInit,
        udata: UserData<'_, Self>,
    ) -> Result<(Self::Mr, MrKeys)> {
        mr::register(dev, pd, init, udata)
    }

    fn alloc_mr(
        dev: &rdma::Device<Self>,
        pd: &rdma::Pd<Self>,
        max_pages: u32,
    ) -> Result<(Self::Mr, MrKeys)> {
        mr::alloc(dev, pd, max_pages)
    }

    fn reg_dma_buf_mr(
        dev: &rdma::Device<Self>,
        pd: &rdma::Pd<Self>,
        init: &MrInit,
        fd: i32,
    ) -> Result<(Self::Mr, MrKeys)> {
        mr::register_dma_buf(dev, pd, init, fd)
    }

    fn map_begin(mr: &rdma::Mr<Self>, page_size: u32) -> Result {
        mr.fast()?.map_begin(page_size)
    }

    fn map_page(mr: &rdma::Mr<Self>, address: u64) -> Result {
        mr.fast()?.map_page(address)
    }

    fn map_end(mr: &rdma::Mr<Self>, length: u64) -> Result {
        mr.fast()?.map_end(length);
        Ok(())
    }

    fn rereg_mr(
        dev: &rdma::Device<Self>,
        mr: &rdma::Mr<Self>,
        pd: &rdma::Pd<Self>,
        change: &MrChange,
    ) -> Result {
        mr.reregister(dev, pd, change)
    }

    fn prefetch_mr(
        dev: &rdma::Device<Self>,
        pd: &rdma::Pd<Self>,
        range: &MemoryRange,
        write: bool,
    ) -> Result {
        mr::prefetch(dev, pd, range, write)
    }

    fn dereg_mr(dev: &rdma::Device<Self>, mr: &rdma::Mr<Self>) -> Result {
        mr.deregister(dev)
    }

    fn alloc_mw(
        dev: &rdma::Device<Self>,
        pd: &rdma::Pd<Self>,
        mw_type: MwType,
        udata: UserData<'_, Self>,
    ) -> Result<(Self::Mw, u32)> {
        mw::alloc(dev, pd, mw_type, udata)
    }

    fn dealloc_mw(dev: &rdma::Device<Self>, mw: &rdma::Mw<Self>) {
        mw.dealloc(dev);
    }

    fn is_of_port(index: usize) -> bool {
        counters::is_of_port(index)
    }

    fn is_of_qp(index: usize) -> bool {
        counters::is_of_qp(index)
    }

    fn counters(dev: &rdma::Device<Self>, values: &mut [u64]) {
        counters::fill(dev, values);
    }

    fn new_counter(dev: &rdma::Device<Self>) -> Result<(Self::Counter, u32)> {
        counters::Counter::new(dev)
    }

    fn bind_counter(qp: &rdma::Qp<Self>, counter: Option<&Self::Counter>) {
        qp.bind_counter(counter);
    }

    fn counter_values(counter: &Self::Counter, values: &mut [u64]) {
        counter.fill(values);
    }

    fn device_counters(dev: &rdma::Device<Self>, values: &mut [u64]) {
        counters::fill_paths(dev, values);
    }

    fn fill_mr(mr: &rdma::Mr<Self>, attributes: &mut Attributes<'_>) -> Result {
        restrack::fill_mr(mr, attributes)
    }

    fn fill_qp(qp: &rdma::Qp<Self>, attributes: &mut Attributes<'_>) -> Result {
        restrack::fill_qp(qp, attributes)
    }
}
