// SPDX-License-Identifier: GPL-2.0

//! GIDs: the addresses of ports.

use core::fmt;

/// A GID. Those of RoCE are IPv6 addresses, or IPv4 addresses mapped into IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Returns the IPv4 address that is mapped into this GID, if it is one.
    pub fn to_ipv4(self) -> Option<[u8; 4]> {
        const PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

        let address = self.0.strip_prefix(&PREFIX)?;
        address.try_into().ok()
    }
}

impl Gid {
    /// Returns whether this is the address of a multicast group.
    pub fn is_multicast(self) -> bool {
        const IPV6_MULTICAST: u8 = 0xff;

        match self.to_ipv4() {
            Some([first, ..]) => first & 0xf0 == 0xe0,
            None => self.0[0] == IPV6_MULTICAST,
        }
    }

    /// Returns whether this can be the address of a port.
    pub fn is_unicast(self) -> bool {
        match self.to_ipv4() {
            Some([first, ..]) => first != 0 && first < 224,
            None => self.0 != [0; 16] && !self.is_multicast(),
        }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pair) in self.0.chunks(2).enumerate() {
            if i != 0 {
                f.write_str(":")?;
            }
            for byte in pair {
                write!(f, "{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl From<&bindings::ib_gid> for Gid {
    fn from(gid: &bindings::ib_gid) -> Self {
        // SAFETY: Every member of the union is 16 bytes without padding.
        Self(unsafe { gid.raw })
    }
}

impl From<Gid> for bindings::ib_gid {
    fn from(gid: Gid) -> Self {
        Self { raw: gid.0 }
    }
}

/// An entry of a port's GID table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID.
    pub gid: Gid,
    /// Its index in the table.
    pub index: u16,
    /// Index of the network interface that the GID is an address of; zero if there is none now.
    pub ifindex: u32,
    /// Whether the GID means RoCE over UDP.
    pub udp_encap: bool,
}

impl GidEntry {
    /// Reads an entry.
    ///
    /// # Safety
    ///
    /// `attr` must point to a GID attribute that the caller has a reference to.
    pub(super) unsafe fn from_raw(attr: *const bindings::ib_gid_attr) -> Self {
        // SAFETY: By the requirements of this function; an entry does not change.
        let (gid, index, gid_type) =
            unsafe { (Gid::from(&(*attr).gid), (*attr).index, (*attr).gid_type) };
        // SAFETY: As above.
        let ifindex = unsafe { bindings::metaroce_gid_attr_ifindex(attr) };
        Self {
            gid,
            index,
            ifindex,
            udp_encap: gid_type == bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP,
        }
    }
}
