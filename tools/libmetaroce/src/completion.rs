// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The completion queue's ring.

use crate::abi::{Cqe, Plain};
use crate::bindings as c;
use crate::errno::Errno;
use crate::mapping::Mapping;
use ring::{Consumer, Geometry, Slot};

/// `RDMA_NETWORK_IPV4` and `RDMA_NETWORK_IPV6` of the kernel's `enum rdma_network_type`.
const NETWORK_IPV4: u32 = 2;
const NETWORK_IPV6: u32 = 3;

/// User space's side of a completion queue.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    ring: Mapping,
    consumer: Consumer,
    /// The completion that was taken last.
    current: Cqe,
    /// The kernel uses another ring, which this side could not map.
    lost: bool,
}

impl CompletionQueue {
    /// Makes the consumer of a new ring.
    pub(crate) fn new(ring: Mapping, geometry: Geometry) -> Self {
        Self {
            ring,
            consumer: Consumer::new(geometry),
            current: Cqe::default(),
            lost: false,
        }
    }

    /// Takes the next completion; its slot goes back to the kernel with
    /// [`publish`](Self::publish). `EIO` of a queue that is lost.
    pub(crate) fn take(&mut self) -> Result<Option<Cqe>, Errno> {
        if self.lost {
            return Err(Errno::EIO);
        }
        let Some(slot) = self.consumer.fetch(&self.ring)? else {
            return Ok(None);
        };
        let cqe = self.read(slot)?;
        self.consumer.retire(1)?;
        Ok(Some(cqe))
    }

    /// Takes the next completion, which [`current`](Self::current) shows from then on.
    pub(crate) fn take_current(&mut self) -> Result<Option<Cqe>, Errno> {
        let taken = self.take()?;
        if let Some(cqe) = taken {
            self.current = cqe;
        }
        Ok(taken)
    }

    /// Returns the completion that was taken last.
    pub(crate) fn current(&self) -> &Cqe {
        &self.current
    }

    /// Goes on in another ring, in whose first slots the kernel has put what was not taken.
    pub(crate) fn move_to(&mut self, ring: Mapping, geometry: Geometry) {
        self.consumer = Consumer::new(geometry);
        self.ring = ring;
    }

    /// The kernel has moved the queue to a ring that could not be mapped: nothing can be taken any
    /// more, and whoever tries is told so.
    pub(crate) fn lose(&mut self) {
        self.lost = true;
    }

    /// Gives the slots of the completions that were taken back to the kernel.
    pub(crate) fn publish(&self) -> Result<(), Errno> {
        Ok(self.consumer.publish(&self.ring)?)
    }

    /// Removes the completions of a queue pair that the kernel adds no more to.
    ///
    /// Those of other queue pairs close ranks towards the producer: that end stays where it is,
    /// as it is the kernel's, and so the gap arises at the consumer's.
    pub(crate) fn purge(&mut self, qp_num: u32) -> Result<(), Errno> {
        let mut removed = 0;
        if self.lost {
            // Nothing there will be seen.
            return Ok(());
        }
        for n in (0..self.consumer.available(&self.ring)?).rev() {
            let cqe = self.read(self.ahead(n)?)?;
            if cqe.qp_num == qp_num {
                removed += 1;
            } else if removed > 0 {
                self.ahead(n + removed)?
                    .write(&self.ring, 0, cqe.bytes())
                    .ok_or(Errno::EIO)?;
            }
        }
        for _ in 0..removed {
            self.consumer.fetch(&self.ring)?;
        }
        self.consumer.retire(removed)?;
        self.publish()
    }

    /// Returns the slot of the completion `n` after the next one.
    fn ahead(&self, n: u32) -> Result<Slot, Errno> {
        self.consumer.slot_ahead(n).ok_or(Errno::EIO)
    }

    fn read(&self, slot: Slot) -> Result<Cqe, Errno> {
        let mut bytes = [0; size_of::<Cqe>()];
        slot.read(&self.ring, 0, &mut bytes).ok_or(Errno::EIO)?;
        Cqe::from_bytes(&bytes).ok_or(Errno::EIO)
    }
}

/// Returns a completion as libibverbs has it.
pub(crate) fn work_completion(cqe: &Cqe) -> c::ibv_wc {
    c::ibv_wc {
        wr_id: cqe.wr_id,
        status: cqe.status,
        opcode: cqe.opcode,
        vendor_err: cqe.vendor_err,
        byte_len: cqe.byte_len,
        // The rkey of a remote invalidation shares the place; both are 32 bits as they came.
        __bindgen_anon_1: c::ibv_wc__bindgen_ty_1 {
            imm_data: cqe.imm_data,
        },
        qp_num: cqe.qp_num,
        src_qp: cqe.src_qp,
        wc_flags: wc_flags(cqe.wc_flags),
        sl: service_level(cqe),
        ..Default::default()
    }
}

/// Translates the kernel's flags, which differ from libibverbs' in one bit.
pub(crate) fn wc_flags(flags: u32) -> u32 {
    let map = [
        (c::METAROCE_WC_GRH, c::IBV_WC_GRH),
        (c::METAROCE_WC_WITH_IMM, c::IBV_WC_WITH_IMM),
        (c::METAROCE_WC_WITH_INV, c::IBV_WC_WITH_INV),
    ];
    map.iter()
        .filter(|(kernel, _)| flags & kernel != 0)
        .fold(0, |all, (_, verbs)| all | verbs)
}

/// Returns what stands for the service level of a received datagram, which RoCE has none of: the
/// type of the packet, as mlx5 reports it (its PRM, "CQE"), because UCX before 1.19 takes the
/// length of the addresses from there. Bit 3 is for RoCE over UDP; bits 0 to 2 are 1 for IPv6, 2
/// for IPv4. In an address handle it asks for no priority.
pub(crate) fn service_level(cqe: &Cqe) -> u8 {
    const OVER_UDP: u8 = 1 << 3;

    if cqe.wc_flags & c::METAROCE_WC_WITH_NETWORK_HDR_TYPE == 0 {
        return 0;
    }
    match cqe.network_hdr_type {
        NETWORK_IPV4 => OVER_UDP | 2,
        NETWORK_IPV6 => OVER_UDP | 1,
        _ => 0,
    }
}
