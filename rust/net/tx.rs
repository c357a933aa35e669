// SPDX-License-Identifier: GPL-2.0

//! Packets to send.
//!
//! C headers: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h),
//! [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h)

use super::{
    account::{
        Account,
        Room, //
    },
    crc::crc32c,
    page::{
        self,
        PageRef, //
    },
    route::Route,
};
use crate::{
    rdma::umem::{
        Fragment,
        Umem, //
    },
    sync::lock_bh::BhDisabled, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Room for the headers of Ethernet and what comes before it, IPv6, and UDP.
const HEADROOM: u32 = bindings::LL_MAX_HEADER + 48;

/// Room for bytes that need no page. Together with [`HEADROOM`] it just fits what the kernel keeps
/// ready for small packets (`SKB_SMALL_HEAD_SIZE`).
const LINEAR: u32 = 192;

/// How much memory is taken at once for bytes that do not fit there.
const BLOCK: usize = 1024;

/// Pieces of memory up to this length are copied if there is a CRC over them: that costs no more
/// than a page, and short ones are what others look at while it changes.
const SHORT: usize = 256;

/// Most bytes of a burst: what a UDP datagram over IPv4 can hold, since a burst travels as one
/// large datagram as far as possible.
pub const MAX_LEN: usize = 65_507;

/// Most segments of a burst; GRO makes no longer ones either.
pub const MAX_SEGMENTS: usize = 64;

/// Most pieces of memory of a burst.
// CAST: A small constant.
pub const MAX_PIECES: usize = bindings::MAX_SKB_FRAGS as usize;

/// One or several UDP datagrams of the same flow, which travel as one packet until something on
/// the way has to cut it (UDP GSO).
///
/// A segment begins with a header: [`push_header`], then its payload: [`push_bytes`],
/// [`push_page`], [`push_umem`], then [`segment_end`]. All segments are of the same length, but the
/// last one may be shorter. If an error is returned in between, then [`segment_abort`] takes the
/// begun segment back, and the burst can be sent without it.
///
/// Payload in pages is not copied: the pages are referenced until the packet is freed, and what
/// is sent is what they contain by then. If they change meanwhile, then a CRC of the payload is wrong;
/// that of a copy never is, see [`copy_pages`].
///
/// # Invariants
///
/// - `skb` is a packet that this owns, with [`HEADROOM`].
/// - If `block` is not null, then it is a fragment of [`BLOCK`] bytes with a reference that this
///   owns, the first `block_used` of which are in use.
/// - `header` points to the `header_len` bytes of the current segment's header, in memory of `skb`
///   that nobody else has seen.
///
/// [`copy_pages`]: TxBurst::copy_pages
/// [`push_header`]: TxBurst::push_header
/// [`push_bytes`]: TxBurst::push_bytes
/// [`push_page`]: TxBurst::push_page
/// [`push_umem`]: TxBurst::push_umem
/// [`segment_end`]: TxBurst::segment_end
/// [`segment_abort`]: TxBurst::segment_abort
pub struct TxBurst {
    skb: NonNull<bindings::sk_buff>,
    block: *mut u8,
    block_used: usize,
    header: *mut u8,
    header_len: usize,
    /// Length of the complete segments.
    complete: usize,
    segments: usize,
    /// Length of all segments but the last.
    segment_len: usize,
    /// The last segment is shorter, so there cannot be another one.
    closed: bool,
    /// Pages are copied.
    copies: bool,
}

// SAFETY: This alone owns the packet, which is memory that belongs to no thread. Charged to a socket it
// holds a counted reference to that.
unsafe impl Send for TxBurst {}

impl TxBurst {
    /// Makes an empty burst. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        // SAFETY: An FFI call with no additional requirements.
        let skb = unsafe { bindings::metaroce_skb_alloc_burst(HEADROOM, LINEAR) };
        // INVARIANT: The packet was just allocated; there is no block and no header.
        Ok(Self {
            skb: NonNull::new(skb).ok_or(ENOMEM)?,
            block: ptr::null_mut(),
            block_used: 0,
            header: ptr::null_mut(),
            header_len: 0,
            complete: 0,
            segments: 0,
            segment_len: 0,
            closed: false,
            copies: false,
        })
    }

    /// Has what comes from pages from now on copied, too: if it changes while it is under way again
    /// and again, as memory does that others work on, then it would never arrive with the right CRC.
    pub fn copy_pages(&mut self) {
        self.copies = true;
    }

    /// Returns the length of all segments, including that of the begun one.
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariant.
        let len = unsafe { (*self.skb.as_ptr()).len };
        // CAST: `usize` is no narrower.
        len as usize
    }

    /// Returns whether there is no complete segment.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// Returns the number of complete segments.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Returns whether a segment of `len` bytes fits, whose payload is in `pieces` pieces of
    /// memory.
    pub fn has_room(&self, len: usize, pieces: usize) -> bool {
        // SAFETY: By the type invariant.
        let used = unsafe { bindings::metaroce_skb_nr_frags(self.skb.as_ptr()) };
        let fits = self.segments == 0
            || (!self.closed && len <= self.segment_len && self.segments < MAX_SEGMENTS);
        // CAST: `usize` is no narrower. The header takes a piece, too.
        fits && self.len() + len <= MAX_LEN && used as usize + pieces < MAX_PIECES
    }

    /// Begins a segment by its header.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the burst is full, `ENOMEM`, `EINVAL` if a segment is begun already or the
    /// header is longer than [`BLOCK`].
    pub fn push_header(&mut self, header: &[u8]) -> Result {
        if self.len() != self.complete || header.len() > BLOCK {
            return Err(EINVAL);
        }
        if self.closed || self.segments >= MAX_SEGMENTS {
            return Err(EMSGSIZE);
        }
        // INVARIANT: These are the bytes of the header, and nothing was sent yet.
        self.header = self.push_piece(header)?;
        self.header_len = header.len();
        Ok(())
    }

    /// Changes bytes of the current segment's header: those at `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all part of the header.
    pub fn patch_header(&mut self, off: usize, bytes: &[u8]) -> Result {
        if off
            .checked_add(bytes.len())
            .is_none_or(|end| end > self.header_len)
        {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant the header is `header_len` bytes, which nobody else uses;
        // so `bytes` are other memory.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.header.add(off), bytes.len()) };
        Ok(())
    }

    /// Checks that `len` more bytes are allowed.
    fn check(&self, len: usize) -> Result {
        match self.len().checked_add(len) {
            Some(sum) if sum <= MAX_LEN => Ok(()),
            _ => Err(EMSGSIZE),
        }
    }

    /// Adds a copy of at most [`BLOCK`] bytes, and returns where it is.
    fn push_piece(&mut self, bytes: &[u8]) -> Result<*mut u8> {
        // SAFETY: The pointer and the length are those of a slice.
        unsafe { self.push_copy(bytes.as_ptr(), bytes.len()) }
    }

    /// As [`Self::push_piece`], of bytes that others may change at the same time.
    ///
    /// # Safety
    ///
    /// `from` must be valid for reads of `size` bytes, at most [`BLOCK`].
    unsafe fn push_copy(&mut self, from: *const u8, size: usize) -> Result<*mut u8> {
        self.check(size)?;
        let skb = self.skb.as_ptr();
        // CAST: At most `BLOCK`; so for all below.
        let len = size as u32;
        // SAFETY: By the type invariant.
        let linear = unsafe {
            bindings::metaroce_skb_nr_frags(skb) == 0 && bindings::metaroce_skb_tailroom(skb) >= len
        };
        if linear {
            // SAFETY: There is room for `len` bytes behind the data, which are all linear yet.
            return Ok(unsafe {
                let to = bindings::metaroce_skb_put(skb, len).cast::<u8>();
                bindings::metaroce_copy_shared(to.cast(), from.cast(), size);
                to
            });
        }

        if self.block.is_null() || BLOCK - self.block_used < size {
            // SAFETY: An FFI call with no additional requirements.
            let block = unsafe { bindings::metaroce_netdev_alloc_frag(BLOCK as u32) };
            if block.is_null() {
                return Err(ENOMEM);
            }
            self.put_block();
            // INVARIANT: The fragment was just allocated.
            self.block = block.cast();
            self.block_used = 0;
        }
        // SAFETY: By the type invariant and what was just checked, there are as many unused bytes.
        let to = unsafe { self.block.add(self.block_used) };
        // SAFETY: As above. The packet takes a reference of its own.
        unsafe {
            bindings::metaroce_copy_shared(to.cast(), from.cast(), size);
            to_result(bindings::metaroce_skb_add_bytes(skb, to.cast(), len))?;
        }
        self.block_used += size;
        Ok(to)
    }

    /// Drops the reference to the block.
    fn put_block(&mut self) {
        if !self.block.is_null() {
            // SAFETY: By the type invariant.
            unsafe { bindings::metaroce_skb_free_frag(self.block.cast()) };
            // INVARIANT: There is no block any more.
            self.block = ptr::null_mut();
        }
    }

    /// Adds a copy of `bytes` to the current segment.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the burst is full, `ENOMEM`.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result {
        bytes
            .chunks(BLOCK)
            .try_for_each(|piece| self.push_piece(piece).map(|_| ()))
    }

    /// Adds `len` bytes at `off` in a page.
    ///
    /// # Safety
    ///
    /// They must be in the page, and the page have a reference or a pin during the call.
    unsafe fn push_raw(&mut self, page: *mut bindings::page, off: usize, len: usize) -> Result {
        self.check(len)?;
        // CAST: Offsets in a page are small.
        //
        // SAFETY: By the type invariant and the requirements of this function; the packet takes a
        // reference of its own.
        to_result(unsafe {
            bindings::metaroce_skb_add_user_page(self.skb.as_ptr(), page, off as u32, len as u32)
        })
    }

    /// Adds `len` bytes at `off` in a page to the current segment, without a copy.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the burst is full, `EFAULT` if they are not all in the page.
    pub fn push_page(&mut self, page: PageRef<'_>, off: usize, len: usize) -> Result {
        if !page::in_page(off, len) {
            return Err(EFAULT);
        }
        // SAFETY: The bytes are in the page, and the page stays for the lifetime of `page`.
        unsafe { self.push_raw(page.as_ptr(), off, len) }
    }

    /// Adds `len` bytes at `at` in a region's memory to the current segment, without a copy
    /// where the page may be shared, and to the CRC32C `sum`, if there is one.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the burst is full, `EFAULT` if they are not all in the memory, `EAGAIN` if some
    /// of that is not there now, `ENOMEM`.
    pub fn push_umem(
        &mut self,
        umem: &Umem,
        at: usize,
        len: usize,
        sum: &mut Option<u32>,
    ) -> Result {
        self.push_fragments(umem, at, len, |this, fragment| {
            let copied = this.copies || sum.is_some() && fragment.len() <= SHORT;
            let Some((page, offset)) = fragment.page().filter(|_| !copied) else {
                return this.push_fragment_copy(fragment, sum);
            };
            if let Some(sum) = sum {
                let from = fragment.address().as_ptr().cast_const().cast();
                // SAFETY: The fragment is so long, and its memory stays during the call. C reads it
                // as the memory of user space that it is, whatever changes meanwhile.
                *sum = unsafe { bindings::crc32c(*sum, from, fragment.len()) };
            }
            // SAFETY: The fragment lies in the page, which stays as long as `umem` lives.
            unsafe { this.push_raw(page.as_ptr(), offset, fragment.len()) }
        })
    }

    /// Adds a copy of `len` bytes at `at` in a region's memory to the current segment, and to the
    /// CRC32C `sum`, if there is one: what is sent is what they are now.
    ///
    /// # Errors
    ///
    /// As for [`push_umem`](Self::push_umem).
    pub fn push_umem_copy(
        &mut self,
        umem: &Umem,
        at: usize,
        len: usize,
        sum: &mut Option<u32>,
    ) -> Result {
        self.push_fragments(umem, at, len, |this, fragment| {
            this.push_fragment_copy(fragment, sum)
        })
    }

    fn push_fragments(
        &mut self,
        umem: &Umem,
        at: usize,
        len: usize,
        mut push: impl FnMut(&mut Self, &Fragment) -> Result,
    ) -> Result {
        let mut done = 0;
        while done < len {
            let fragment = at
                .checked_add(done)
                .ok_or(EFAULT)
                .and_then(|at| umem.fragment(at, len - done))?;
            push(self, &fragment)?;
            done += fragment.len();
        }
        Ok(())
    }

    fn push_fragment_copy(&mut self, fragment: &Fragment, sum: &mut Option<u32>) -> Result {
        let mut done = 0;
        while done < fragment.len() {
            let n = (fragment.len() - done).min(BLOCK);
            // SAFETY: The fragment is so long, and its memory stays during the call.
            let copy = unsafe { self.push_copy(fragment.address().as_ptr().add(done), n)? };
            if let Some(sum) = sum {
                // SAFETY: The copy is `n` bytes, which are the packet's alone.
                *sum = crc32c(*sum, unsafe { core::slice::from_raw_parts(copy, n) });
            }
            done += n;
        }
        Ok(())
    }

    /// Puts the packet on an account, until it has left the host, or has arrived there. To be called
    /// when it is complete.
    pub fn charge<R: Room>(&mut self, account: &Account<R>) {
        // SAFETY: By the type invariant; the socket is live.
        unsafe { bindings::metaroce_skb_charge(self.skb.as_ptr(), account.sk()) };
    }

    /// Sets the priority by which the host's queues, and VLANs, tell packets apart.
    pub fn set_priority(&mut self, priority: u32) {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_skb_set_priority(self.skb.as_ptr(), priority) };
    }

    /// Completes the current segment.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is empty, `EMSGSIZE` if it is longer than the first one or not the first one
    /// after a shorter one. Then it is still begun.
    pub fn segment_end(&mut self) -> Result {
        let len = self.len() - self.complete;
        if len == 0 {
            return Err(EINVAL);
        }
        if self.segments == 0 {
            self.segment_len = len;
        } else if self.closed || len > self.segment_len {
            return Err(EMSGSIZE);
        }
        self.closed = len < self.segment_len;
        self.segments += 1;
        self.complete += len;
        self.forget_header();
        Ok(())
    }

    /// Takes the begun segment back.
    pub fn segment_abort(&mut self) {
        if self.len() != self.complete {
            // CAST: At most `MAX_LEN`.
            //
            // SAFETY: By the type invariant. Nobody else has the packet, so this cannot fail.
            unsafe { bindings::metaroce_skb_trim(self.skb.as_ptr(), self.complete as u32) };
        }
        self.forget_header();
    }

    fn forget_header(&mut self) {
        // INVARIANT: No byte is left that could be written.
        self.header = ptr::null_mut();
        self.header_len = 0;
    }

    /// Sends the complete segments by `route`, with the bits `ecn` in the IP header and the hop
    /// limit `ttl`. Softirq and process context.
    ///
    /// Whether they arrive is another question: if the device's queue is full, say, then they are
    /// silently dropped.
    ///
    /// # Errors
    ///
    /// `EHOSTUNREACH` if the route does not hold any more, `EINVAL` if there is no segment.
    pub fn xmit(mut self, route: &Route, ecn: u8, ttl: u8) -> Result {
        self.segment_abort();
        if self.segments == 0 {
            return Err(EINVAL);
        }
        if !route.is_valid() {
            return Err(EHOSTUNREACH);
        }
        if self.segments > 1 {
            // CAST: At most `MAX_LEN` and `MAX_SEGMENTS`.
            //
            // SAFETY: By the type invariant; there is headroom for the UDP header.
            unsafe {
                bindings::metaroce_skb_set_udp_gso(
                    self.skb.as_ptr(),
                    self.segment_len as u16,
                    self.segments as u16,
                )
            };
        }
        self.put_block();
        let skb = self.skb;
        core::mem::forget(self);
        let tos = route.flow().tos & !ECN_MASK | ecn & ECN_MASK;
        let _bh = BhDisabled::new();
        // SAFETY: The packet was owned by `self`, which is forgotten, and has the headroom.
        unsafe { route.xmit(skb, tos, ttl) };
        Ok(())
    }
}

const ECN_MASK: u8 = 3;

/// The ECN bits by which a sender says that it reacts to marks: ECT(0).
pub const ECN_ECT0: u8 = 2;

impl Drop for TxBurst {
    fn drop(&mut self) {
        self.put_block();
        // SAFETY: By the type invariant this owns the packet.
        unsafe { bindings::consume_skb(self.skb.as_ptr()) };
    }
}
