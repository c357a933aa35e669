// SPDX-License-Identifier: GPL-2.0

//! How users in the kernel post work: into the rings that user space has too.
//!
//! A user in the kernel posts in any context, with interrupts disabled as well, and all other locks
//! of the data path want them enabled. So posting touches the ring alone, and the queue pair looks
//! at it later, in a bottom half of its own.

use super::{
    ah::Destination,
    bytes::put,
    wqe::{
        SendOp,
        RECV_HEADER,
        SEND_HEADER,
        SGE_SIZE, //
    },
};
use crate::rdma::{
    self,
    mmap::SharedMem,
    ops::Operations,
    post::{
        RecvRequest,
        SendRequest,
        Sge, //
    },
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::SpinLockIrq, //
};
use ring::{
    Geometry,
    Producer,
    Slot, //
};

/// The flag that says that the data stand in the work request, `METAROCE_SEND_INLINE`.
const INLINE: u32 = 1 << 3;

/// Flags that are passed on; their values are those of `enum metaroce_send_flags`.
const FLAGS: u32 = 0xf;

/// The posting side of a queue.
#[pin_data]
pub(crate) struct Poster {
    ring: SharedMem,
    max_sge: usize,
    max_inline: usize,
    stride: usize,
    #[pin]
    producer: SpinLockIrq<Producer>,
}

impl Poster {
    /// Makes the posting side of a new ring, which takes lists of at most `max_sge` elements and
    /// at most `max_inline` bytes of inline data. Process context.
    pub(crate) fn new(
        ring: SharedMem,
        geometry: Geometry,
        max_sge: u32,
        max_inline: u32,
    ) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                ring,
                // CAST: `usize` is 64 bits wide here.
                max_sge: max_sge as usize,
                max_inline: max_inline as usize,
                stride: geometry.stride() as usize,
                producer <- new_spinlock_irq!(Producer::new(geometry)),
            }),
            GFP_KERNEL,
        )
    }

    /// Puts a send work request into the ring, where it is seen after [`Self::publish`]. Any
    /// context.
    ///
    /// Errors: `ENOMEM` if the queue is full, `EINVAL` if the request has more elements or inline
    /// data than the queue takes, `EOPNOTSUPP` for an operation that there is not.
    pub(crate) fn send<T: Operations>(&self, request: &SendRequest<'_, T>) -> Result {
        let mut header = SendHeader::of(request)?;
        self.fill(|slot, ring| self.write_send(slot, ring, &mut header, request))
    }

    /// Puts a send work request of a datagram queue pair into the ring, with where it goes at its
    /// end. Errors and context as for [`Self::send`].
    pub(crate) fn send_to<T: Operations>(
        &self,
        request: &SendRequest<'_, T>,
        to: &Destination,
        qpn: u32,
        q_key: u32,
    ) -> Result {
        let mut header = SendHeader::of(request)?;
        header.q_key(q_key);
        header.remote_qpn(qpn);
        self.fill(|slot, ring| {
            self.write_send(slot, ring, &mut header, request)?;
            let at = self.stride.checked_sub(Destination::SIZE).ok_or(EINVAL)?;
            slot.write(ring, at, &to.encode()).ok_or(EINVAL)
        })
    }

    fn write_send<T: Operations>(
        &self,
        slot: Slot,
        ring: &SharedMem,
        header: &mut SendHeader,
        request: &SendRequest<'_, T>,
    ) -> Result {
        if request.flags() & INLINE != 0 {
            let mut len = 0;
            for data in request.inline_data()? {
                if data.len() > self.max_inline - len {
                    return Err(EINVAL);
                }
                slot.write(ring, SEND_HEADER + len, data).ok_or(EINVAL)?;
                len += data.len();
            }
            // CAST: At most `max_inline`.
            header.inline_len(len as u32);
        } else {
            let n = self.write_list(slot, SEND_HEADER, request.list()?)?;
            header.num_sge(u16::try_from(n)?);
        }
        slot.write(ring, 0, &header.0).ok_or(EINVAL)
    }

    /// Puts a receive work request into the ring. Errors and context as for [`Self::send`].
    pub(crate) fn recv(&self, request: &RecvRequest<'_>) -> Result {
        self.fill(|slot, ring| {
            let n = self.write_list(slot, RECV_HEADER, request.list()?)?;
            let mut header = [0; RECV_HEADER];
            put(&mut header, 0, &request.wr_id().to_ne_bytes());
            put(&mut header, 8, &u32::try_from(n)?.to_ne_bytes());
            slot.write(ring, 0, &header).ok_or(EINVAL)
        })
    }

    fn fill(&self, write: impl FnOnce(Slot, &SharedMem) -> Result) -> Result {
        let mut producer = self.producer.lock();
        // Nobody but the kernel can have touched the ring: it is full, if anything.
        let slot = producer.vacant(&self.ring).map_err(|_| ENOMEM)?;
        write(slot, &self.ring)?;
        producer.commit();
        Ok(())
    }

    fn write_list(
        &self,
        slot: Slot,
        at: usize,
        list: impl ExactSizeIterator<Item = Sge>,
    ) -> Result<usize> {
        let n = list.len();
        if n > self.max_sge {
            return Err(EINVAL);
        }
        for (i, sge) in list.enumerate() {
            let mut bytes = [0; SGE_SIZE];
            put(&mut bytes, 0, &sge.addr.to_ne_bytes());
            put(&mut bytes, 8, &sge.length.to_ne_bytes());
            put(&mut bytes, 12, &sge.lkey.to_ne_bytes());
            slot.write(&self.ring, at + i * SGE_SIZE, &bytes)
                .ok_or(EINVAL)?;
        }
        Ok(n)
    }

    /// Shows what was posted, and returns whether the queue pair has to be told. Any context.
    pub(crate) fn publish(&self) -> bool {
        let mut producer = self.producer.lock();
        producer.publish_with_doorbell(&self.ring).unwrap_or(true)
    }
}

/// `struct metaroce_send_wqe` as bytes.
struct SendHeader([u8; SEND_HEADER]);

impl SendHeader {
    fn of<T: Operations>(request: &SendRequest<'_, T>) -> Result<Self> {
        let mut this = Self([0; SEND_HEADER]);
        this.put(0, &request.wr_id().to_ne_bytes());
        // CAST: Four bits.
        this.put(9, &[(request.flags() & FLAGS) as u8]);
        let op = match request.op()? {
            rdma::post::SendOp::Send => SendOp::Send,
            rdma::post::SendOp::SendImm(imm) => {
                this.imm(imm);
                SendOp::SendImm
            }
            rdma::post::SendOp::SendInv(key) => {
                this.imm(key);
                SendOp::SendInv
            }
            rdma::post::SendOp::Write(remote) => {
                this.remote(remote);
                SendOp::Write
            }
            rdma::post::SendOp::WriteImm(remote, imm) => {
                this.remote(remote);
                this.imm(imm);
                SendOp::WriteImm
            }
            rdma::post::SendOp::Read(remote) => {
                this.remote(remote);
                SendOp::Read
            }
            rdma::post::SendOp::CmpSwap(remote, operands) => {
                this.remote(remote);
                this.operands(operands);
                SendOp::CmpSwap
            }
            rdma::post::SendOp::FetchAdd(remote, operands) => {
                this.remote(remote);
                this.operands(operands);
                SendOp::FetchAdd
            }
            rdma::post::SendOp::LocalInv(key) => {
                this.imm(key);
                SendOp::LocalInv
            }
            rdma::post::SendOp::RegMr(registration) => {
                this.imm(registration.key);
                this.remote(rdma::post::Remote {
                    addr: registration.iova,
                    rkey: 0,
                });
                this.put(52, &registration.access_flags.to_ne_bytes());
                SendOp::RegMr
            }
        };
        this.put(8, &[op.to_abi()]);
        Ok(this)
    }

    fn put(&mut self, off: usize, bytes: &[u8]) {
        put(&mut self.0, off, bytes);
    }

    fn num_sge(&mut self, n: u16) {
        self.put(10, &n.to_ne_bytes());
    }

    fn inline_len(&mut self, len: u32) {
        self.put(12, &len.to_ne_bytes());
    }

    fn q_key(&mut self, key: u32) {
        self.put(20, &key.to_ne_bytes());
    }

    fn remote_qpn(&mut self, qpn: u32) {
        self.put(60, &qpn.to_ne_bytes());
    }

    fn imm(&mut self, imm: u32) {
        self.put(16, &imm.to_ne_bytes());
    }

    fn remote(&mut self, remote: rdma::post::Remote) {
        self.put(20, &remote.rkey.to_ne_bytes());
        self.put(24, &remote.addr.to_ne_bytes());
    }

    fn operands(&mut self, operands: rdma::post::Atomic) {
        self.put(32, &operands.compare_add.to_ne_bytes());
        self.put(40, &operands.swap.to_ne_bytes());
    }
}
