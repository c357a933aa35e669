// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The queues over rings in ordinary shared memory, with the test in the kernel's place.

use crate::abi::{Cqe, Plain, RecvWqe, SendWqe};
use crate::bindings as c;
use crate::completion::{work_completion, CompletionQueue};
use crate::errno::Errno;
use crate::mapping::{map_ring, Mapping};
use crate::post::Queue as _;
use crate::recv::RecvQueue;
use crate::send::{SendLimits, SendQueue};
use core::ptr;
use ring::{layout, Consumer, Geometry, Idle, Producer, Shared, Slot};

const STRIDE: u32 = 128;

/// Makes memory that both sides map.
fn shared(entries: u32, stride: u32) -> (Mapping, Mapping, Geometry) {
    let geometry = Geometry::new(entries, stride).unwrap();
    let size = geometry.size() as u64;
    // SAFETY: A new file, closed again when it is mapped.
    unsafe {
        let fd = c::memfd_create(c"ring".as_ptr(), 0);
        assert!(fd >= 0);
        assert_eq!(c::ftruncate(fd, size as _), 0);
        let user = map_ring(fd, 0, size, entries, stride).unwrap().0;
        let kernel = Mapping::new(fd, 0, size).unwrap();
        c::close(fd);
        (user, kernel, geometry)
    }
}

fn send_queue(entries: u32, signal_all: bool) -> (SendQueue, Mapping, Consumer) {
    let (user, kernel, geometry) = shared(entries, STRIDE);
    let limits = SendLimits {
        max_sge: 4,
        max_inline: 64,
        signal_all,
        is_datagram: false,
    };
    (
        SendQueue::new(user, geometry, limits),
        kernel,
        Consumer::new(geometry),
    )
}

fn post(queue: &mut SendQueue, wr: &c::ibv_send_wr) -> Result<(), Errno> {
    // SAFETY: The tests' lists and buffers are live.
    unsafe { queue.post(wr) }
}

fn value<T: Plain>(ring: &Mapping, slot: Slot, at: usize) -> T {
    let mut bytes = vec![0; size_of::<T>()];
    slot.read(ring, at, &mut bytes).unwrap();
    T::from_bytes(&bytes).unwrap()
}

fn send_wr(opcode: u32, flags: u32, sges: &mut [c::ibv_sge]) -> c::ibv_send_wr {
    c::ibv_send_wr {
        wr_id: 0x0123_4567_89ab_cdef,
        sg_list: sges.as_mut_ptr(),
        num_sge: sges.len() as i32,
        opcode,
        send_flags: flags,
        ..Default::default()
    }
}

fn sge(addr: u64, length: u32) -> c::ibv_sge {
    c::ibv_sge {
        addr,
        length,
        lkey: 7,
    }
}

#[test]
fn a_write_with_immediate_is_encoded() {
    let (mut queue, ring, mut kernel) = send_queue(4, false);
    let mut sges = [sge(0x1000, 10), sge(0x2000, 20)];
    let mut wr = send_wr(
        c::IBV_WR_RDMA_WRITE_WITH_IMM,
        c::IBV_SEND_SIGNALED | c::IBV_SEND_SOLICITED,
        &mut sges,
    );
    wr.__bindgen_anon_1.imm_data = 0x1234u32.to_be();
    wr.wr.rdma.remote_addr = 0xdead_beef;
    wr.wr.rdma.rkey = 99;
    post(&mut queue, &wr).unwrap();
    assert_eq!(kernel.available(&ring), Ok(0));
    queue.publish().unwrap();

    let slot = kernel.fetch(&ring).unwrap().unwrap();
    let wqe: SendWqe = value(&ring, slot, 0);
    assert_eq!(wqe.wr_id, wr.wr_id);
    assert_eq!(u32::from(wqe.opcode), c::METAROCE_OP_RDMA_WRITE_IMM);
    assert_eq!(
        u32::from(wqe.flags),
        c::METAROCE_SEND_SIGNALED | c::METAROCE_SEND_SOLICITED
    );
    assert_eq!((wqe.num_sge, wqe.inline_len), (2, 0));
    assert_eq!(wqe.imm_data, 0x1234u32.to_be());
    assert_eq!((wqe.remote_addr, wqe.rkey), (0xdead_beef, 99));
    let second: c::ibv_sge = value(&ring, slot, size_of::<SendWqe>() + 16);
    assert_eq!((second.addr, second.length, second.lkey), (0x2000, 20, 7));
}

#[test]
fn atomics_are_encoded() {
    let (mut queue, ring, mut kernel) = send_queue(4, false);
    let mut sges = [sge(0x1000, 8)];
    for (verb, op) in [
        (c::IBV_WR_ATOMIC_CMP_AND_SWP, c::METAROCE_OP_ATOMIC_CMP_SWP),
        (
            c::IBV_WR_ATOMIC_FETCH_AND_ADD,
            c::METAROCE_OP_ATOMIC_FETCH_ADD,
        ),
    ] {
        let mut wr = send_wr(verb, 0, &mut sges);
        wr.wr.atomic.remote_addr = 8;
        wr.wr.atomic.rkey = 1;
        wr.wr.atomic.compare_add = 2;
        wr.wr.atomic.swap = 3;
        post(&mut queue, &wr).unwrap();
        queue.publish().unwrap();
        let wqe: SendWqe = value(&ring, kernel.fetch(&ring).unwrap().unwrap(), 0);
        assert_eq!(u32::from(wqe.opcode), op);
        assert_eq!((wqe.remote_addr, wqe.rkey), (8, 1));
        assert_eq!((wqe.compare_add, wqe.swap), (2, 3));
    }
}

#[test]
fn inline_data_is_gathered() {
    let (mut queue, ring, mut kernel) = send_queue(4, true);
    let data = *b"hello, world";
    let base = data.as_ptr() as u64;
    let mut sges = [sge(base + 7, 5), sge(0, 0), sge(base, 5)];
    post(
        &mut queue,
        &send_wr(c::IBV_WR_SEND, c::IBV_SEND_INLINE, &mut sges),
    )
    .unwrap();
    queue.publish().unwrap();

    let slot = kernel.fetch(&ring).unwrap().unwrap();
    let wqe: SendWqe = value(&ring, slot, 0);
    assert_eq!((wqe.num_sge, wqe.inline_len), (0, 10));
    assert_ne!(u32::from(wqe.flags) & c::METAROCE_SEND_SIGNALED, 0);
    let mut found = [0; 10];
    slot.read(&ring, size_of::<SendWqe>(), &mut found).unwrap();
    assert_eq!(&found, b"worldhello");
}

#[test]
fn bad_requests_are_refused_and_leave_nothing_behind() {
    let (mut queue, ring, kernel) = send_queue(4, false);
    let data = [0u8; 65];
    let base = data.as_ptr() as u64;
    let mut five = [sge(base, 1); 5];
    let mut long = [sge(base, 65)];
    let mut negative = send_wr(c::IBV_WR_SEND, 0, &mut []);
    negative.num_sge = -1;
    let mut null = send_wr(c::IBV_WR_SEND, 0, &mut []);
    (null.num_sge, null.sg_list) = (1, ptr::null_mut());
    let inline = c::IBV_SEND_INLINE;
    for wr in [
        send_wr(c::IBV_WR_SEND, 0, &mut five),
        send_wr(c::IBV_WR_SEND, inline, &mut long),
        send_wr(c::IBV_WR_RDMA_READ, inline, &mut []),
        send_wr(c::IBV_WR_SEND, c::IBV_SEND_IP_CSUM, &mut []),
        send_wr(c::IBV_WR_TSO, 0, &mut []),
        send_wr(1234, 0, &mut []),
        negative,
        null,
    ] {
        assert_eq!(post(&mut queue, &wr), Err(Errno::EINVAL));
    }
    assert_eq!(queue.publish(), Ok(false));
    assert_eq!(kernel.available(&ring), Ok(0));
}

#[test]
fn a_full_queue_is_out_of_memory_until_the_kernel_retires() {
    let (mut queue, ring, mut kernel) = send_queue(2, false);
    let wr = send_wr(c::IBV_WR_SEND, 0, &mut []);
    post(&mut queue, &wr).unwrap();
    post(&mut queue, &wr).unwrap();
    assert_eq!(post(&mut queue, &wr), Err(Errno::ENOMEM));
    queue.publish().unwrap();
    kernel.fetch(&ring).unwrap();
    kernel.retire(1).unwrap();
    kernel.publish(&ring).unwrap();
    assert_eq!(post(&mut queue, &wr), Ok(()));
}

#[test]
fn the_doorbell_is_rung_once_and_only_if_asked_for() {
    let (mut queue, ring, mut kernel) = send_queue(4, false);
    let wr = send_wr(c::IBV_WR_SEND, 0, &mut []);
    assert_eq!(kernel.prepare_idle(&ring), Ok(Idle::Sleep));
    post(&mut queue, &wr).unwrap();
    post(&mut queue, &wr).unwrap();
    assert_eq!(queue.publish(), Ok(true));
    assert_eq!(queue.publish(), Ok(false));
    kernel.resume(&ring).unwrap();
    post(&mut queue, &wr).unwrap();
    assert_eq!(queue.publish(), Ok(false));
    while kernel.fetch(&ring).unwrap().is_some() {}
}

#[test]
fn receives_are_encoded() {
    let (user, ring, geometry) = shared(4, 64);
    let mut queue = RecvQueue::new(user, geometry, 3);
    let mut kernel = Consumer::new(geometry);
    let mut sges = [sge(0x1000, 10), sge(0x2000, 20)];
    let mut wr = c::ibv_recv_wr {
        wr_id: 42,
        sg_list: sges.as_mut_ptr(),
        num_sge: 2,
        ..Default::default()
    };
    // SAFETY: The list is live.
    unsafe { queue.post(&wr) }.unwrap();
    assert_eq!(queue.publish(), Ok(false));
    let slot = kernel.fetch(&ring).unwrap().unwrap();
    let wqe: RecvWqe = value(&ring, slot, 0);
    assert_eq!((wqe.wr_id, wqe.num_sge), (42, 2));
    let first: c::ibv_sge = value(&ring, slot, size_of::<RecvWqe>());
    assert_eq!((first.addr, first.length), (0x1000, 10));

    wr.num_sge = 4;
    // SAFETY: The list is not read, as it is too long.
    assert_eq!(unsafe { queue.post(&wr) }, Err(Errno::EINVAL));

    // The error state asks for the doorbell.
    ring.store_release(layout::NEED_DOORBELL, 1).unwrap();
    wr.num_sge = 0;
    // SAFETY: There is no list.
    unsafe { queue.post(&wr) }.unwrap();
    assert_eq!(queue.publish(), Ok(true));
}

fn complete(ring: &Mapping, kernel: &mut Producer, wr_id: u64, qp_num: u32) {
    let cqe = Cqe {
        wr_id,
        qp_num,
        ..Default::default()
    };
    let slot = kernel.vacant(ring).unwrap();
    slot.write(ring, 0, cqe.bytes()).unwrap();
    kernel.commit();
    kernel.publish(ring).unwrap();
}

#[test]
fn purging_keeps_the_others_in_order() {
    // All 2^6 patterns of two queue pairs' completions, at every position of the ring.
    for offset in 0..8u64 {
        for pattern in 0..64u64 {
            let (user, ring, geometry) = shared(8, c::METAROCE_CQE_SIZE);
            let mut queue = CompletionQueue::new(user, geometry);
            let mut kernel = Producer::new(geometry);
            for _ in 0..offset {
                complete(&ring, &mut kernel, 0, 0);
                queue.take().unwrap().unwrap();
                queue.publish().unwrap();
            }
            for wr_id in 0..6 {
                complete(&ring, &mut kernel, wr_id, (pattern >> wr_id & 1) as u32);
            }
            queue.purge(1).unwrap();
            // The slots are the kernel's again.
            let kept = 6 - pattern.count_ones();
            assert_eq!(kernel.refresh(&ring), Ok(8 - kept));
            complete(&ring, &mut kernel, 6, 0);

            let expected: Vec<_> = (0..7).filter(|n| pattern >> n & 1 == 0).collect();
            let mut found = vec![];
            while let Some(cqe) = queue.take().unwrap() {
                found.push(cqe.wr_id);
            }
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn completions_are_translated() {
    let cqe = Cqe {
        wr_id: 1,
        status: c::IBV_WC_RNR_RETRY_EXC_ERR,
        opcode: c::IBV_WC_RECV,
        byte_len: 3,
        imm_data: 0x0a0b_0c0d,
        qp_num: 5,
        wc_flags: c::METAROCE_WC_WITH_INV,
        src_qp: 7,
        vendor_err: 8,
        ..Default::default()
    };
    let wc = work_completion(&cqe);
    assert_eq!(
        (wc.wr_id, wc.status, wc.opcode),
        (1, cqe.status, cqe.opcode)
    );
    assert_eq!((wc.byte_len, wc.qp_num, wc.src_qp), (3, 5, 7));
    assert_eq!(wc.vendor_err, 8);
    assert_eq!(wc.wc_flags, c::IBV_WC_WITH_INV);
    assert_eq!(wc.sl, 0);
    // SAFETY: An integer.
    assert_eq!(unsafe { wc.__bindgen_anon_1.invalidated_rkey }, 0x0a0b_0c0d);
}

#[test]
fn datagrams_tell_their_family_as_service_level() {
    for (network_hdr_type, sl) in [(2, 0xa), (3, 0x9), (7, 0)] {
        let cqe = Cqe {
            wc_flags: c::METAROCE_WC_GRH | c::METAROCE_WC_WITH_NETWORK_HDR_TYPE,
            network_hdr_type,
            ..Default::default()
        };
        assert_eq!(work_completion(&cqe).sl, sl);
    }
}

#[test]
fn a_mapping_stays_inside_itself() {
    let (ring, ..) = shared(1, 8);
    let len = ring.len();
    assert_eq!(ring.load_acquire(2), None);
    assert_eq!(ring.load_acquire(len), None);
    assert_eq!(ring.load_acquire(usize::MAX - 3), None);
    assert_eq!(ring.write(len - 4, &[0; 8]), None);
    assert_eq!(ring.read(usize::MAX, &mut [0; 2]), None);
    assert_eq!(ring.write(len - 8, &[0; 8]), Some(()));
}
