// SPDX-License-Identifier: GPL-2.0

//! Refusals on their way to the requester.

use crate::packet::{DataFields, NakCode, Opcode, Qpn, TxDesc};
use crate::psn::Msn;

/// A refusal, ready to be sent as a reliable packet of the reverse direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nak {
    /// Why.
    pub code: NakCode,
    /// RNR timer code, 5 bits; 0 unless `code` is [`NakCode::Rnr`].
    pub timer: u8,
    /// The refused message.
    pub msn: Msn,
    /// Highest epoch that the refusal covers.
    pub epoch: u16,
    /// The QP refused for, as the requester addressed it.
    pub qpn: Qpn,
    /// The requester's QP.
    pub peer_qpn: Qpn,
}

impl Nak {
    /// The answer to a request for a QP that does not exist, is not connected to the sender, or
    /// cannot receive. A QP that has a connected [`super::RecvStream`] asks that one instead.
    pub fn not_ready(f: &DataFields) -> Self {
        Nak {
            code: NakCode::NotReady,
            timer: 0,
            msn: f.msn,
            epoch: f.epoch,
            qpn: f.dst_qpn,
            peer_qpn: f.src_qpn,
        }
    }

    /// The descriptor that a path keeps of this NAK.
    pub fn to_desc(&self) -> TxDesc {
        TxDesc {
            opcode: Opcode::Nak,
            epoch: self.epoch,
            qpn: self.qpn,
            peer_qpn: self.peer_qpn,
            msn: self.msn,
            // CAST: the discriminants are the wire code points.
            offset: u32::from(self.code as u8),
            len: u32::from(self.timer),
            ..TxDesc::default()
        }
    }

    /// The NAK that `desc` describes; `None` if it describes none.
    pub fn from_desc(desc: &TxDesc) -> Option<Self> {
        let f = Self::fields(desc)?;
        Some(Nak {
            code: f.code,
            timer: f.rnr_timer,
            msn: f.msn,
            epoch: f.epoch,
            qpn: f.src_qpn,
            peer_qpn: f.dst_qpn,
        })
    }

    /// The header fields of the NAK that `desc` describes; `None` if it is no NAK. Needs no QP, so
    /// that a NAK can be sent again after the QP is gone.
    pub fn fields(desc: &TxDesc) -> Option<DataFields> {
        if desc.opcode != Opcode::Nak {
            return None;
        }
        Some(DataFields {
            opcode: Opcode::Nak,
            dst_qpn: desc.peer_qpn,
            src_qpn: desc.qpn,
            msn: desc.msn,
            epoch: desc.epoch,
            code: NakCode::from_code(u8::try_from(desc.offset).ok()?)?,
            rnr_timer: u8::try_from(desc.len).ok()?,
            ..DataFields::default()
        })
    }
}
