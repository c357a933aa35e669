// SPDX-License-Identifier: GPL-2.0

//! Management datagrams that the device itself answers: those of the performance class, which is
//! where sysfs (`ports/1/counters`) and `perfquery` have the counters of a port from.
//!
//! C headers: [`include/rdma/ib_mad.h`](srctree/include/rdma/ib_mad.h),
//! [`include/rdma/ib_pma.h`](srctree/include/rdma/ib_pma.h)

use super::{
    super::device::{
        Device,
        PORT, //
    },
    Operations,
    VTable, //
};
use core::{
    mem::size_of,
    ptr, //
};
use kernel::ffi::c_int;

/// The standard counters of a port (IBTA 1.6, 16.1.3.5 and 16.1.4.11). What does not fit a field of
/// the message stays at its largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Octets sent, of all packets.
    pub xmit_octets: u64,
    /// Octets received.
    pub rcv_octets: u64,
    /// Packets sent.
    pub xmit_packets: u64,
    /// Packets received.
    pub rcv_packets: u64,
    /// Times that the port went down.
    pub link_downed: u64,
    /// Packets received that had an error in them.
    pub rcv_errors: u64,
    /// Packets that could not be sent.
    pub xmit_discards: u64,
    /// Packets that came when there was no room for them.
    pub buffer_overruns: u64,
}

impl PortCounters {
    /// Data are counted in units of four octets.
    fn words(octets: u64) -> u64 {
        octets / 4
    }

    fn message(&self) -> bindings::ib_pma_portcounters {
        let small = |n: u64| u8::try_from(n).unwrap_or(u8::MAX);
        let short = |n: u64| u16::try_from(n).unwrap_or(u16::MAX).to_be();
        let long = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).to_be();
        bindings::ib_pma_portcounters {
            // CAST: A small constant.
            port_select: PORT as u8,
            link_downed_counter: small(self.link_downed),
            port_rcv_errors: short(self.rcv_errors),
            port_xmit_discards: short(self.xmit_discards),
            // The other half is of errors that only hardware has.
            link_overrun_errors: small(self.buffer_overruns).min(0xf),
            port_xmit_data: long(Self::words(self.xmit_octets)),
            port_rcv_data: long(Self::words(self.rcv_octets)),
            port_xmit_packets: long(self.xmit_packets),
            port_rcv_packets: long(self.rcv_packets),
            ..pin_init::zeroed()
        }
    }

    fn extended_message(&self) -> bindings::ib_pma_portcounters_ext {
        bindings::ib_pma_portcounters_ext {
            // CAST: A small constant.
            port_select: PORT as u8,
            port_xmit_data: Self::words(self.xmit_octets).to_be(),
            port_rcv_data: Self::words(self.rcv_octets).to_be(),
            port_xmit_packets: self.xmit_packets.to_be(),
            port_rcv_packets: self.rcv_packets.to_be(),
            ..pin_init::zeroed()
        }
    }
}

/// What the port can tell: the counters of 64 bits that do not tell unicast from multicast.
fn class_port_info() -> bindings::ib_class_port_info {
    bindings::ib_class_port_info {
        base_version: VERSION,
        class_version: VERSION,
        capability_mask: CAP_EXT_WIDTH_NOIETF.to_be(),
        ..pin_init::zeroed()
    }
}

const CAP_EXT_WIDTH_NOIETF: u16 = 1 << 10;

/// Of management datagrams, and of their performance class.
const VERSION: u8 = 1;

/// Where the attribute is in the data of a datagram of this class (IBTA 1.6, 16.1.1), and in it the
/// port that is asked for.
const ATTRIBUTE: usize = 40;
const PORT_SELECT: usize = ATTRIBUTE + 1;

/// All ports are asked for.
const ALL_PORTS: u8 = 0xff;

const CLASS_PORT_INFO: u16 = 0x01;
const PORT_COUNTERS: u16 = 0x12;
const PORT_COUNTERS_EXT: u16 = 0x1d;

/// What becomes of a datagram, of `enum ib_mad_result`.
// CAST: Small constants.
const NOT_OURS: c_int = bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS as c_int;
const ANSWERED: c_int = NOT_OURS | bindings::ib_mad_result_IB_MAD_RESULT_REPLY as c_int;

/// Puts an attribute into a datagram.
fn put<A>(mad: &mut bindings::ib_mad, attribute: A) {
    const { assert!(ATTRIBUTE + size_of::<A>() <= size_of::<[u8; MAD_DATA]>()) };
    let at = mad.data.as_mut_ptr().wrapping_add(ATTRIBUTE);
    // SAFETY: The attribute fits behind that place in the data, which this has for itself, and is
    // written without regard to its alignment.
    unsafe { ptr::write_unaligned(at.cast(), attribute) };
}

const MAD_DATA: usize = bindings::IB_MGMT_MAD_DATA as usize;

/// Answers a datagram of the performance class that asks for `attribute`; returns the status.
fn answer(
    counters: impl FnOnce() -> PortCounters,
    request: &bindings::ib_mad,
    reply: &mut bindings::ib_mad,
) -> u32 {
    let header = &request.mad_hdr;
    if (header.base_version, header.class_version) != (VERSION, VERSION) {
        return bindings::IB_MGMT_MAD_STATUS_BAD_VERSION;
    }
    if u32::from(header.method) != bindings::IB_MGMT_METHOD_GET {
        return bindings::IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
    }
    let attribute = u16::from_be(header.attr_id);
    let port = request.data.get(PORT_SELECT).copied().unwrap_or(0);
    let is_ours = u32::from(port) == PORT || port == ALL_PORTS;
    match attribute {
        CLASS_PORT_INFO => put(reply, class_port_info()),
        PORT_COUNTERS | PORT_COUNTERS_EXT if !is_ours => {
            return bindings::IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
        }
        PORT_COUNTERS => put(reply, counters().message()),
        PORT_COUNTERS_EXT => put(reply, counters().extended_message()),
        _ => return bindings::IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB,
    }
    bindings::IB_MGMT_MAD_STATUS_SUCCESS
}

/// Whether a datagram to `port` is one that is to be answered here: only who asks for something, or
/// wants it changed, gets an answer, in which it is told so too.
fn is_ours(header: &bindings::ib_mad_hdr, port: u32) -> bool {
    port == PORT
        && u32::from(header.mgmt_class) == bindings::IB_MGMT_CLASS_PERF_MGMT
        && matches!(
            u32::from(header.method),
            bindings::IB_MGMT_METHOD_GET | bindings::IB_MGMT_METHOD_SET
        )
}

/// Makes the answer to a datagram that is to have one.
fn reply_to(
    counters: impl FnOnce() -> PortCounters,
    request: &bindings::ib_mad,
) -> bindings::ib_mad {
    let mut reply = bindings::ib_mad {
        mad_hdr: request.mad_hdr,
        ..pin_init::zeroed()
    };
    let status = answer(counters, request, &mut reply);
    // CAST: Small constants. That method is the answer to whatever was asked (IBTA 1.6, 13.4.5).
    reply.mad_hdr.method = bindings::IB_MGMT_METHOD_GET_RESP as u8;
    reply.mad_hdr.status = (status as u16).to_be();
    reply
}

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T`, in process context; `request` is valid for
    /// reads, `reply` for reads and writes, and nobody else has the latter.
    pub(super) unsafe extern "C" fn process_mad(
        dev: *mut bindings::ib_device,
        _flags: c_int,
        port: u32,
        _wc: *const bindings::ib_wc,
        _grh: *const bindings::ib_grh,
        request: *const bindings::ib_mad,
        reply: *mut bindings::ib_mad,
        _reply_size: *mut usize,
        _reply_pkey_index: *mut u16,
    ) -> c_int {
        // SAFETY: By the requirements of this function.
        let (dev, request, reply) = unsafe { (Device::<T>::from_raw(dev), &*request, &mut *reply) };
        if !is_ours(&request.mad_hdr, port) {
            return NOT_OURS;
        }
        *reply = reply_to(|| T::port_counters(dev), request);
        ANSWERED
    }
}

#[kernel::macros::kunit_tests(metaroce_mad)]
mod tests {
    use super::*;

    fn request(method: u32, attribute: u16, port: u8) -> bindings::ib_mad {
        let mut mad = bindings::ib_mad {
            mad_hdr: bindings::ib_mad_hdr {
                base_version: VERSION,
                class_version: VERSION,
                mgmt_class: bindings::IB_MGMT_CLASS_PERF_MGMT as u8,
                method: method as u8,
                attr_id: attribute.to_be(),
                ..pin_init::zeroed()
            },
            ..pin_init::zeroed()
        };
        if let Some(select) = mad.data.get_mut(PORT_SELECT) {
            *select = port;
        }
        mad
    }

    /// The status of the answer, and the 16 bytes at `at` of the attribute.
    fn ask(mad: &bindings::ib_mad, at: usize) -> (u32, [u8; 16]) {
        let counters = PortCounters {
            xmit_octets: 0x1_0000_0000 * 4 + 3,
            rcv_octets: 20,
            rcv_errors: 0x1_0000,
            link_downed: 3,
            buffer_overruns: 99,
            ..PortCounters::default()
        };
        let reply = reply_to(|| counters, mad);
        let header = &reply.mad_hdr;
        assert_eq!(u32::from(header.method), bindings::IB_MGMT_METHOD_GET_RESP);
        assert_eq!(header.attr_id, mad.mad_hdr.attr_id);
        let status = u16::from_be(header.status).into();
        let mut bytes = [0; 16];
        let from = reply.data.iter().skip(ATTRIBUTE + at);
        bytes
            .iter_mut()
            .zip(from)
            .for_each(|(to, from)| *to = *from);
        (status, bytes)
    }

    #[test]
    fn counters_of_32_bits_stay_at_their_largest_value() {
        let get = request(bindings::IB_MGMT_METHOD_GET, PORT_COUNTERS, 1);
        let (status, bytes) = ask(&get, 24);
        assert_eq!(status, bindings::IB_MGMT_MAD_STATUS_SUCCESS);
        assert!(bytes.starts_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 5]));
        let (_, bytes) = ask(&get, 4);
        assert!(bytes.starts_with(&[0, 0, 0, 3, 0xff, 0xff]));
        let (_, bytes) = ask(&get, 19);
        assert!(bytes.starts_with(&[0x0f]));
    }

    #[test]
    fn counters_of_64_bits_are_whole() {
        let get = request(bindings::IB_MGMT_METHOD_GET, PORT_COUNTERS_EXT, ALL_PORTS);
        let (status, bytes) = ask(&get, 8);
        assert_eq!(status, bindings::IB_MGMT_MAD_STATUS_SUCCESS);
        assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    }

    #[test]
    fn what_there_is_not_is_refused() {
        let refused = |method, attribute, port| ask(&request(method, attribute, port), 0).0;
        let get = bindings::IB_MGMT_METHOD_GET;
        let set = bindings::IB_MGMT_METHOD_SET;
        let not_there = bindings::IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
        assert_eq!(refused(get, 0x10, 1), not_there);
        assert_eq!(refused(set, PORT_COUNTERS, 1), not_there);
        let invalid = bindings::IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
        assert_eq!(refused(get, PORT_COUNTERS, 2), invalid);
        assert_eq!(refused(get, PORT_COUNTERS_EXT, 0), invalid);
        let mut newer = request(get, PORT_COUNTERS, 1);
        newer.mad_hdr.class_version = 2;
        assert_eq!(ask(&newer, 0).0, bindings::IB_MGMT_MAD_STATUS_BAD_VERSION);
    }

    #[test]
    fn nobody_is_answered_who_has_not_asked() {
        let is_ours = |method, port| is_ours(&request(method, PORT_COUNTERS, 1).mad_hdr, port);
        for method in [bindings::IB_MGMT_METHOD_GET, bindings::IB_MGMT_METHOD_SET] {
            assert!(is_ours(method, PORT));
            assert!(!is_ours(method, PORT + 1));
        }
        for method in [
            bindings::IB_MGMT_METHOD_GET_RESP,
            bindings::IB_MGMT_METHOD_SEND,
            bindings::IB_MGMT_METHOD_TRAP,
            bindings::IB_MGMT_METHOD_TRAP_REPRESS,
        ] {
            assert!(!is_ours(method, PORT));
        }
        let mut other = request(bindings::IB_MGMT_METHOD_GET, PORT_COUNTERS, 1).mad_hdr;
        other.mgmt_class += 1;
        assert!(!super::is_ours(&other, PORT));
    }
}
