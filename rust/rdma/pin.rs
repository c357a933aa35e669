// SPDX-License-Identifier: GPL-2.0

//! Pinning the memory of processes, or not.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use super::{
    device::Device,
    odp::OnDemand,
    ops::Operations,
    umem::Umem, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    page::PAGE_MASK,
    prelude::*, //
};

impl Umem {
    /// Pins `len` bytes at `addr` of the current process.
    ///
    /// # Errors
    ///
    /// What ib_core says; `ENOMEM` if the process may not lock that much memory.
    pub fn pin<T: Operations>(dev: &Device<T>, addr: u64, len: u64, access: u32) -> Result<Self> {
        let len = usize::try_from(len)?;
        let addr = usize::try_from(addr)?;
        // CAST: Access flags are a bit mask, which C happens to pass as a signed number.
        //
        // SAFETY: `dev` is a live device. The range is checked by the callee.
        let raw = from_err_ptr(unsafe {
            bindings::metaroce_ib_umem_get_va(dev.as_raw(), addr, len, access as c_int)
        })?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        // SAFETY: The pin was just made, and nobody else knows of it.
        unsafe { Self::from_pin(raw, addr, len) }
    }
    /// Takes note of `len` bytes at `addr` of the current process, which are not pinned.
    ///
    /// What is done with them fails with `EAGAIN` if they are not there; then they are fetched, and
    /// it is to be tried again. Bottom halves are disabled for as long as they are used.
    ///
    /// # Errors
    ///
    /// What ib_core says; `EOPNOTSUPP` if the kernel has no on-demand paging.
    pub fn on_demand<T: Operations>(
        dev: &Device<T>,
        addr: u64,
        len: u64,
        access: u32,
    ) -> Result<Self> {
        let len = usize::try_from(len)?;
        let odp = OnDemand::new(dev, addr, len, access)?;
        Ok(Self::of_demand(
            odp,
            usize::try_from(addr)? & !PAGE_MASK,
            len,
        ))
    }
}
