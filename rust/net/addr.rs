// SPDX-License-Identifier: GPL-2.0

//! IP addresses as 16 bytes, IPv4 mapped into IPv6: the form in which RDMA names ports.

use kernel::macros::kunit_tests;

/// An IP address: IPv6, or IPv4 as `::ffff:a.b.c.d`.
pub type Address = [u8; 16];

/// What IPv4 addresses are mapped with.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Maps an IPv4 address.
pub fn from_ipv4(ip: [u8; 4]) -> Address {
    let mut address = [0; 16];
    address[..12].copy_from_slice(&MAPPED);
    address[12..].copy_from_slice(&ip);
    address
}

/// Returns the IPv4 address that `address` is, if it is one.
pub fn to_ipv4(address: &Address) -> Option<[u8; 4]> {
    address.strip_prefix(&MAPPED)?.try_into().ok()
}

/// Returns whether this is an IPv6 address of the link (`fe80::/10`).
pub fn is_link_local(address: &Address) -> bool {
    address[0] == 0xfe && address[1] & 0xc0 == 0x80
}

/// Converts to C.
pub(super) fn to_in6(address: &Address) -> bindings::in6_addr {
    bindings::in6_addr {
        in6_u: bindings::in6_addr__bindgen_ty_1 { u6_addr8: *address },
    }
}

/// Converts from C.
pub(super) fn from_in6(address: &bindings::in6_addr) -> Address {
    // SAFETY: Every member of the union is 16 bytes without padding.
    unsafe { address.in6_u.u6_addr8 }
}

#[kunit_tests(metaroce_addr)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_there_and_back() {
        let address = from_ipv4([192, 0, 2, 1]);
        assert_eq!(to_ipv4(&address), Some([192, 0, 2, 1]));
        assert_eq!(from_in6(&to_in6(&address)), address);
    }

    #[test]
    fn ipv6_is_not_ipv4() {
        let mut address = [0; 16];
        assert_eq!(to_ipv4(&address), None);
        address[0] = 0xfe;
        address[1] = 0xbf;
        assert!(is_link_local(&address));
        address[1] = 0xc0;
        assert!(!is_link_local(&address));
    }
}
