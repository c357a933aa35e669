// SPDX-License-Identifier: GPL-2.0

//! What stands in front of a received datagram: 40 bytes, as RoCE v2 has them.

use crate::net::skbuff::Meta;
use proto::wire::{
    DatagramHeader,
    DATAGRAM_LEN, //
};

/// Bytes that a receive has in front of the message.
pub(super) const GRH_LEN: usize = 40;

/// Where in them an IPv4 header begins.
const IPV4_AT: usize = 20;

const UDP: u8 = 17;
const UDP_HEADER: u16 = 8;

/// `RDMA_NETWORK_IPV4` and `RDMA_NETWORK_IPV6` of `enum rdma_network_type`.
const NETWORK_IPV4: u32 = 2;
const NETWORK_IPV6: u32 = 3;

/// What a receiver is told of the network header.
pub(super) struct Grh {
    pub(super) bytes: [u8; GRH_LEN],
    /// Of the values of `enum rdma_network_type`.
    pub(super) network_hdr_type: u32,
}

impl Grh {
    /// Makes the network header that a datagram of `len` bytes of message has come with: over IPv4
    /// it is in the last 20 bytes. Its addresses are the GIDs; what the packet itself had were
    /// those of the planes that it took.
    pub(super) fn new(header: &DatagramHeader, meta: &Meta, len: u16) -> Self {
        // CAST: A small constant.
        let udp_len = UDP_HEADER + DATAGRAM_LEN as u16 + len;
        let mut bytes = [0; GRH_LEN];
        let network_hdr_type = match (v4(&header.src_gid.0), v4(&header.dst_gid.0)) {
            (Some(src), Some(dst)) => {
                let ip = ipv4(meta, udp_len, src, dst);
                let (_, to) = bytes.split_at_mut(IPV4_AT);
                to.copy_from_slice(&ip);
                NETWORK_IPV4
            }
            _ => {
                bytes = ipv6(header, meta, udp_len);
                NETWORK_IPV6
            }
        };
        Self {
            bytes,
            network_hdr_type,
        }
    }
}

fn v4(gid: &[u8; 16]) -> Option<[u8; 4]> {
    crate::net::addr::to_ipv4(gid)
}

/// An IPv4 header (RFC 791) without options, with its checksum.
fn ipv4(meta: &Meta, udp_len: u16, src: [u8; 4], dst: [u8; 4]) -> [u8; 20] {
    const DONT_FRAGMENT: u8 = 0x40;

    let [len_hi, len_lo] = (20 + udp_len).to_be_bytes();
    let [s0, s1, s2, s3] = src;
    let [d0, d1, d2, d3] = dst;
    let ttl = meta.hop_limit;
    let mut ip = [
        0x45,
        meta.tos,
        len_hi,
        len_lo,
        0,
        0,
        DONT_FRAGMENT,
        0,
        ttl,
        UDP,
        0,
        0,
        s0,
        s1,
        s2,
        s3,
        d0,
        d1,
        d2,
        d3,
    ];
    let sum: u32 = ip
        .chunks_exact(2)
        .map(|pair| match pair {
            [hi, lo] => u32::from(u16::from_be_bytes([*hi, *lo])),
            _ => 0,
        })
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    // CAST: Folded to 16 bits, the carry of the first time included.
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    let [hi, lo] = sum.to_be_bytes();
    ip[10] = hi;
    ip[11] = lo;
    ip
}

/// An IPv6 header (RFC 8200).
fn ipv6(header: &DatagramHeader, meta: &Meta, udp_len: u16) -> [u8; GRH_LEN] {
    let mut ip = [0; GRH_LEN];
    let (word, rest) = ip.split_at_mut(8);
    let (src, dst) = rest.split_at_mut(16);
    let [len_hi, len_lo] = udp_len.to_be_bytes();
    word.copy_from_slice(&[
        6 << 4 | meta.tos >> 4,
        meta.tos << 4,
        0,
        0,
        len_hi,
        len_lo,
        UDP,
        meta.hop_limit,
    ]);
    src.copy_from_slice(&header.src_gid.0);
    dst.copy_from_slice(&header.dst_gid.0);
    ip
}
