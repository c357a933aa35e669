// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The module as the provider sees it, inside the test's own process.
//!
//! This program's `write` and `mmap` come before libc's, for libibverbs and the provider too. For
//! the device's file they answer in the kernel's place; libibverbs falls back to the commands
//! that are written, as /dev/null knows no ioctl.

use crate::abi::{Cqe, CreateCqResp, CreateQp, CreateQpResp, GetContext, GetContextResp, Plain};
use crate::bindings as c;
use crate::mapping::Mapping;
use ring::{Consumer, Geometry, Idle, Producer};
use std::collections::HashMap;
use std::ffi::{c_int, c_long, c_void};
use std::os::fd::RawFd;
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::{fs, mem};

const SQ_STRIDE: u32 = 128;
const RQ_STRIDE: u32 = 64;
/// What the kernel grants, whatever is asked for.
pub(crate) const MAX_INLINE: u32 = 64;
const PAGE: u64 = 4096;

extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

const SYS_WRITE: c_long = 1;
const SYS_MMAP: c_long = 9;

/// The kernel's side of a completion queue.
pub(crate) struct FakeCq {
    ring: Mapping,
    producer: Producer,
}

impl FakeCq {
    /// Adds a completion.
    pub(crate) fn complete(&mut self, cqe: &Cqe) {
        let slot = self.producer.vacant(&self.ring).unwrap();
        slot.write(&self.ring, 0, cqe.bytes()).unwrap();
        self.producer.commit();
        self.producer.publish(&self.ring).unwrap();
    }
}

/// The kernel's side of one queue of a pair.
pub(crate) struct FakeQueue {
    ring: Mapping,
    consumer: Consumer,
}

impl FakeQueue {
    /// Takes the header of the next work request.
    pub(crate) fn take<T: Plain>(&mut self) -> Option<T> {
        let slot = self.consumer.fetch(&self.ring).unwrap()?;
        let mut bytes = vec![0; mem::size_of::<T>()];
        slot.read(&self.ring, 0, &mut bytes).unwrap();
        self.consumer.retire(1).unwrap();
        self.consumer.publish(&self.ring).unwrap();
        T::from_bytes(&bytes)
    }

    /// Goes to sleep.
    pub(crate) fn sleep(&self) {
        assert_eq!(self.consumer.prepare_idle(&self.ring), Ok(Idle::Sleep));
    }
}

/// The kernel's side of a queue pair.
pub(crate) struct FakeQp {
    pub(crate) sq: FakeQueue,
    pub(crate) rq: FakeQueue,
    pub(crate) doorbells: u32,
}

#[derive(Default)]
pub(crate) struct Kernel {
    next: u32,
    /// What is mapped at which offset.
    files: HashMap<u64, RawFd>,
    pub(crate) cqs: HashMap<u32, FakeCq>,
    pub(crate) qps: HashMap<u32, FakeQp>,
    pub(crate) notified: u32,
}

static KERNEL: LazyLock<Mutex<Kernel>> = LazyLock::new(Mutex::default);

/// Returns the kernel. No verb may be called meanwhile.
pub(crate) fn kernel() -> MutexGuard<'static, Kernel> {
    KERNEL.lock().unwrap()
}

impl Kernel {
    fn handle(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Makes a ring and returns it with the offset and the size for its mapping.
    fn ring(&mut self, geometry: Geometry) -> (Mapping, u64, u64) {
        let size = (geometry.size() as u64).next_multiple_of(PAGE);
        let offset = u64::from(self.handle()) * PAGE * PAGE;
        // SAFETY: A new file of the size.
        let fd = unsafe {
            let fd = c::memfd_create(c"ring".as_ptr(), 0);
            assert!(fd > 2 && c::ftruncate(fd, size as _) == 0);
            fd
        };
        self.files.insert(offset, fd);
        (Mapping::new(fd, 0, size).unwrap(), offset, size)
    }

    fn queue(&mut self, geometry: Geometry) -> (FakeQueue, u64, u64) {
        let (ring, offset, size) = self.ring(geometry);
        let consumer = Consumer::new(geometry);
        (FakeQueue { ring, consumer }, offset, size)
    }

    fn create_cq(&mut self, cmd: &c::ib_uverbs_create_cq) -> CreateCqResp {
        let geometry = Geometry::new(cmd.cqe.next_power_of_two(), c::METAROCE_CQE_SIZE).unwrap();
        let (ring, mmap_offset, mmap_size) = self.ring(geometry);
        let handle = self.handle();
        let producer = Producer::new(geometry);
        self.cqs.insert(handle, FakeCq { ring, producer });

        let mut resp = CreateCqResp::default();
        resp.core.cq_handle = handle;
        resp.core.cqe = geometry.entries();
        resp.drv.mmap_offset = mmap_offset;
        resp.drv.mmap_size = mmap_size;
        resp.drv.entries = geometry.entries();
        resp
    }

    fn create_qp(&mut self, cmd: &c::ib_uverbs_create_qp) -> CreateQpResp {
        let sq = Geometry::new(cmd.max_send_wr.next_power_of_two(), SQ_STRIDE).unwrap();
        let rq = Geometry::new(cmd.max_recv_wr.next_power_of_two(), RQ_STRIDE).unwrap();
        let mut resp = CreateQpResp::default();
        resp.core.qp_handle = self.handle();
        resp.core.qpn = 0x100 + resp.core.qp_handle;
        resp.core.max_send_wr = sq.entries();
        resp.core.max_recv_wr = rq.entries();
        resp.core.max_send_sge = cmd.max_send_sge;
        resp.core.max_recv_sge = cmd.max_recv_sge;
        resp.core.max_inline_data = MAX_INLINE;
        resp.drv.sq_entries = sq.entries();
        resp.drv.sq_stride = sq.stride();
        resp.drv.rq_entries = rq.entries();
        resp.drv.rq_stride = rq.stride();

        let (sq, offset, size) = self.queue(sq);
        (resp.drv.sq_mmap_offset, resp.drv.sq_mmap_size) = (offset, size);
        let (rq, offset, size) = self.queue(rq);
        (resp.drv.rq_mmap_offset, resp.drv.rq_mmap_size) = (offset, size);
        sq.sleep();
        let doorbells = 0;
        self.qps
            .insert(resp.core.qp_handle, FakeQp { sq, rq, doorbells });
        resp
    }

    /// Executes the command in `bytes`.
    ///
    /// # Safety
    ///
    /// The command's response pointer is good for the length in its header.
    unsafe fn command(&mut self, bytes: &[u8]) {
        let hdr: c::ib_uverbs_cmd_hdr = copy(bytes);
        assert_eq!(usize::from(hdr.in_words) * 4, bytes.len());
        let body = &bytes[mem::size_of_val(&hdr)..];
        let out = Response {
            // The first member of all commands that have an answer.
            at: body.first_chunk().map_or(0, |at| u64::from_ne_bytes(*at)),
            len: usize::from(hdr.out_words) * 4,
        };
        // SAFETY: By this function's contract.
        unsafe {
            match hdr.command {
                c::IB_USER_VERBS_CMD_GET_CONTEXT => {
                    let cmd: GetContext = copy(bytes);
                    assert_eq!(bytes.len(), mem::size_of::<GetContext>());
                    assert_eq!(cmd.drv.abi_version, c::METAROCE_ABI_VERSION);
                    let mut resp = GetContextResp::default();
                    resp.core.async_fd = c::memfd_create(c"async".as_ptr(), 0) as u32;
                    resp.core.num_comp_vectors = 1;
                    out.answer(&resp);
                }
                c::IB_USER_VERBS_CMD_ALLOC_PD => {
                    out.answer(&c::ib_uverbs_alloc_pd_resp {
                        pd_handle: self.handle(),
                        ..Default::default()
                    });
                }
                c::IB_USER_VERBS_CMD_REG_MR => {
                    out.answer(&c::ib_uverbs_reg_mr_resp {
                        mr_handle: self.handle(),
                        lkey: 0x11,
                        rkey: 0x22,
                        ..Default::default()
                    });
                }
                c::IB_USER_VERBS_CMD_CREATE_CQ => out.answer(&self.create_cq(&copy(body))),
                c::IB_USER_VERBS_CMD_CREATE_QP => {
                    assert_eq!(bytes.len(), mem::size_of::<CreateQp>());
                    out.answer(&self.create_qp(&copy(body)));
                }
                c::IB_USER_VERBS_CMD_POST_SEND => {
                    let cmd: c::ib_uverbs_post_send = copy(body);
                    assert_eq!((cmd.wr_count, cmd.sge_count), (0, 0));
                    assert!(cmd.wqe_size as usize >= mem::size_of::<c::ib_uverbs_send_wr>());
                    assert_eq!(out.len, mem::size_of::<c::ib_uverbs_post_send_resp>());
                    self.qps.get_mut(&cmd.qp_handle).unwrap().doorbells += 1;
                }
                c::IB_USER_VERBS_CMD_DESTROY_CQ => {
                    let cmd: c::ib_uverbs_destroy_cq = copy(body);
                    self.cqs.remove(&cmd.cq_handle).unwrap();
                    out.answer(&c::ib_uverbs_destroy_cq_resp::default());
                }
                c::IB_USER_VERBS_CMD_DESTROY_QP => {
                    let cmd: c::ib_uverbs_destroy_qp = copy(body);
                    self.qps.remove(&cmd.qp_handle).unwrap();
                    out.answer(&c::ib_uverbs_destroy_qp_resp::default());
                }
                c::IB_USER_VERBS_CMD_REQ_NOTIFY_CQ => self.notified += 1,
                // Nothing to answer.
                c::IB_USER_VERBS_CMD_MODIFY_QP
                | c::IB_USER_VERBS_CMD_DEREG_MR
                | c::IB_USER_VERBS_CMD_DEALLOC_PD => (),
                other => panic!("command {other}"),
            }
        }
    }
}

/// Where a command wants its answer.
struct Response {
    at: u64,
    len: usize,
}

impl Response {
    /// # Safety
    ///
    /// The place is writable.
    unsafe fn answer<T>(&self, resp: &T) {
        assert_eq!(self.len, mem::size_of::<T>());
        // SAFETY: By this function's contract, and of that length.
        unsafe { (self.at as *mut T).copy_from_nonoverlapping(resp, 1) };
    }
}

/// Copies a structure of integers out of `bytes`.
fn copy<T>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= mem::size_of::<T>());
    // SAFETY: Long enough, and only used for integers.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// Returns whether `fd` is the device's.
fn is_device(fd: c_int) -> bool {
    fd > 2 && fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|p| p.ends_with("uverbs0"))
}

/// libc's write(), and commands of the device.
#[no_mangle]
unsafe extern "C" fn write(fd: c_int, buf: *const c_void, len: usize) -> isize {
    if !is_device(fd) {
        // SAFETY: The caller's.
        return unsafe { syscall(SYS_WRITE, fd, buf, len) } as isize;
    }
    // SAFETY: The caller's command.
    unsafe { kernel().command(std::slice::from_raw_parts(buf.cast(), len)) };
    len as isize
}

/// libc's mmap(), and the device's rings.
#[no_mangle]
unsafe extern "C" fn mmap(
    addr: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    let (fd, offset) = if fd > 2 && is_device(fd) {
        (kernel().files[&(offset as u64)], 0)
    } else {
        (fd, offset)
    };
    // SAFETY: The caller's.
    unsafe { syscall(SYS_MMAP, addr, len, prot, flags, fd, offset) as *mut c_void }
}
