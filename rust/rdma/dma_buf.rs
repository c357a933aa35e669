// SPDX-License-Identifier: GPL-2.0

//! Memory of dma-bufs.
//!
//! A device with DMA attaches itself to a dma-buf. This one has none: it reaches the memory as the
//! CPU does, through the mapping that the exporter makes for the kernel. The memory stays where it
//! is while there is one.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)

use core::ptr::NonNull;

use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    impl_has_work,
    new_work,
    prelude::*,
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use super::{
    umem::Umem,
    work, //
};

/// A dma-buf.
///
/// # Invariants
///
/// Points to a `struct dma_buf` of which this owns a reference.
struct Reference(NonNull<bindings::dma_buf>);

impl Reference {
    /// Returns that of a file of the current process.
    ///
    /// Errors: `EBADF` if the process has no such file, `EINVAL` if it is no dma-buf.
    fn from_fd(fd: i32) -> Result<Self> {
        // SAFETY: The callee checks the number.
        let raw = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        // INVARIANT: The callee has taken a reference for the caller.
        Ok(Self(NonNull::new(raw).ok_or(EINVAL)?))
    }

    fn as_ptr(&self) -> *mut bindings::dma_buf {
        self.0.as_ptr()
    }

    /// Returns the length in bytes.
    fn size(&self) -> usize {
        // SAFETY: By the type invariant; the member does not change.
        unsafe { (*self.as_ptr()).size }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns a reference.
        unsafe { bindings::dma_buf_put(self.as_ptr()) };
    }
}

/// The kernel's mapping of a dma-buf.
///
/// # Invariants
///
/// `map` is what `dma_buf_vmap_unlocked()` gave for `buf`, and this is to give it back.
struct Mapping {
    map: bindings::iosys_map,
    buf: Reference,
}

impl Mapping {
    /// Maps a dma-buf. Process context.
    ///
    /// Errors: `EOPNOTSUPP` if its exporter maps none, others as it says.
    fn new(buf: Reference) -> Result<Self> {
        // SAFETY: By the type invariant of `buf`; the operations are there as long as the dma-buf,
        // and do not change.
        if unsafe { (*(*buf.as_ptr()).ops).vmap }.is_none() {
            return Err(EOPNOTSUPP);
        }
        let mut map = bindings::iosys_map::default();
        // SAFETY: By the type invariant of `buf`; the callee initialises `map`.
        to_result(unsafe { bindings::dma_buf_vmap_unlocked(buf.as_ptr(), &raw mut map) })?;
        // INVARIANT: That was just made.
        Ok(Self { map, buf })
    }

    /// Returns the address of the first byte; as many as the dma-buf has are mapped from there on,
    /// while this lives.
    ///
    /// Errors: `EOPNOTSUPP` if it is memory of a device, for which atomic operations, and anything
    /// else that takes an address, would not work.
    fn address(&self) -> Result<NonNull<u8>> {
        if self.map.is_iomem {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: The pointer is of this kind if the memory is not a device's.
        let address = unsafe { self.map.__bindgen_anon_1.vaddr };
        NonNull::new(address.cast()).ok_or(EOPNOTSUPP)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: By the type invariants of this and `buf`. Nobody uses the mapping: users borrow
        // the memory that owns this.
        unsafe { bindings::dma_buf_vunmap_unlocked(self.buf.as_ptr(), &raw mut self.map) };
    }
}

/// Access by the CPU, in turn with devices that have the dma-buf as well.
///
/// # Invariants
///
/// It has begun, and this is to end it.
struct Access(Mapping);

impl Access {
    /// Begins with it, when devices are through with what they do. Process context.
    ///
    /// Errors: as the exporter says.
    fn begin(mapping: Mapping) -> Result<Self> {
        // SAFETY: By the type invariant of `Reference`.
        to_result(unsafe {
            bindings::dma_buf_begin_cpu_access(
                mapping.buf.as_ptr(),
                bindings::dma_data_direction_DMA_BIDIRECTIONAL,
            )
        })?;
        // INVARIANT: That was just done.
        Ok(Self(mapping))
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        // SAFETY: By the type invariants of this and of `Reference`.
        //
        // There is nobody to tell of an error.
        let _ = unsafe {
            bindings::dma_buf_end_cpu_access(
                self.0.buf.as_ptr(),
                bindings::dma_data_direction_DMA_BIDIRECTIONAL,
            )
        };
    }
}

/// A dma-buf that the CPU reads and writes for as long as this lives.
///
/// # Invariants
///
/// `size` bytes from `address` on are mapped for as long as `access` lives, and are not memory of a
/// device.
#[pin_data]
pub(super) struct DmaBuf {
    address: NonNull<u8>,
    size: usize,
    access: Access,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for DmaBuf { self.work }
}

// SAFETY: Neither a dma-buf nor its mapping depends on the thread that it is used from.
unsafe impl Send for DmaBuf {}

// SAFETY: The members of a shared `DmaBuf` are only read.
unsafe impl Sync for DmaBuf {}

impl WorkItem for DmaBuf {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        drop(this);
    }
}

impl DmaBuf {
    /// Maps a dma-buf, of which the first `end` bytes are needed, and begins with access.
    ///
    /// Errors: those of [`Umem::of_dma_buf`].
    fn new(fd: i32, end: usize) -> Result<Pin<KBox<Self>>> {
        let buf = Reference::from_fd(fd)?;
        let size = buf.size();
        if size < end {
            return Err(EINVAL);
        }
        let mapping = Mapping::new(buf)?;
        let address = mapping.address()?;
        let access = Access::begin(mapping)?;
        KBox::pin_init(
            // INVARIANT: The exporter has mapped all of the dma-buf there.
            pin_init!(Self {
                address,
                size,
                access,
                work <- new_work!("DmaBuf::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the address of the byte at `off`, and how many follow, counting it. They are there
    /// while this lives.
    ///
    /// Errors: `EFAULT` if there is no such byte.
    pub(super) fn at(&self, off: usize) -> Result<(NonNull<u8>, usize)> {
        if off >= self.size {
            return Err(EFAULT);
        }
        // SAFETY: By the type invariant the byte is in the mapping.
        Ok((unsafe { self.address.add(off) }, self.size - off))
    }

    /// Drops it where that may sleep. Any context.
    pub(super) fn drop_later(this: Pin<KBox<Self>>) {
        work::queue().enqueue(this);
    }
}

impl Umem {
    /// Makes the memory of `len` bytes at `offset` of the dma-buf that the current process has as
    /// file `fd`. Process context.
    ///
    /// The CPU has access to the dma-buf until this is dropped. Rights that the file was opened with
    /// are not looked at, nor are they by ib_core for devices that attach.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is no such file; `EINVAL` if it is no dma-buf, or the range is empty or not
    /// all inside; `EOPNOTSUPP` if the exporter does not map it for the kernel, or it is memory of a
    /// device; others as the exporter says, `ENOMEM`.
    pub fn of_dma_buf(fd: i32, offset: u64, len: u64) -> Result<Self> {
        let (offset, len) = (usize::try_from(offset)?, usize::try_from(len)?);
        if len == 0 {
            return Err(EINVAL);
        }
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        Ok(Self::of_mapped(DmaBuf::new(fd, end)?, offset, len))
    }
}
