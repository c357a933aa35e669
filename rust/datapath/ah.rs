// SPDX-License-Identifier: GPL-2.0

//! Address handles: where datagrams go.

use super::bytes::{
    put,
    u32_at,
    u8_at, //
};
use crate::{
    rdma::qp::AddressVector,
    sync::id_table::IdTable, //
};
use kernel::{
    alloc::Flags,
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    },
};
use proto::wire::Gid;

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(super) src: Gid,
    pub(super) dst: Gid,
    /// Index of the network interface of the source GID; 0 if it is not known.
    pub(super) ifindex: u32,
    /// 20 bits, 0 if none was given.
    pub(super) flow_label: u32,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    /// Priority, 0 to 7.
    pub(super) priority: u8,
}

/// Returns the priority that a service level of RoCE stands for. There are eight; what is above comes
/// from a completion (see libmetaroce's `service_level()`) and says nothing of priorities.
fn priority(sl: u8) -> u8 {
    const PRIORITIES: u8 = 8;

    if sl < PRIORITIES {
        sl
    } else {
        0
    }
}

impl From<&AddressVector> for Destination {
    fn from(address: &AddressVector) -> Self {
        Self {
            src: Gid(address.sgid.gid.0),
            dst: Gid(address.dgid.0),
            ifindex: address.sgid.ifindex,
            flow_label: address.flow_label,
            hop_limit: address.hop_limit,
            traffic_class: address.traffic_class,
            priority: priority(address.sl),
        }
    }
}

impl Destination {
    /// Bytes of the encoded form.
    pub(crate) const SIZE: usize = 48;

    /// Encodes it for a work request of a user in the kernel, whose last bytes it is: a process
    /// names an address handle by number instead.
    pub(super) fn encode(&self) -> [u8; Self::SIZE] {
        let mut b = [0; Self::SIZE];
        put(&mut b, 0, &self.src.0);
        put(&mut b, 16, &self.dst.0);
        put(&mut b, 32, &self.ifindex.to_ne_bytes());
        put(&mut b, 36, &self.flow_label.to_ne_bytes());
        put(
            &mut b,
            40,
            &[self.hop_limit, self.traffic_class, self.priority],
        );
        b
    }

    /// Decodes the last bytes of a work request.
    pub(super) fn decode(b: &[u8]) -> Option<Self> {
        Some(Self {
            src: Gid(b.get(..16)?.try_into().ok()?),
            dst: Gid(b.get(16..32)?.try_into().ok()?),
            ifindex: u32_at(b, 32)?,
            flow_label: u32_at(b, 36)?,
            hop_limit: u8_at(b, 40)?,
            traffic_class: u8_at(b, 41)?,
            priority: u8_at(b, 42)?,
        })
    }

    /// The UDP source port by which the network tells flows apart: from the flow label, and if
    /// there is none from the two queue pairs, as RoCE has it (`rdma_get_udp_sport()`).
    pub(super) fn source_port(&self, src_qpn: u32, dst_qpn: u32) -> u16 {
        const FLOW_LABEL: u64 = 0xf_ffff;
        const FIRST_PORT: u32 = 0xc000;

        let label = match self.flow_label {
            0 => {
                let v = u64::from(src_qpn) * u64::from(dst_qpn);
                let v = v ^ v >> 20;
                // CAST: 20 bits.
                ((v ^ v >> 40) & FLOW_LABEL) as u32
            }
            label => label,
        };
        // CAST: 14 bits and the two highest.
        ((label & 0x3fff ^ (label & 0xf_c000) >> 14) | FIRST_PORT) as u16
    }
}

/// An address handle.
#[pin_data]
pub(crate) struct Ah {
    /// Number of the protection domain.
    pub(super) pd: u32,
    #[pin]
    to: SpinLockIrq<AddressVector>,
}

impl Ah {
    /// Makes an address handle. Any context, as `flags` says.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new(pd: u32, address: &AddressVector, flags: Flags) -> Result<Arc<Self>> {
        let to = *address;
        Arc::pin_init(
            pin_init!(Self {
                pd,
                to <- new_spinlock_irq!(to),
            }),
            flags,
        )
    }

    /// Changes where it leads. Any context.
    pub(crate) fn modify(&self, address: &AddressVector) {
        *self.to.lock() = *address;
    }

    /// Returns its address. Any context.
    pub(crate) fn address(&self) -> AddressVector {
        *self.to.lock()
    }

    /// Returns where datagrams go that name it. Any context.
    pub(crate) fn destination(&self) -> Destination {
        Destination::from(&*self.to.lock())
    }
}

/// The address handles of processes, by the numbers that their work requests use.
pub(crate) type AhTable = IdTable<Ah>;
