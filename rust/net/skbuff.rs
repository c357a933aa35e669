// SPDX-License-Identifier: GPL-2.0

//! Received packets.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use super::{
    addr::{
        self,
        Address, //
    },
    page::{
        self,
        PageRef, //
    },
};
use crate::rdma::umem::Umem;
use core::{
    cell::Cell,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// A packet that a UDP socket received: one datagram, or several of the same flow that travelled
/// as one (GRO, or GSO on a device that hands these over).
///
/// Offsets count from the first byte of the UDP payload, which for several datagrams is that of
/// all of them, one after the other.
///
/// # Invariants
///
/// - `skb` is a packet out of the receive queue of a UDP socket, or a clone of one, that this owns:
///   its data begin behind the UDP header, and its IP and UDP header are in the linear part before
///   these.
/// - `last` is a part of it.
pub struct RxSkb {
    skb: NonNull<bindings::sk_buff>,
    /// The part that was found last. Who looks for a place begins there, so that reading a long
    /// packet from its beginning to its end takes linear time.
    last: Cell<Part>,
}

/// A part of a packet: its own memory, or an element of its list of fragments.
///
/// A packet without such a list is one part.
#[derive(Clone, Copy)]
struct Part {
    skb: NonNull<bindings::sk_buff>,
    start: usize,
    end: usize,
    /// This is not an element of the list.
    is_head: bool,
}

// SAFETY: This alone owns the packet, which belongs to no thread: it was received on whatever CPU it came
// to, and `kfree_skb()` may be called anywhere.
unsafe impl Send for RxSkb {}

/// Where a packet comes from, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The source address.
    pub src: Address,
    /// The destination address.
    pub dst: Address,
    /// The source port.
    pub sport: u16,
    /// The destination port.
    pub dport: u16,
    /// The interface by which it came; that of the loopback device for a local packet.
    pub ifindex: u32,
    /// The byte of the IP header that says traffic class and ECN.
    pub tos: u8,
    /// How many more hops the packet could have taken.
    pub hop_limit: u8,
    /// Whether the packet was never on a link: it comes from this host over devices that hand
    /// memory on, so that its checksum was never computed. TCP and SCTP trust such packets for the
    /// same reason; whatever changes one on purpose (netem, say) computes the checksum first.
    pub is_local: bool,
}

impl Meta {
    /// Returns whether the network marked the packet: congestion experienced.
    pub fn is_ce(&self) -> bool {
        self.tos & ECN_MASK == ECN_CE
    }
}

const ECN_MASK: u8 = 3;
const ECN_CE: u8 = 3;

impl RxSkb {
    /// Takes over a packet.
    ///
    /// # Safety
    ///
    /// As the type invariants say.
    pub unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        // SAFETY: By the requirements of this function.
        let end = unsafe { bindings::metaroce_skb_pagelen(skb.as_ptr()) };
        // INVARIANT: By the requirements of this function; every packet begins by its own memory.
        Self {
            skb,
            last: Cell::new(Part {
                skb,
                start: 0,
                // CAST: `usize` is no narrower; so for all below.
                end: end as usize,
                is_head: true,
            }),
        }
    }

    /// Makes a clone of a packet of somebody else's. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `skb` must be valid, and as the type invariants say but for its owner.
    pub unsafe fn clone_of(skb: NonNull<bindings::sk_buff>) -> Result<Self> {
        // SAFETY: By the requirements of this function.
        let clone = unsafe { bindings::metaroce_skb_clone(skb.as_ptr()) };
        let clone = NonNull::new(clone).ok_or(ENOMEM)?;
        // SAFETY: The clone has the headers and the data of the packet, and is the caller's.
        Ok(unsafe { Self::from_raw(clone) })
    }

    /// Returns the part that `len` bytes at `off` lie in, and where in it. If they lie in several,
    /// then the whole packet and `off`.
    fn part(&self, off: usize, len: usize) -> (NonNull<bindings::sk_buff>, usize) {
        let whole = (self.skb, off);
        let mut part = self.last.get();
        if off < part.start {
            part = Part {
                skb: self.skb,
                start: 0,
                // SAFETY: By the type invariant.
                end: unsafe { bindings::metaroce_skb_pagelen(self.skb.as_ptr()) as usize },
                is_head: true,
            };
        }
        while off >= part.end {
            // SAFETY: By the type invariant this is the packet or an element of its list, and
            // that list does not change.
            let next = unsafe {
                if part.is_head {
                    bindings::metaroce_skb_frag_list(part.skb.as_ptr())
                } else {
                    bindings::metaroce_skb_next(part.skb.as_ptr())
                }
            };
            let Some(skb) = NonNull::new(next) else {
                return whole;
            };
            part = Part {
                skb,
                start: part.end,
                // SAFETY: As above.
                end: part.end + unsafe { (*skb.as_ptr()).len as usize },
                is_head: false,
            };
        }
        // INVARIANT: The packet itself or an element of its list, and where it begins and ends.
        self.last.set(part);
        if off + len <= part.end {
            (part.skb, off - part.start)
        } else {
            whole
        }
    }

    /// Returns the C structure, for drivers in C; it stays this object's.
    pub fn as_raw(&self) -> NonNull<bindings::sk_buff> {
        self.skb
    }

    /// Returns the length of the payload, of all datagrams together.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariant.
        let len = unsafe { (*self.skb.as_ptr()).len };
        // CAST: `usize` is no narrower.
        len as usize
    }

    /// Returns whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the offset and the length of each datagram's payload.
    pub fn segments(&self) -> Segments {
        // SAFETY: By the type invariant.
        let size = unsafe { bindings::metaroce_skb_udp_gso_size(self.skb.as_ptr()) };
        let end = self.len();
        Segments {
            at: 0,
            end,
            // CAST: `usize` is no narrower.
            size: if size == 0 { end } else { size as usize },
        }
    }

    /// Returns whether the UDP checksum is right. Looks at the data only if nobody has vouched
    /// for it.
    pub(super) fn checksum_ok(&mut self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_udp_checksum_ok(self.skb.as_ptr()) }
    }

    /// Returns where the packet comes from. The same for all datagrams.
    pub fn meta(&self) -> Meta {
        // SAFETY: By the type invariant the headers are there, and they do not change: the UDP
        // header of 8 bytes, and that of IP, which begins by its version.
        let (udp, ip, version) = unsafe {
            let ip = bindings::metaroce_skb_network_header(self.skb.as_ptr());
            (
                bindings::metaroce_skb_transport_header(self.skb.as_ptr())
                    .cast::<[u8; 8]>()
                    .read(),
                ip,
                *ip >> 4,
            )
        };
        let (src, dst, tos, hop_limit) = if version == 4 {
            // SAFETY: As above; an IPv4 header has 20 bytes at least.
            let ip = unsafe { ip.cast::<[u8; 20]>().read() };
            let [_, tos, _, _, _, _, _, _, ttl, _, _, _, addresses @ ..] = ip;
            let [a, b, c, d, dst @ ..] = addresses;
            (
                addr::from_ipv4([a, b, c, d]),
                addr::from_ipv4(dst),
                tos,
                ttl,
            )
        } else {
            // SAFETY: As above; an IPv6 header has 40 bytes.
            let (word, src, dst) = unsafe {
                (
                    ip.cast::<[u8; 8]>().read(),
                    ip.add(8).cast::<Address>().read(),
                    ip.add(24).cast::<Address>().read(),
                )
            };
            (src, dst, word[0] << 4 | word[1] >> 4, word[7])
        };
        Meta {
            src,
            dst,
            sport: u16::from_be_bytes([udp[0], udp[1]]),
            dport: u16::from_be_bytes([udp[2], udp[3]]),
            // SAFETY: By the type invariant.
            ifindex: unsafe { bindings::metaroce_skb_iif(self.skb.as_ptr()) },
            tos,
            hop_limit,
            // SAFETY: By the type invariant.
            is_local: unsafe { bindings::metaroce_skb_is_local(self.skb.as_ptr()) },
        }
    }

    /// Checks that `len` bytes at `off` are there.
    fn check(&self, off: usize, len: usize) -> Result {
        match off.checked_add(len) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(EFAULT),
        }
    }

    /// Copies `len` bytes at `off` to `to`.
    ///
    /// # Safety
    ///
    /// `to` must be valid for writes of `len` bytes; others may change these at the same time.
    unsafe fn copy_raw(&self, off: usize, to: *mut u8, len: usize) -> Result {
        self.check(off, len)?;
        let (skb, off) = self.part(off, len);
        // CAST: No packet is longer than 2 GiB; so for all below.
        //
        // SAFETY: By the type invariant and the requirements of this function.
        to_result(unsafe {
            bindings::skb_copy_bits(skb.as_ptr(), off as c_int, to.cast(), len as c_int)
        })
    }

    /// Copies `to.len()` bytes at `off`.
    ///
    /// # Errors
    ///
    /// `EFAULT` if they are not all there.
    #[inline]
    pub fn copy(&self, off: usize, to: &mut [u8]) -> Result {
        // SAFETY: The pointer and the length are those of a slice.
        unsafe { self.copy_raw(off, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `len` bytes at `off` to `page_off` in a page.
    ///
    /// # Errors
    ///
    /// `EFAULT` if they are not all there, or do not fit.
    pub fn copy_to_page(&self, off: usize, to: PageRef<'_>, page_off: usize, len: usize) -> Result {
        if !page::in_page(page_off, len) {
            return Err(EFAULT);
        }
        // SAFETY: The bytes are inside of the page, which stays for the lifetime of `to`.
        unsafe { self.copy_raw(off, to.address()?.as_ptr().wrapping_add(page_off), len) }
    }

    /// Copies `len` bytes at `off` to `at` in pinned memory.
    ///
    /// # Errors
    ///
    /// `EFAULT` if they are not all there, or do not fit.
    pub fn copy_to_umem(&self, off: usize, to: &Umem, at: usize, len: usize) -> Result {
        self.check(off, len)?;
        let mut off = off;
        to.with_pieces(at, len, |to, n| {
            // SAFETY: `to` is valid for that many bytes, says `with_pieces`.
            unsafe { self.copy_raw(off, to.as_ptr(), n)? };
            off += n;
            Ok(())
        })
    }

    /// Returns what the CRC32C `crc` becomes when `len` bytes at `off` follow; see
    /// [`crc32c`](super::crc::crc32c).
    ///
    /// # Errors
    ///
    /// `EFAULT` if they are not all there.
    pub fn crc32c(&self, off: usize, len: usize, crc: u32) -> Result<u32> {
        self.check(off, len)?;
        let (skb, off) = self.part(off, len);
        // CAST: Both are less than the length of a buffer.
        let (off, len) = (off as u32, len as u32);
        // SAFETY: By the type invariant; the range is inside.
        Ok(unsafe { bindings::metaroce_skb_crc32c(skb.as_ptr(), off, len, crc) })
    }
}

impl Drop for RxSkb {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this owns the packet.
        unsafe { bindings::consume_skb(self.skb.as_ptr()) };
    }
}

/// The datagrams of a packet, as offset and length of their payload.
pub struct Segments {
    at: usize,
    end: usize,
    size: usize,
}

impl Iterator for Segments {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let len = self.size.min(self.end - self.at);
        if len == 0 {
            return None;
        }
        let segment = (self.at, len);
        self.at += len;
        Some(segment)
    }
}
