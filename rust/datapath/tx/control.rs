// SPDX-License-Identifier: GPL-2.0

//! Sending what connections tell each other: handshake, acknowledgements, probes.

use super::super::{
    conn::Conn,
    host::{
        ECT0,
        TTL, //
    },
    now,
};
use crate::net::{
    crc,
    route::Route,
    tx::TxBurst, //
};
use proto::wire::{
    self,
    crc as wire_crc,
    PacketFlags,
    MAX_HEADER_LEN, //
};

impl Conn {
    /// Sends the handshake, acknowledgements and probes.
    pub(super) fn send_control(&self) {
        let mut inner = self.inner.lock();
        let now = now();
        let mut buf = [0u8; MAX_HEADER_LEN];
        while let Some(tx) = inner.proto.poll_handshake(now) {
            let Some(n) = inner.proto.emit_handshake(&tx, &mut buf) else {
                continue;
            };
            let port = self.endpoint.host().port();
            if let Ok(route) = inner.look_up(self, tx.local_plane, tx.remote, port) {
                self.send_bytes(&route, &mut buf, n, true);
            }
        }
        let inner = &mut *inner;
        while let Some(ack) = inner.proto.poll_ack(now, &mut inner.blocks) {
            let with_crc = inner.proto.crc();
            let mut flags = flags_of(with_crc);
            if ack.local {
                flags = flags.with(PacketFlags::LOCAL);
            }
            let hint = inner.hint(&self.endpoint.shares);
            let n = inner.blocks.get(..ack.blocks).and_then(|blocks| {
                wire::emit_ack(inner.proto.peer_id(), flags, hint, blocks, &mut buf)
            });
            if let (Some(n), Ok(route)) = (n, inner.resolve(self, &ack.route)) {
                self.send_bytes(route, &mut buf, n, with_crc);
            }
        }
        while let Some(probe) = inner.proto.poll_probe(now) {
            let with_crc = inner.proto.crc();
            let n = probe
                .header
                .emit(inner.proto.peer_id(), flags_of(with_crc), &mut buf);
            if let (Some(n), Ok(route)) = (n, inner.resolve(self, &probe.route)) {
                self.send_bytes(route, &mut buf, n, with_crc);
            }
        }
    }

    /// Sends a datagram without payload: the first `n` bytes of `buf`.
    fn send_bytes(&self, route: &Route, buf: &mut [u8], n: usize, with_crc: bool) {
        let Some(bytes) = buf.get_mut(..n) else {
            return;
        };
        if with_crc {
            let sum = crc::crc32c(wire_crc::CRC_SEED, bytes);
            let _ = wire_crc::set_crc(bytes, wire_crc::finish(sum));
        }
        let counters = &self.endpoint.counters;
        let burst = TxBurst::new().and_then(|mut burst| {
            burst.push_header(bytes)?;
            burst.segment_end()?;
            Ok(burst)
        });
        match burst {
            Ok(burst) => {
                let _ = counters.xmit(burst, Ok(route), ECT0, TTL);
            }
            Err(_) => counters.not_sent(),
        }
    }
}

fn flags_of(with_crc: bool) -> PacketFlags {
    if with_crc {
        PacketFlags::CRC
    } else {
        PacketFlags::NONE
    }
}
