// SPDX-License-Identifier: GPL-2.0

//! Operations on memory regions; `fast_reg` has those that only users in the kernel have.

use kernel::prelude::*;

use super::{
    super::object::{
        Mr,
        Object,
        Pd, //
    },
    call::{
        pointer,
        status, //
    },
    Operations,
    VTable, //
};

/// What a memory region is registered with.
#[derive(Clone, Copy, Debug)]
pub struct MrInit {
    /// Address in the process, or offset in the dma-buf.
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

impl<T: Operations> VTable<T> {
    /// Makes ib_core's region of the driver's part, which `make` returns with its keys; ib_core
    /// takes the memory, and fills in the rest.
    pub(super) fn new_mr(
        make: impl FnOnce() -> Result<(T::Mr, MrKeys)>,
    ) -> Result<*mut bindings::ib_mr> {
        // First: what `make` makes is not undone by dropping it.
        let place = KBox::<Mr<T>>::new_uninit(GFP_KERNEL)?;
        let (data, keys) = make()?;
        let raw = bindings::ib_mr {
            lkey: keys.lkey,
            rkey: keys.rkey,
            ..pin_init::zeroed()
        };
        Ok(KBox::into_raw(KBox::write(place, Object::new(raw, data))).cast())
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live domain of `T`.
    pub(super) unsafe extern "C" fn get_dma_mr(
        pd: *mut bindings::ib_pd,
        access: c_int,
    ) -> *mut bindings::ib_mr {
        // SAFETY: By the requirements of this function.
        let (dev, pd) = unsafe { Self::object(pd) };
        // CAST: A bit mask that C happens to pass as a signed number.
        pointer(|| Self::new_mr(|| T::get_dma_mr(dev, pd, access as u32)))
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live domain of `T`.
    pub(super) unsafe extern "C" fn reg_user_mr(
        pd: *mut bindings::ib_pd,
        start: u64,
        length: u64,
        virt_addr: u64,
        access_flags: c_int,
        dmah: *mut bindings::ib_dmah,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        pointer(|| {
            if !dmah.is_null() {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the requirements of this function.
            let udata = unsafe { Self::user(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, pd) = unsafe { Self::object(pd) };
            let init = MrInit {
                start,
                length,
                virt_addr,
                // CAST: A bit mask that C happens to pass as a signed number.
                access_flags: access_flags as u32,
            };
            Self::new_mr(|| T::reg_user_mr(dev, pd, &init, udata))
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live domain of `T`, in a verb of a process.
    pub(super) unsafe extern "C" fn reg_user_mr_dmabuf(
        pd: *mut bindings::ib_pd,
        offset: u64,
        length: u64,
        virt_addr: u64,
        fd: c_int,
        access_flags: c_int,
        dmah: *mut bindings::ib_dmah,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> *mut bindings::ib_mr {
        pointer(|| {
            if !dmah.is_null() {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(bindings::metaroce_uverbs_driver_udata(attrs)) }?;
            // SAFETY: By the requirements of this function.
            let (dev, pd) = unsafe { Self::object(pd) };
            let init = MrInit {
                start: offset,
                length,
                virt_addr,
                // CAST: A bit mask that C happens to pass as a signed number.
                access_flags: access_flags as u32,
            };
            let mr = Self::new_mr(|| T::reg_dma_buf_mr(dev, pd, &init, fd))?;
            // ib_core leaves these to the driver here.
            //
            // SAFETY: It was just made, and nobody else knows of it.
            unsafe { ((*mr).iova, (*mr).length) = (virt_addr, length) };
            Ok(mr)
        })
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

        status(|| {
            if flags & !FLUSH != 0 {
                return Err(EOPNOTSUPP);
            }
            let write = match advice {
                READ => false,
                WRITE => true,
                // There is nothing to be had without a fault that a fault would not find.
                NO_FAULT => return Ok(()),
                _ => return Err(EOPNOTSUPP),
            };
            // SAFETY: By the requirements of this function.
            let (dev, pd) = unsafe { Self::object(pd) };
            // SAFETY: By the requirements of this function.
            // CAST: `usize` has at least the bits of `u32`.
            let list = unsafe { core::slice::from_raw_parts(list, num as usize) };
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
            Ok(())
        })
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

        pointer(|| {
            // CAST: A bit mask that C happens to pass as a signed number.
            let flags = flags as u32;
            if flags & !bindings::ib_mr_rereg_flags_IB_MR_REREG_SUPPORTED != 0 {
                return Err(EOPNOTSUPP);
            }
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let ((dev, mr), pd) = unsafe { (Self::object(mr), Pd::<T>::from_raw(pd)) };
            let change = MrChange {
                range: (flags & TRANSLATION != 0).then_some((start, length, virt_addr)),
                // CAST: As above.
                access_flags: (flags & ACCESS != 0).then_some(access_flags as u32),
            };
            T::rereg_mr(dev, mr, pd, &change)?;
            // The region is still the same object.
            Ok(core::ptr::null_mut())
        })
    }
    /// # Safety
    ///
    /// To be called by ib_core with a region that nobody uses any more.
    pub(super) unsafe extern "C" fn dereg_mr(
        mr: *mut bindings::ib_mr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let (dev, this) = unsafe { Self::object(mr) };
            // If it fails, the region lives on.
            T::dereg_mr(dev, this)?;
            // SAFETY: The region is one that `new_mr` made, there is no other way, and this is its
            // last use.
            drop(unsafe { KBox::from_raw(mr.cast::<Mr<T>>()) });
            Ok(())
        })
    }
}
