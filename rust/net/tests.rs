// SPDX-License-Identifier: GPL-2.0

//! What a host sends to itself arrives: bursts of [`tx`](super::tx) at the sockets of
//! [`udp`](super::udp).

use kernel::macros::kunit_tests;

#[kunit_tests(metaroce_udp)]
mod udp {
    use crate::net::{
        addr::{
            self,
            Address, //
        },
        crc::crc32c,
        namespace::Net,
        netdev::NetDevice,
        page::PageRef,
        route::{
            Flow,
            Route, //
        },
        skbuff::RxSkb,
        tx::{
            TxBurst,
            ECN_ECT0, //
        },
        udp::{
            Receive,
            UdpSockets, //
        },
    };
    use kernel::{
        page::{
            Page,
            PAGE_SIZE, //
        },
        prelude::*,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc,
        },
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    const PORT: u16 = 47951;
    const HEADER: usize = 60;
    const SEGMENTS: usize = 8;

    /// Counts what comes as it was sent.
    struct Counter {
        packets: Atomic<u32>,
        segments: Atomic<u32>,
        bytes: Atomic<usize>,
        batches: Atomic<u32>,
    }

    impl Counter {
        fn check(skb: &RxSkb, off: usize, len: usize) -> Result<bool> {
            let mut sent = [0; 4];
            skb.copy(off, &mut sent)?;
            let crc = skb.crc32c(off + 4, len - 4, !0)?;
            // One byte too many is none.
            let beyond = skb.crc32c(skb.len(), 1, !0).is_err();
            Ok(beyond && crc == u32::from_be_bytes(sent))
        }
    }

    impl Receive for Counter {
        type Batch = u32;

        fn receive(&self, skb: RxSkb, batch: &mut u32) {
            let meta = skb.meta();
            let fine = skb
                .segments()
                .all(|(off, len)| Self::check(&skb, off, len) == Ok(true));
            if fine && meta.dport == PORT && meta.src == meta.dst && meta.tos == ECN_ECT0 {
                self.packets.add(1, Relaxed);
                // CAST: There are few.
                self.segments.add(skb.segments().count() as u32, Relaxed);
                self.bytes.fetch_add(skb.len(), Relaxed);
            }
            *batch += 1;
        }

        fn batch_end(&self, batch: u32) {
            self.batches.fetch_add(batch, Relaxed);
        }
    }

    /// A burst of `n` segments, of which the last has `last` bytes of payload and the others a
    /// page, which begins at `start` of a page.
    fn burst(pages: &[Page], n: usize, start: usize, last: usize) -> Result<TxBurst> {
        let mut burst = TxBurst::new()?;
        for i in 0..n {
            let header = [i as u8; HEADER];
            let mut crc = crc32c(!0, &header[4..]);
            burst.push_header(&header)?;
            let mut left = if i + 1 == n { last } else { PAGE_SIZE };
            let mut off = start;
            for page in pages {
                let len = left.min(PAGE_SIZE - off);
                let content = [0x5a; 64];
                for at in (off..off + len).step_by(content.len()) {
                    crc = crc32c(crc, &content[..content.len().min(off + len - at)]);
                }
                burst.push_page(PageRef::from(page), off, len)?;
                left -= len;
                off = 0;
                if left == 0 {
                    break;
                }
            }
            burst.patch_header(0, &crc.to_be_bytes())?;
            burst.segment_end()?;
        }
        Ok(burst)
    }

    /// Sends bursts to oneself, and returns what came: packets, segments, bytes.
    fn send(address: Address) -> Result<(u32, u32, usize)> {
        let net = Net::init_net();
        let counter = Arc::new(
            Counter {
                packets: Atomic::new(0),
                segments: Atomic::new(0),
                bytes: Atomic::new(0),
                batches: Atomic::new(0),
            },
            GFP_KERNEL,
        )?;
        let mut pages = KVec::new();
        for _ in 0..2 {
            let page = Page::alloc_page(GFP_KERNEL)?;
            // SAFETY: The page is not in use yet.
            unsafe { page.fill_zero_raw(0, PAGE_SIZE)? };
            for at in (0..PAGE_SIZE).step_by(64) {
                // SAFETY: As above.
                unsafe { page.write_raw([0x5a; 64].as_ptr(), at, 64)? };
            }
            pages.push(page, GFP_KERNEL)?;
        }

        let sockets = UdpSockets::open(net, PORT, counter.clone())?;
        let lo = NetDevice::by_index(net, 1).ok_or(ENODEV)?;
        let flow = Flow {
            src: address,
            dst: address,
            sport: 50_000,
            dport: PORT,
            tos: 0,
            vlan: None,
        };
        let route = Route::lookup(&lo, flow)?;
        burst(&pages, SEGMENTS, 0, PAGE_SIZE)?.xmit(&route, ECN_ECT0, 64)?;
        burst(&pages, SEGMENTS, 0, 1)?.xmit(&route, ECN_ECT0, 64)?;
        burst(&pages, 5, 128, PAGE_SIZE)?.xmit(&route, ECN_ECT0, 64)?;
        burst(&pages, 1, 0, 1)?.xmit(&route, ECN_ECT0, 64)?;
        for _ in 0..100 {
            if counter.batches.load(Relaxed) == 4 {
                break;
            }
            fsleep(Delta::from_millis(10));
        }
        sockets.close();
        Ok((
            counter.packets.load(Relaxed),
            counter.segments.load(Relaxed),
            counter.bytes.load(Relaxed),
        ))
    }

    const ARRIVES: (u32, u32, usize) = (
        4,
        22,
        22 * HEADER + (SEGMENTS + SEGMENTS - 1 + 5) * PAGE_SIZE + 2,
    );

    #[test]
    fn ipv4_bursts_arrive_whole() -> Result {
        let received = send(addr::from_ipv4([127, 0, 0, 1]))?;
        assert_eq!(received, ARRIVES);
        Ok(())
    }

    #[test]
    fn ipv6_bursts_arrive_whole() -> Result {
        let mut address = [0; 16];
        address[15] = 1;
        let received = send(address)?;
        assert_eq!(received, ARRIVES);
        Ok(())
    }

    #[test]
    fn segments_are_of_one_length() -> Result {
        let mut burst = TxBurst::new()?;
        assert_eq!(burst.segment_end(), Err(EINVAL));
        burst.push_header(&[0; 64])?;
        assert_eq!(burst.push_header(&[0; 64]), Err(EINVAL));
        assert_eq!(burst.patch_header(60, &[0; 5]), Err(EINVAL));
        burst.segment_end()?;
        burst.push_header(&[0; 65])?;
        assert_eq!(burst.segment_end(), Err(EMSGSIZE));
        burst.segment_abort();
        assert_eq!(burst.len(), 64);
        burst.push_header(&[0; 40])?;
        burst.push_bytes(&[0; 1500])?;
        burst.segment_abort();
        assert_eq!(burst.len(), 64);
        burst.push_header(&[0; 40])?;
        burst.segment_end()?;
        assert!(!burst.has_room(40, 0));
        assert_eq!(burst.push_header(&[0; 40]), Err(EMSGSIZE));
        assert_eq!(burst.segments(), 2);
        Ok(())
    }
}
