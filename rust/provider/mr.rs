// SPDX-License-Identifier: GPL-2.0

//! Memory regions.

use super::{
    quota::{
        self,
        Permit, //
    },
    Device, //
};
use crate::{
    datapath::{
        self,
        fast::FastMr,
        limits, //
    },
    rdma::{
        self,
        ops::{
            MemoryRange,
            MrChange,
            MrInit,
            MrKeys, //
        },
        udata::UserData,
        umem::Umem, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// Access that a region can allow.
const ACCESS: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
    | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
    | bindings::ib_access_flags_IB_ACCESS_MW_BIND
    | bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL;

/// The memory is not to be pinned.
const ON_DEMAND: u32 = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND;

/// Wishes that a device may ignore.
const OPTIONAL: u32 = bindings::ib_access_flags_IB_ACCESS_OPTIONAL;

/// A memory region.
pub(crate) struct Mr {
    kind: Kind,
    _permit: Permit,
}

enum Kind {
    /// Registered by a verb. Another one after each change.
    Registered(Pin<KBox<Mutex<Current>>>),
    /// Registered by work requests.
    Fast(Arc<FastMr>),
}

struct Current {
    mr: Arc<datapath::mr::Mr>,
    /// Address in the process, or offset in the dma-buf; 0 for a user in the kernel.
    start: u64,
}

impl Mr {
    fn new(mr: Arc<datapath::mr::Mr>, start: u64, permit: Permit) -> Result<Self> {
        Ok(Self {
            kind: Kind::Registered(KBox::pin_init(
                new_mutex!(Current { mr, start }),
                GFP_KERNEL,
            )?),
            _permit: permit,
        })
    }
}

/// Checks a range and access rights that a process asks for, and returns the rights that matter.
fn check(length: u64, virt_addr: u64, access_flags: u32) -> Result<u32> {
    if access_flags & !(ACCESS | OPTIONAL) != 0 {
        return Err(EOPNOTSUPP);
    }
    if length > limits::MAX_MR_SIZE || virt_addr.checked_add(length).is_none() {
        return Err(EINVAL);
    }
    Ok(access_flags & ACCESS)
}

/// Whether memory is to be written to with these rights.
fn is_writable(access: u32) -> bool {
    const WRITES: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
        | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
        | bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC
        | bindings::ib_access_flags_IB_ACCESS_MW_BIND;

    access & WRITES != 0
}

/// Makes a region of a range of the process's memory, which is pinned unless it is to be paged on
/// demand.
pub(super) fn register(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    init: &MrInit,
    mut udata: UserData<'_, Device>,
) -> Result<(Mr, MrKeys)> {
    udata.no_request()?;
    let on_demand = init.access_flags & ON_DEMAND != 0;
    if on_demand && init.start == 0 && init.length == u64::MAX {
        // All of the address space.
        return Err(EOPNOTSUPP);
    }
    let access = check(init.length, init.virt_addr, init.access_flags & !ON_DEMAND)?;
    let permit = Permit::new(&dev.quotas, quota::Kind::Mr)?;
    let umem = if on_demand {
        Umem::on_demand(dev, init.start, init.length, access | ON_DEMAND)?
    } else {
        Umem::pin(dev, init.start, init.length, access)?
    };
    // Before the region exists, for nothing may fail after that.
    udata.no_response()?;
    announce(dev, pd, init, access, umem, permit)
}

/// Makes a region of a range of a dma-buf.
///
/// Errors: those of [`check`] and of [`Umem::of_dma_buf`]; what a device says that has queue pairs.
pub(super) fn register_dma_buf(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    init: &MrInit,
    fd: i32,
) -> Result<(Mr, MrKeys)> {
    let access = check(init.length, init.virt_addr, init.access_flags)?;
    let permit = Permit::new(&dev.quotas, quota::Kind::Mr)?;
    let umem = Umem::of_dma_buf(fd, init.start, init.length)?;
    announce(dev, pd, init, access, umem, permit)
}

/// Gives memory of a process a key, by which devices know it as well.
fn announce(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    init: &MrInit,
    access: u32,
    umem: Umem,
    permit: Permit,
) -> Result<(Mr, MrKeys)> {
    let umem = Arc::new(umem, GFP_KERNEL)?;
    let mr = dev
        .endpoint
        .reg_mr(pd.number(), umem, init.virt_addr, init.length, access)?;
    let keys = MrKeys {
        lkey: mr.key(),
        rkey: mr.key(),
    };
    dev.offload.mr_added(&mr).inspect_err(|_| undo(dev, &mr))?;
    let mr = finish(dev, mr, init.start, permit)?;
    Ok((mr, keys))
}

/// Has memory of regions fetched that is not pinned, for it will be needed.
///
/// Errors: `EINVAL` if a region is not of this domain or not such memory, `EPERM` if it may not be
/// written and should be fetched for that, what fetching returns.
pub(super) fn prefetch(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    element: &MemoryRange,
    write: bool,
) -> Result {
    // CAST: `usize` is 64 bits wide here.
    let len = element.len as usize;
    let (umem, at) =
        dev.endpoint
            .memory_of(pd.number(), element.lkey, element.addr, element.len, write)?;
    umem.prefetch(at, len, write)
}

/// Makes a region of all memory that the kernel has mapped, for a user there: addresses are the
/// kernel's own, which is what ib_core's DMA mapping gives for a device without DMA.
pub(super) fn all_memory(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    access: u32,
) -> Result<(Mr, MrKeys)> {
    if access & !(ACCESS | OPTIONAL) != 0 {
        return Err(EOPNOTSUPP);
    }
    let permit = Permit::new(&dev.quotas, quota::Kind::Mr)?;
    let umem = Arc::new(Umem::kernel(), GFP_KERNEL)?;
    let mr = dev
        .endpoint
        .reg_mr(pd.number(), umem, 0, u64::MAX, access & ACCESS)?;
    let keys = MrKeys {
        lkey: mr.key(),
        rkey: mr.key(),
    };
    let mr = finish(dev, mr, 0, permit)?;
    Ok((mr, keys))
}

/// Makes a region for fast registration, for a user in the kernel.
pub(super) fn alloc(
    dev: &rdma::Device<Device>,
    pd: &rdma::Pd<Device>,
    max_pages: u32,
) -> Result<(Mr, MrKeys)> {
    if max_pages == 0 || max_pages > limits::MAX_FAST_PAGES {
        return Err(EINVAL);
    }
    let permit = Permit::new(&dev.quotas, quota::Kind::Mr)?;
    // CAST: `usize` is 64 bits wide here.
    let regions = dev.endpoint.fast_mrs();
    let mr = regions.alloc(pd.number(), max_pages as usize)?;
    let keys = MrKeys {
        lkey: mr.key(),
        rkey: mr.key(),
    };
    let mr = Mr {
        kind: Kind::Fast(mr),
        _permit: permit,
    };
    Ok((mr, keys))
}

/// Makes the object of a new region, which goes if that fails.
fn finish(
    dev: &rdma::Device<Device>,
    mr: Arc<datapath::mr::Mr>,
    start: u64,
    permit: Permit,
) -> Result<Mr> {
    Mr::new(mr.clone(), start, permit).inspect_err(|_| undo(dev, &mr))
}

/// Takes back a region that nobody has been told of.
fn undo(dev: &rdma::Device<Device>, mr: &datapath::mr::Mr) {
    // No window can be bound to it.
    let _ = dev.endpoint.dereg_mr(mr);
    // A device that a queue pair came to meanwhile has it, whatever it said.
    dev.offload.mr_removed(mr.key());
}

impl Mr {
    /// Changes memory, domain or rights of a region that a process has. Its keys stay.
    ///
    /// Errors: those of [`register`]; `EOPNOTSUPP` for memory that is not pinned; `EINVAL` while
    /// memory windows are bound to the region. It stays as it was then.
    pub(super) fn reregister(
        &self,
        dev: &rdma::Device<Device>,
        pd: &rdma::Pd<Device>,
        change: &MrChange,
    ) -> Result {
        let Kind::Registered(mr) = &self.kind else {
            return Err(EOPNOTSUPP);
        };
        let mut current = mr.lock();
        let (mut va, mut len, mut access, umem) = current.mr.parts();
        if umem.is_on_demand() {
            return Err(EOPNOTSUPP);
        }
        let mut start = current.start;
        let was_writable = is_writable(access);
        if let Some((new_start, length, virt_addr)) = change.range {
            (start, len, va) = (new_start, length, virt_addr);
        }
        if let Some(flags) = change.access_flags {
            access = flags;
        }
        access = check(len, va, access)?;
        // Memory that was pinned to be read only cannot be written to; a dma-buf can, in any case.
        let pin_anew = is_writable(access) && !was_writable && !umem.is_dma_buf();
        let umem = if change.range.is_some() || pin_anew {
            Arc::new(Umem::pin(dev, start, len, access)?, GFP_KERNEL)?
        } else {
            umem.clone()
        };
        let mr = dev
            .endpoint
            .rereg_mr(&current.mr, pd.number(), umem, (va, len), access)?;
        // The old memory stays pinned until devices know the new one.
        dev.offload.mr_removed(mr.key());
        let known = dev.offload.mr_added(&mr);
        if known.is_err() {
            if let Ok(old) = Self::restore(dev, &current.mr, &mr) {
                current.mr = old;
                return known;
            }
        }
        *current = Current { mr, start };
        known
    }

    /// Gives the key of a region back to the one that had it. A device that refuses that as well
    /// answers what is done with the key as it does for one that it does not know.
    ///
    /// Errors: `EINVAL` if a memory window was bound to the new one meanwhile, `ENOMEM`. That stays
    /// then.
    fn restore(
        dev: &rdma::Device<Device>,
        old: &datapath::mr::Mr,
        new: &datapath::mr::Mr,
    ) -> Result<Arc<datapath::mr::Mr>> {
        let (va, len, access, umem) = old.parts();
        let range = (va, len);
        let mr = dev
            .endpoint
            .rereg_mr(new, old.pd(), umem.clone(), range, access)?;
        dev.offload.mr_removed(mr.key());
        let _ = dev.offload.mr_added(&mr);
        Ok(mr)
    }

    /// Makes the region's keys invalid, unless memory windows are bound to it.
    pub(super) fn deregister(&self, dev: &rdma::Device<Device>) -> Result {
        match &self.kind {
            Kind::Registered(mr) => {
                let mr = mr.lock();
                dev.endpoint.dereg_mr(&mr.mr)?;
                dev.offload.mr_removed(mr.mr.key());
                Ok(())
            }
            Kind::Fast(mr) => {
                dev.endpoint.fast_mrs().dealloc(mr);
                Ok(())
            }
        }
    }

    /// Returns how many memory windows are bound to the region.
    pub(super) fn windows(&self) -> u32 {
        match &self.kind {
            Kind::Registered(mr) => mr.lock().mr.windows(),
            Kind::Fast(_) => 0,
        }
    }

    /// Returns the region as one for fast registration.
    ///
    /// Errors: `EINVAL` if it is not.
    pub(super) fn fast(&self) -> Result<&FastMr> {
        match &self.kind {
            Kind::Registered(_) => Err(EINVAL),
            Kind::Fast(mr) => Ok(mr),
        }
    }
}
