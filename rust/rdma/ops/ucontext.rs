// SPDX-License-Identifier: GPL-2.0

//! Operations on user contexts, and on what a process maps by them.

use kernel::prelude::*;

use super::{
    super::{
        mmap,
        object::{
            Mappable,
            UserContext, //
        },
    },
    call::status,
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// ib_core itself keeps no module from going whose devices can be taken from their users; here
    /// each context does, so that `rmmod` is refused while a process uses a device.
    ///
    /// # Safety
    ///
    /// To be called by ib_core with a new context of `size_ib_ucontext` bytes.
    pub(super) unsafe extern "C" fn alloc_ucontext(
        context: *mut bindings::ib_ucontext,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function; the context is not initialised yet,
            // so the request must not lead to it.
            let udata = unsafe { Self::user(udata) }?.without_context();
            // SAFETY: ib_core sets the device before.
            let dev = unsafe { Self::device(context) };
            let data = Mappable::new(T::alloc_ucontext(dev, udata)?)?;
            // SAFETY: The module whose code is running.
            if !unsafe { bindings::try_module_get(Self::OPS.owner) } {
                return Err(ENODEV);
            }
            // SAFETY: By the requirements of this function.
            unsafe { UserContext::<T>::init(context, data) };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a context whose objects are all destroyed.
    pub(super) unsafe extern "C" fn dealloc_ucontext(context: *mut bindings::ib_ucontext) {
        // SAFETY: By the requirements of this function.
        unsafe { UserContext::<T>::deinit(context) };
        // SAFETY: Taken in `alloc_ucontext`. The code stays until this has returned: a module that
        // goes unregisters its devices first, and that waits for ib_core to be done with them.
        unsafe { bindings::module_put(Self::OPS.owner) };
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    pub(super) unsafe extern "C" fn disassociate_ucontext(_context: *mut bindings::ib_ucontext) {
        // Mappings are of ordinary memory and may stay: ib_core destroys the objects next, and
        // the pages live as long as they are mapped.
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live context and the area that is being mapped.
    pub(super) unsafe extern "C" fn mmap(
        context: *mut bindings::ib_ucontext,
        vma: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: By the requirements of this function; there is no other way to insert an entry
        // than an `MmapEntry`.
        status(|| unsafe { mmap::mmap(context, vma) })
    }

    /// # Safety
    ///
    /// To be called by ib_core with an entry that nobody uses any more.
    pub(super) unsafe extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
        // SAFETY: By the requirements of this function; as above.
        unsafe { mmap::mmap_free(entry) };
    }
}
