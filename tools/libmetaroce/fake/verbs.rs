// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The provider under the distribution's libibverbs, with a kernel made up in this process.
//!
//! Prints TAP. Run by test-load.sh, which makes up sysfs.

#[allow(dead_code)]
#[path = "../src/abi.rs"]
mod abi;
#[path = "../src/bindings.rs"]
mod bindings;
#[allow(dead_code)]
#[path = "../src/errno.rs"]
mod errno;
mod fake_dev;
mod kernel;
#[allow(dead_code)]
#[path = "../src/mapping.rs"]
mod mapping;

use abi::{Cqe, RecvWqe, SendWqe};
use bindings as c;
use kernel::kernel;
use std::ffi::c_int;
use std::ptr;

const EINVAL: c_int = c::EINVAL as c_int;
const ENOMEM: c_int = c::ENOMEM as c_int;

/// The objects that the tests use.
struct Verbs {
    context: *mut c::ibv_context,
    pd: *mut c::ibv_pd,
    cq: *mut c::ibv_cq,
}

impl Verbs {
    fn open() -> Self {
        // SAFETY: As the manual says, and every result is checked.
        unsafe {
            let mut num = 0;
            let list = c::ibv_get_device_list(&mut num);
            assert_eq!(num, 1);
            let context = c::ibv_open_device(*list);
            c::ibv_free_device_list(list);
            assert!(!context.is_null());
            let pd = c::ibv_alloc_pd(context);
            let cq = c::ibv_create_cq(context, 10, ptr::null_mut(), ptr::null_mut(), 0);
            assert!(!pd.is_null() && !cq.is_null());
            assert_eq!((*cq).cqe, 16);
            Self { context, pd, cq }
        }
    }

    fn create_qp(&self) -> *mut c::ibv_qp {
        let mut attr = c::ibv_qp_init_attr {
            send_cq: self.cq,
            recv_cq: self.cq,
            qp_type: c::IBV_QPT_RC,
            cap: c::ibv_qp_cap {
                max_send_wr: 4,
                max_recv_wr: 4,
                max_send_sge: 2,
                max_recv_sge: 2,
                max_inline_data: 1,
            },
            ..Default::default()
        };
        // SAFETY: The attributes live through the call.
        let qp = unsafe { c::ibv_create_qp(self.pd, &mut attr) };
        assert!(!qp.is_null());
        assert_eq!(attr.cap.max_inline_data, kernel::MAX_INLINE);
        qp
    }

    fn poll(&self) -> Vec<c::ibv_wc> {
        let mut wc = [c::ibv_wc::default(); 8];
        // SAFETY: The array is as long as said.
        unsafe {
            let poll = (*self.context).ops.poll_cq.unwrap();
            let n = poll(self.cq, wc.len() as c_int, wc.as_mut_ptr());
            wc[..usize::try_from(n).unwrap()].to_vec()
        }
    }

    fn complete(&self, wr_id: u64, qp_num: u32) {
        let cqe = Cqe {
            wr_id,
            qp_num,
            ..Default::default()
        };
        // SAFETY: A live object.
        let handle = unsafe { (*self.cq).handle };
        kernel().cqs.get_mut(&handle).unwrap().complete(&cqe);
    }

    fn close(self) {
        // SAFETY: Nothing uses the objects any more.
        unsafe {
            assert_eq!(c::ibv_destroy_cq(self.cq), 0);
            assert_eq!(c::ibv_dealloc_pd(self.pd), 0);
            assert_eq!(c::ibv_close_device(self.context), 0);
        }
    }
}

fn modify(qp: *mut c::ibv_qp, state: u32) {
    let mut attr = c::ibv_qp_attr {
        qp_state: state,
        ..Default::default()
    };
    // SAFETY: The attributes live through the call.
    let ret = unsafe { c::ibv_modify_qp(qp, &mut attr, c::IBV_QP_STATE as c_int) };
    assert_eq!(ret, 0);
}

fn destroy(qp: *mut c::ibv_qp) {
    // SAFETY: Nothing uses it any more.
    assert_eq!(unsafe { c::ibv_destroy_qp(qp) }, 0);
}

/// Posts a list of sends with these opcodes; returns the result and the index of the bad one.
fn post_sends(qp: *mut c::ibv_qp, opcodes: &[u32]) -> (c_int, Option<usize>) {
    let mut list: Vec<_> = (0..)
        .zip(opcodes)
        .map(|(wr_id, &opcode)| c::ibv_send_wr {
            wr_id,
            opcode,
            ..Default::default()
        })
        .collect();
    let start = list.as_mut_ptr();
    let mut bad = ptr::null_mut();
    // SAFETY: A list linked in order, that lives through the call.
    unsafe {
        for n in 1..list.len() {
            (*start.add(n - 1)).next = start.add(n);
        }
        let ret = (*(*qp).context).ops.post_send.unwrap()(qp, start, &mut bad);
        let index = (!bad.is_null()).then(|| bad.offset_from(start) as usize);
        (ret, index)
    }
}

fn post_recv(qp: *mut c::ibv_qp, wr_id: u64) -> c_int {
    let mut wr = c::ibv_recv_wr {
        wr_id,
        ..Default::default()
    };
    let mut bad = ptr::null_mut();
    // SAFETY: A list of one that lives through the call.
    unsafe { (*(*qp).context).ops.post_recv.unwrap()(qp, &mut wr, &mut bad) }
}

fn handle(qp: *mut c::ibv_qp) -> u32 {
    // SAFETY: A live object.
    unsafe { (*qp).handle }
}

fn number(qp: *mut c::ibv_qp) -> u32 {
    // SAFETY: A live object.
    unsafe { (*qp).qp_num }
}

fn objects_come_and_go() {
    let verbs = Verbs::open();
    let mut buffer = [0u8; 64];
    // SAFETY: The buffer outlives the region.
    unsafe {
        let mr = c::ibv_reg_mr(verbs.pd, buffer.as_mut_ptr().cast(), buffer.len(), 0);
        assert!(!mr.is_null());
        assert_eq!(((*mr).lkey, (*mr).rkey), (0x11, 0x22));
        assert_eq!(c::ibv_dereg_mr(mr), 0);
        let notify = (*verbs.context).ops.req_notify_cq.unwrap();
        assert_eq!(notify(verbs.cq, 0), 0);
    }
    assert_eq!(kernel().notified, 1);
    destroy(verbs.create_qp());
    verbs.close();
    assert!(kernel().cqs.is_empty() && kernel().qps.is_empty());
}

fn posting_needs_the_state() {
    let verbs = Verbs::open();
    let qp = verbs.create_qp();
    assert_eq!(post_sends(qp, &[c::IBV_WR_SEND]), (EINVAL, Some(0)));
    assert_eq!(post_recv(qp, 1), EINVAL);
    modify(qp, c::IBV_QPS_INIT);
    assert_eq!(post_sends(qp, &[c::IBV_WR_SEND]), (EINVAL, Some(0)));
    assert_eq!(post_recv(qp, 2), 0);
    let mut k = kernel();
    let rq = &mut k.qps.get_mut(&handle(qp)).unwrap().rq;
    assert_eq!(rq.take::<RecvWqe>().unwrap().wr_id, 2);
    assert!(rq.take::<RecvWqe>().is_none());
    drop(k);
    destroy(qp);
    verbs.close();
}

fn one_doorbell_rings_for_a_list() {
    let verbs = Verbs::open();
    let qp = verbs.create_qp();
    modify(qp, c::IBV_QPS_RTS);
    // The kernel sleeps, and then it does not.
    assert_eq!(post_sends(qp, &[c::IBV_WR_SEND; 3]), (0, None));
    let mut k = kernel();
    let fake = k.qps.get_mut(&handle(qp)).unwrap();
    assert_eq!(fake.doorbells, 1);
    for wr_id in 0..3 {
        assert_eq!(fake.sq.take::<SendWqe>().unwrap().wr_id, wr_id);
    }
    drop(k);
    destroy(qp);
    verbs.close();
}

fn what_precedes_a_bad_request_is_posted() {
    let verbs = Verbs::open();
    let qp = verbs.create_qp();
    modify(qp, c::IBV_QPS_RTS);
    let list = [c::IBV_WR_SEND, c::IBV_WR_TSO, c::IBV_WR_SEND];
    assert_eq!(post_sends(qp, &list), (EINVAL, Some(1)));
    assert_eq!(post_sends(qp, &[c::IBV_WR_SEND; 5]), (ENOMEM, Some(3)));
    let mut k = kernel();
    let sq = &mut k.qps.get_mut(&handle(qp)).unwrap().sq;
    assert_eq!(std::iter::from_fn(|| sq.take::<SendWqe>()).count(), 4);
    drop(k);
    destroy(qp);
    verbs.close();
}

fn completions_go_with_their_queue_pair() {
    let verbs = Verbs::open();
    let (one, two) = (verbs.create_qp(), verbs.create_qp());
    for wr_id in 0..4 {
        verbs.complete(wr_id, number(if wr_id % 2 == 0 { one } else { two }));
    }
    let two_num = number(two);
    destroy(one);
    let left: Vec<_> = verbs.poll().iter().map(|w| (w.wr_id, w.qp_num)).collect();
    assert_eq!(left, [(1, two_num), (3, two_num)]);
    verbs.complete(5, two_num);
    modify(two, c::IBV_QPS_RESET);
    assert!(verbs.poll().is_empty());
    destroy(two);
    verbs.close();
}

/// Two threads post what a third takes: nothing is lost, doubled or torn.
fn threads_post_to_one_queue_pair() {
    const EACH: u64 = 20_000;
    let verbs = Verbs::open();
    let qp = verbs.create_qp();
    modify(qp, c::IBV_QPS_RTS);
    let (address, key) = (qp as usize, handle(qp));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            std::thread::spawn(move || {
                let mut posted = 0;
                while posted < EACH {
                    match post_sends(address as *mut c::ibv_qp, &[c::IBV_WR_SEND]).0 {
                        0 => posted += 1,
                        error => {
                            assert_eq!(error, ENOMEM);
                            std::thread::yield_now();
                        }
                    }
                }
            })
        })
        .collect();
    let mut seen = 0;
    while seen < 2 * EACH {
        let mut k = kernel();
        let sq = &mut k.qps.get_mut(&key).unwrap().sq;
        while sq.take::<SendWqe>().is_some() {
            seen += 1;
        }
        drop(k);
        std::thread::yield_now();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    destroy(qp);
    verbs.close();
}

fn main() {
    fake_dev::make_uverbs0().unwrap();
    let tests: [(&str, fn()); 6] = [
        ("objects come and go", objects_come_and_go),
        ("posting needs the state", posting_needs_the_state),
        (
            "one doorbell rings for a list",
            one_doorbell_rings_for_a_list,
        ),
        (
            "what precedes a bad request is posted",
            what_precedes_a_bad_request_is_posted,
        ),
        (
            "completions go with their queue pair",
            completions_go_with_their_queue_pair,
        ),
        (
            "threads post to one queue pair",
            threads_post_to_one_queue_pair,
        ),
    ];
    println!("1..{}", tests.len());
    // A failed assertion ends the program; the plan tells.
    for (n, (name, test)) in tests.iter().enumerate() {
        test();
        println!("ok {} {name}", n + 1);
    }
}
