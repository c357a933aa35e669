// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The send queue's ring, and how a work request becomes a slot of it.

use crate::abi::{slice_bytes, Plain, SendWqe};
use crate::ah::Ah;
use crate::bindings as c;
use crate::errno::Errno;
use crate::mapping::Mapping;
use crate::object::Object;
use crate::post::Queue;
use core::ffi::c_int;
use core::slice;
use ring::{Geometry, Producer, Slot};

/// What a queue pair was created with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendLimits {
    pub(crate) max_sge: u32,
    pub(crate) max_inline: u32,
    /// Every work request completes visibly, whatever its flags say.
    pub(crate) signal_all: bool,
    /// Each work request names an address handle, and the queue pair that it goes to.
    pub(crate) is_datagram: bool,
}

/// User space's side of a send queue.
#[derive(Debug)]
pub(crate) struct SendQueue {
    ring: Mapping,
    producer: Producer,
    limits: SendLimits,
    batch: Batch,
}

/// Work requests that are posted one call at a time.
#[derive(Debug, Default)]
struct Batch {
    /// The last one, whose list or data may yet come.
    current: Option<(Slot, SendWqe)>,
    /// What was wrong with one of them; none is posted then.
    error: Option<Errno>,
}

impl SendQueue {
    /// Makes the producer of a new ring.
    pub(crate) fn new(ring: Mapping, geometry: Geometry, limits: SendLimits) -> Self {
        Self {
            ring,
            producer: Producer::new(geometry),
            limits,
            batch: Batch::default(),
        }
    }

    /// Starts a batch of work requests, which fails if `allowed` is an error.
    pub(crate) fn start(&mut self, allowed: Result<(), Errno>) {
        self.batch = Batch {
            current: None,
            error: allowed.err(),
        };
    }

    /// Begins the next work request of the batch.
    pub(crate) fn begin(&mut self, wqe: Result<SendWqe, Errno>) {
        let result = self.finish_current().and_then(|()| {
            let mut wqe = wqe?;
            if self.limits.signal_all {
                wqe.flags |= c::METAROCE_SEND_SIGNALED as u8;
            }
            let slot = self.producer.vacant(&self.ring)?;
            self.batch.current = Some((slot, wqe));
            Ok(())
        });
        self.note(result);
    }

    /// Sets where the datagram of the batch's current work request goes.
    pub(crate) fn set_address(&mut self, ah: Result<u32, Errno>, qpn: u32, q_key: u32) {
        let result = match (&mut self.batch.current, ah) {
            (Some((_, wqe)), Ok(ah)) if self.limits.is_datagram => {
                wqe.ah = ah;
                wqe.remote_qpn = qpn;
                wqe.rkey = q_key;
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        };
        self.note(result);
    }

    /// Sets the scatter list of the batch's current work request.
    pub(crate) fn set_list(&mut self, list: &[c::ibv_sge]) {
        let result = self.write_list(list);
        self.note(result);
    }

    fn write_list(&mut self, list: &[c::ibv_sge]) -> Result<(), Errno> {
        let (slot, mut wqe) = self.batch.current.ok_or(Errno::EINVAL)?;
        let num = u32::try_from(list.len()).map_err(|_| Errno::EINVAL)?;
        if num > self.limits.max_sge {
            return Err(Errno::EINVAL);
        }
        self.copy_in(slot, size_of::<SendWqe>(), slice_bytes(list))?;
        wqe.num_sge = u16::try_from(num).map_err(|_| Errno::EINVAL)?;
        self.batch.current = Some((slot, wqe));
        Ok(())
    }

    /// Sets the data of the batch's current work request.
    ///
    /// # Safety
    ///
    /// What the elements of `list` name is readable.
    pub(crate) unsafe fn set_inline(&mut self, list: &[c::ibv_data_buf]) {
        // SAFETY: By this function's contract.
        let result = unsafe { self.write_inline(list) };
        self.note(result);
    }

    /// # Safety
    ///
    /// As for [`set_inline`](Self::set_inline).
    unsafe fn write_inline(&mut self, list: &[c::ibv_data_buf]) -> Result<(), Errno> {
        let (slot, mut wqe) = self.batch.current.ok_or(Errno::EINVAL)?;
        let mut len = 0;
        for buf in list.iter().filter(|buf| buf.length != 0) {
            let end = buf.length.checked_add(len).ok_or(Errno::EINVAL)?;
            // CAST: `usize` is 64 bits wide here.
            if end > self.limits.max_inline as usize {
                return Err(Errno::EINVAL);
            }
            // SAFETY: By this function's contract. The application leaves the buffer alone until
            // the verb returns.
            let data = unsafe { slice::from_raw_parts(buf.addr.cast::<u8>(), buf.length) };
            self.copy_in(slot, size_of::<SendWqe>() + len, data)?;
            len = end;
        }
        wqe.flags |= c::METAROCE_SEND_INLINE as u8;
        // CAST: At most `max_inline`.
        wqe.inline_len = len as u32;
        self.batch.current = Some((slot, wqe));
        Ok(())
    }

    /// Ends the batch: shows it to the kernel, and returns whether the doorbell must be rung. After
    /// an error nothing is posted.
    pub(crate) fn complete(&mut self) -> Result<bool, Errno> {
        let result = self.finish_current();
        self.note(result);
        match self.batch.error.take() {
            None => self.publish(),
            Some(error) => {
                self.producer.abandon();
                Err(error)
            }
        }
    }

    /// Ends the batch and posts nothing.
    pub(crate) fn abort(&mut self) {
        self.batch = Batch::default();
        self.producer.abandon();
    }

    /// Keeps the batch's current work request, if there is one.
    fn finish_current(&mut self) -> Result<(), Errno> {
        if let Some((slot, wqe)) = self.batch.current.take() {
            self.copy_in(slot, 0, wqe.bytes())?;
            self.producer.commit();
        }
        Ok(())
    }

    /// Remembers the first error of the batch.
    fn note(&mut self, result: Result<(), Errno>) {
        self.batch.error = self.batch.error.or(result.err());
    }

    fn copy_in(&self, slot: Slot, at: usize, bytes: &[u8]) -> Result<(), Errno> {
        slot.write(&self.ring, at, bytes).ok_or(Errno::EINVAL)
    }

    /// Copies the data of `sges` into `slot` and returns its length.
    ///
    /// # Safety
    ///
    /// The memory that `sges` name is readable.
    unsafe fn copy_inline(&self, slot: Slot, sges: &[c::ibv_sge]) -> Result<u32, Errno> {
        let mut len = 0u32;
        for sge in sges.iter().filter(|sge| sge.length != 0) {
            let end = len.checked_add(sge.length).ok_or(Errno::EINVAL)?;
            if end > self.limits.max_inline {
                return Err(Errno::EINVAL);
            }
            // CAST: lengths of at most `max_inline`; the address is one of this process.
            let at = size_of::<SendWqe>() + len as usize;
            // SAFETY: By this function's contract. The application leaves the buffer alone until
            // the verb returns.
            let data = unsafe { slice::from_raw_parts(sge.addr as *const u8, sge.length as usize) };
            self.copy_in(slot, at, data)?;
            len = end;
        }
        Ok(len)
    }
}

impl Queue for SendQueue {
    type Wr = c::ibv_send_wr;

    fn next(wr: &Self::Wr) -> *mut Self::Wr {
        wr.next
    }

    /// Puts a work request into the ring, where the kernel sees it after
    /// [`publish`](Self::publish).
    ///
    /// # Safety
    ///
    /// The scatter list of `wr` is readable, and, if the data is sent inline, the data too; the
    /// objects that it names are live.
    unsafe fn post(&mut self, wr: &Self::Wr) -> Result<(), Errno> {
        // SAFETY: By this function's contract.
        let mut wqe = unsafe { header(wr) }?;
        if self.limits.is_datagram {
            // SAFETY: By this function's contract.
            unsafe { address(wr, &mut wqe) }?;
        }
        // SAFETY: By this function's contract.
        let sges = unsafe { scatter_list(wr.sg_list, wr.num_sge, self.limits.max_sge) }?;
        if self.limits.signal_all {
            wqe.flags |= c::METAROCE_SEND_SIGNALED as u8;
        }

        let slot = self.producer.vacant(&self.ring)?;
        if u32::from(wqe.flags) & c::METAROCE_SEND_INLINE != 0 {
            // SAFETY: By this function's contract.
            wqe.inline_len = unsafe { self.copy_inline(slot, sges) }?;
        } else {
            // CAST: `num_sge` is a `u16` in the ABI; `scatter_list` has checked it.
            wqe.num_sge = u16::try_from(sges.len()).map_err(|_| Errno::EINVAL)?;
            self.copy_in(slot, size_of::<SendWqe>(), slice_bytes(sges))?;
        }
        self.copy_in(slot, 0, wqe.bytes())?;
        self.producer.commit();
        Ok(())
    }

    /// Shows what was posted to the kernel, and returns whether the doorbell must be rung.
    fn publish(&mut self) -> Result<bool, Errno> {
        Ok(self.producer.publish_with_doorbell(&self.ring)?)
    }
}

/// Checks a scatter list against the queue's limit and returns it.
///
/// # Safety
///
/// `list` is readable for `num` entries while `'a` lasts.
pub(crate) unsafe fn scatter_list<'a>(
    list: *const c::ibv_sge,
    num: c_int,
    max: u32,
) -> Result<&'a [c::ibv_sge], Errno> {
    let num = u32::try_from(num).map_err(|_| Errno::EINVAL)?;
    if num > max {
        return Err(Errno::EINVAL);
    }
    if num == 0 {
        return Ok(&[]);
    }
    if list.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: Not null, and by this function's contract.
    Ok(unsafe { slice::from_raw_parts(list, num as usize) })
}

/// Makes the header of a slot, all but what the data decides.
///
/// # Safety
///
/// The objects that `wr` names are live.
unsafe fn header(wr: &c::ibv_send_wr) -> Result<SendWqe, Errno> {
    let mut wqe = SendWqe {
        wr_id: wr.wr_id,
        ..Default::default()
    };

    // SAFETY: All members of these unions are integers and pointers: any bits are a value, and the
    // opcode says which member the application has filled in. Pointers are followed by this
    // function's contract.
    unsafe {
        let imm_data = wr.__bindgen_anon_1.imm_data;
        let invalidate_rkey = wr.__bindgen_anon_1.invalidate_rkey;
        let rdma = wr.wr.rdma;
        let atomic = wr.wr.atomic;

        let opcode = match wr.opcode {
            c::IBV_WR_SEND => c::METAROCE_OP_SEND,
            c::IBV_WR_SEND_WITH_IMM => {
                wqe.imm_data = imm_data;
                c::METAROCE_OP_SEND_IMM
            }
            c::IBV_WR_SEND_WITH_INV => {
                wqe.imm_data = invalidate_rkey;
                c::METAROCE_OP_SEND_INV
            }
            c::IBV_WR_RDMA_WRITE => {
                wqe.remote_addr = rdma.remote_addr;
                wqe.rkey = rdma.rkey;
                c::METAROCE_OP_RDMA_WRITE
            }
            c::IBV_WR_RDMA_WRITE_WITH_IMM => {
                wqe.remote_addr = rdma.remote_addr;
                wqe.rkey = rdma.rkey;
                wqe.imm_data = imm_data;
                c::METAROCE_OP_RDMA_WRITE_IMM
            }
            c::IBV_WR_RDMA_READ => {
                wqe.remote_addr = rdma.remote_addr;
                wqe.rkey = rdma.rkey;
                c::METAROCE_OP_RDMA_READ
            }
            c::IBV_WR_ATOMIC_CMP_AND_SWP | c::IBV_WR_ATOMIC_FETCH_AND_ADD => {
                wqe.remote_addr = atomic.remote_addr;
                wqe.rkey = atomic.rkey;
                wqe.compare_add = atomic.compare_add;
                wqe.swap = atomic.swap;
                if wr.opcode == c::IBV_WR_ATOMIC_CMP_AND_SWP {
                    c::METAROCE_OP_ATOMIC_CMP_SWP
                } else {
                    c::METAROCE_OP_ATOMIC_FETCH_ADD
                }
            }
            c::IBV_WR_LOCAL_INV => {
                wqe.imm_data = invalidate_rkey;
                c::METAROCE_OP_LOCAL_INV
            }
            c::IBV_WR_BIND_MW => {
                let bind = wr.__bindgen_anon_2.bind_mw;
                let window = bind.mw.as_ref().ok_or(Errno::EINVAL)?;
                wqe.rkey = window.rkey;
                wqe.imm_data = bind.rkey;
                wqe.remote_addr = bind.bind_info.addr;
                wqe.compare_add = bind.bind_info.length;
                wqe.bind_lkey = bind.bind_info.mr.as_ref().map_or(0, |mr| mr.lkey);
                wqe.bind_access = bind.bind_info.mw_access_flags;
                c::METAROCE_OP_BIND_MW
            }
            _ => return Err(Errno::EINVAL),
        };
        wqe.opcode = opcode as u8;
    }

    wqe.flags = flags(wr.send_flags, wr.opcode)?;
    Ok(wqe)
}

/// Adds to the header of a slot where a datagram goes.
///
/// # Safety
///
/// The address handle that `wr` names, if any, is live and of this provider.
unsafe fn address(wr: &c::ibv_send_wr, wqe: &mut SendWqe) -> Result<(), Errno> {
    if !matches!(wr.opcode, c::IBV_WR_SEND | c::IBV_WR_SEND_WITH_IMM) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: On a datagram queue pair the application has filled in this member.
    let ud = unsafe { wr.wr.ud };
    if ud.ah.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: Not null, and by this function's contract.
    wqe.ah = unsafe { Ah::from_verbs(ud.ah) }.number();
    wqe.remote_qpn = ud.remote_qpn;
    wqe.rkey = ud.remote_qkey;
    Ok(())
}

/// Translates the flags of a work request.
pub(crate) fn flags(flags: u32, opcode: c::ibv_wr_opcode) -> Result<u8, Errno> {
    let map = [
        (c::IBV_SEND_FENCE, c::METAROCE_SEND_FENCE),
        (c::IBV_SEND_SIGNALED, c::METAROCE_SEND_SIGNALED),
        (c::IBV_SEND_SOLICITED, c::METAROCE_SEND_SOLICITED),
        (c::IBV_SEND_INLINE, c::METAROCE_SEND_INLINE),
    ];
    let known = map.iter().fold(0, |all, (verbs, _)| all | verbs);
    if flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & c::IBV_SEND_INLINE != 0 && !carries_data(opcode) {
        return Err(Errno::EINVAL);
    }
    let flags = map
        .iter()
        .filter(|(verbs, _)| flags & verbs != 0)
        .fold(0, |all, (_, abi)| all | abi);
    // CAST: the ABI's flags fit its member.
    Ok(flags as u8)
}

/// Returns whether the request itself carries the data of its scatter list.
fn carries_data(opcode: c::ibv_wr_opcode) -> bool {
    matches!(
        opcode,
        c::IBV_WR_SEND
            | c::IBV_WR_SEND_WITH_IMM
            | c::IBV_WR_SEND_WITH_INV
            | c::IBV_WR_RDMA_WRITE
            | c::IBV_WR_RDMA_WRITE_WITH_IMM
    )
}
