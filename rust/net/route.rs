// SPDX-License-Identifier: GPL-2.0

//! Cached routes.
//!
//! C header: [`include/net/dst.h`](srctree/include/net/dst.h)

use super::{
    addr::{
        self,
        Address, //
    },
    netdev::{
        NetDevice,
        Vlan, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// Between which addresses and ports packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The source address.
    pub src: Address,
    /// The destination address, of the same family.
    pub dst: Address,
    /// The source port. It decides which of several equal routes is taken.
    pub sport: u16,
    /// The destination port.
    pub dport: u16,
    /// The byte of the IP header that says traffic class and ECN. The route depends only on the
    /// class.
    pub tos: u8,
    /// By which VLAN on the device packets leave.
    pub vlan: Option<Vlan>,
}

/// How to reach a destination.
///
/// # Invariants
///
/// `dst` is a destination of the family of `flow`, with a reference that this owns.
pub struct Route {
    dst: NonNull<bindings::dst_entry>,
    cookie: u32,
    flow: Flow,
}

// SAFETY: What it owns is one of an atomic count of references, and `dst_release()` may be called
// anywhere.
unsafe impl Send for Route {}

// SAFETY: All packets of a host share its destinations, whichever CPU they are sent from; the methods
// only read, and `xmit` gives the stack a packet of its own.
unsafe impl Sync for Route {}

impl Route {
    /// Looks up how `flow` leaves by `dev`. Process or softirq context.
    ///
    /// An address of the same namespace is reached by the loopback device.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` if the addresses are of two families, `ENODEV` if the device is going away,
    /// or there is no such VLAN on it,
    /// otherwise what routing says (`ENETUNREACH`, `EHOSTUNREACH` …).
    pub fn lookup(dev: &NetDevice, flow: Flow) -> Result<Self> {
        let Flow {
            src,
            dst,
            sport,
            dport,
            tos,
            vlan,
        } = flow;
        let tag = vlan.map_or(0, |vlan| vlan.0);
        let mut cookie = 0;
        let dst = match (addr::to_ipv4(&src), addr::to_ipv4(&dst)) {
            // SAFETY: `dev` is a live device.
            (Some(src), Some(dst)) => unsafe {
                bindings::metaroce_route4(
                    dev.as_raw(),
                    tag,
                    u32::from_ne_bytes(src),
                    u32::from_ne_bytes(dst),
                    sport.to_be(),
                    dport.to_be(),
                    tos,
                )
            },
            // SAFETY: `dev` is a live device, the addresses are valid for reads, and `cookie` for
            // writes.
            (None, None) => unsafe {
                bindings::metaroce_route6(
                    dev.as_raw(),
                    tag,
                    &addr::to_in6(&src),
                    &addr::to_in6(&dst),
                    sport.to_be(),
                    dport.to_be(),
                    tos,
                    &raw mut cookie,
                )
            },
            _ => return Err(EAFNOSUPPORT),
        };
        // INVARIANT: The lookup returned a reference.
        Ok(Self {
            dst: NonNull::new(from_err_ptr(dst)?).ok_or(EHOSTUNREACH)?,
            cookie,
            flow,
        })
    }

    /// Returns whether the route still holds. If not, it has to be looked up again.
    #[inline]
    pub fn is_valid(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_dst_valid(self.dst.as_ptr(), self.cookie) }
    }

    /// Returns whether the destination is in the same namespace.
    pub fn is_local(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_dst_is_local(self.dst.as_ptr()) }
    }

    /// Returns the MTU of the path, counting the IP header.
    pub fn mtu(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_dst_mtu(self.dst.as_ptr()) }
    }

    /// Returns for what it was looked up.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Sends a packet that consists of the UDP payload. The caller has bottom halves disabled.
    ///
    /// # Safety
    ///
    /// `skb` must be a packet with room for all headers that the caller owns; it is consumed.
    pub(super) unsafe fn xmit(&self, skb: NonNull<bindings::sk_buff>, tos: u8, ttl: u8) {
        let Flow {
            src,
            dst,
            sport,
            dport,
            ..
        } = &self.flow;
        let (sport, dport) = (sport.to_be(), dport.to_be());
        match (addr::to_ipv4(src), addr::to_ipv4(dst)) {
            // SAFETY: By the type invariant and the requirements of this function.
            (Some(src), Some(dst)) => unsafe {
                bindings::metaroce_xmit4(
                    self.dst.as_ptr(),
                    skb.as_ptr(),
                    u32::from_ne_bytes(src),
                    u32::from_ne_bytes(dst),
                    tos,
                    ttl,
                    sport,
                    dport,
                )
            },
            // SAFETY: As above; the addresses are valid for reads.
            _ => unsafe {
                bindings::metaroce_xmit6(
                    self.dst.as_ptr(),
                    skb.as_ptr(),
                    &addr::to_in6(src),
                    &addr::to_in6(dst),
                    tos,
                    ttl,
                    sport,
                    dport,
                )
            },
        }
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::dst_release(self.dst.as_ptr()) };
    }
}
