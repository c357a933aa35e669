// SPDX-License-Identifier: GPL-2.0

//! Operations on memory regions for fast registration, which users in the kernel have.

use kernel::{
    error::from_result,
    prelude::*, //
};

use super::{
    super::object::Mr,
    call::{
        pointer,
        status, //
    },
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a live domain of `T`.
    pub(super) unsafe extern "C" fn alloc_mr(
        pd: *mut bindings::ib_pd,
        mr_type: bindings::ib_mr_type,
        max_pages: u32,
    ) -> *mut bindings::ib_mr {
        pointer(|| {
            if mr_type != bindings::ib_mr_type_IB_MR_TYPE_MEM_REG {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the requirements of this function.
            let (dev, pd) = unsafe { Self::object(pd) };
            Self::new_mr(|| T::alloc_mr(dev, pd, max_pages))
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live region of `alloc_mr`, and a list that is mapped for
    /// DMA.
    pub(super) unsafe extern "C" fn map_mr_sg(
        mr: *mut bindings::ib_mr,
        list: *mut bindings::scatterlist,
        nents: c_int,
        offset: *mut c_uint,
    ) -> c_int {
        from_result(|| {
            // SAFETY: By the requirements of this function; ib_core has set the page size.
            let (this, page_size) = unsafe { (Mr::<T>::from_raw(mr), (*mr).page_size) };
            T::map_begin(this, page_size)?;
            // SAFETY: By the requirements of this function.
            let n =
                unsafe { bindings::ib_sg_to_pages(mr, list, nents, offset, Some(Self::map_page)) };
            if n > 0 {
                // SAFETY: `ib_sg_to_pages` has set it.
                let length = unsafe { (*mr).length };
                T::map_end(this, length)?;
            }
            Ok(n)
        })
    }

    /// # Safety
    ///
    /// To be called by `ib_sg_to_pages` with the region of `map_mr_sg`.
    unsafe extern "C" fn map_page(mr: *mut bindings::ib_mr, address: u64) -> c_int {
        // SAFETY: By the requirements of this function.
        let this = unsafe { Mr::<T>::from_raw(mr) };
        status(|| T::map_page(this, address))
    }
}
