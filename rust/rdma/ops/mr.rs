// SPDX-License-Identifier: GPL-2.0

//! Changes of memory regions, and regions for fast registration.

use super::{
    Device,
    MemoryRange,
    Mr,
    MrChange,
    Operations,
    Pd,
    VTable, //
};
use kernel::{
    error::from_result,
    prelude::*, //
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
        let alloc = || {
            if mr_type != bindings::ib_mr_type_IB_MR_TYPE_MEM_REG {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the requirements of this function.
            let (dev, pd) = unsafe { (Device::<T>::from_raw((*pd).device), Pd::<T>::from_raw(pd)) };
            let place = KBox::<Mr<T>>::new_uninit(GFP_KERNEL)?;
            let (data, keys) = T::alloc_mr(dev, pd, max_pages)?;
            Ok(Self::new_mr(place, data, &keys))
        };
        alloc().unwrap_or_else(|e: Error| e.to_ptr())
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live domain of `T` and a list of `num` elements.
    pub(super) unsafe extern "C" fn advise_mr(
        pd: *mut bindings::ib_pd,
        advice: bindings::ib_uverbs_advise_mr_advice,
        flags: u32,
        list: *mut bindings::ib_sge,
        num: u32,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        const READ: u32 = bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;
        const WRITE: u32 =
            bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
        const NO_FAULT: u32 =
            bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
        const FLUSH: u32 = bindings::ib_uverbs_advise_mr_flag_IB_UVERBS_ADVISE_MR_FLAG_FLUSH;

        from_result(|| {
            if flags & !FLUSH != 0 {
                return Err(EOPNOTSUPP);
            }
            let write = match advice {
                READ => false,
                WRITE => true,
                // There is nothing to be had without a fault that a fault would not find.
                NO_FAULT => return Ok(0),
                _ => return Err(EOPNOTSUPP),
            };
            // SAFETY: By the requirements of this function.
            let (dev, pd, list) = unsafe {
                (
                    Device::<T>::from_raw((*pd).device),
                    Pd::<T>::from_raw(pd),
                    // CAST: `usize` has at least the bits of `u32`.
                    core::slice::from_raw_parts(list, num as usize),
                )
            };
            for sge in list {
                let range = MemoryRange {
                    lkey: sge.lkey,
                    addr: sge.addr,
                    len: sge.length,
                };
                match T::prefetch_mr(dev, pd, &range, write) {
                    // Without the flag it is an advice: what cannot be had now is fetched when it
                    // is needed.
                    Err(EINVAL) => return Err(EINVAL),
                    Err(EPERM) => return Err(EPERM),
                    Err(error) if flags & FLUSH != 0 => return Err(error),
                    _ => {}
                }
            }
            Ok(0)
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
        from_result(|| T::map_page(this, address).map(|()| 0))
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live region and a live domain of `T`, and nobody else uses
    /// the region in a verb.
    pub(super) unsafe extern "C" fn rereg_user_mr(
        mr: *mut bindings::ib_mr,
        flags: c_int,
        start: u64,
        length: u64,
        virt_addr: u64,
        access_flags: c_int,
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        const TRANSLATION: u32 = bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS;
        const ACCESS: u32 = bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS;

        let change = || {
            // CAST: A bit mask that C happens to pass as a signed number.
            let flags = flags as u32;
            if flags & !bindings::ib_mr_rereg_flags_IB_MR_REREG_SUPPORTED != 0 {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, mr, pd) = unsafe {
                (
                    Device::<T>::from_raw((*mr).device),
                    Mr::<T>::from_raw(mr),
                    Pd::<T>::from_raw(pd),
                )
            };
            let change = MrChange {
                range: (flags & TRANSLATION != 0).then_some((start, length, virt_addr)),
                // CAST: As above.
                access_flags: (flags & ACCESS != 0).then_some(access_flags as u32),
            };
            T::rereg_mr(dev, mr, pd, &change)
        };
        match change() {
            // The region is still the same object.
            Ok(()) => core::ptr::null_mut(),
            Err(e) => e.to_ptr(),
        }
    }
}
