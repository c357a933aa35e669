// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Random operation lists against a simple model, with honest and with hostile peers.

mod common;

use common::Memory;
use proptest::prelude::*;
use ring::{layout, Consumer, Error, Geometry, Producer};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Op {
    Post,
    Publish,
    Fetch,
    Retire(u32),
    Give,
    Discard,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Post),
        3 => Just(Op::Publish),
        6 => Just(Op::Fetch),
        4 => (0u32..6).prop_map(Op::Retire),
        3 => Just(Op::Give),
        1 => Just(Op::Discard),
    ]
}

/// Index values that sit near the interesting ones more often than chance would have it.
fn hostile(around: u32) -> impl Strategy<Value = u32> {
    prop_oneof![
        (0u32..20).prop_map(move |d| around.wrapping_add(d).wrapping_sub(10)),
        any::<u32>(),
    ]
}

proptest! {
    /// Between honest peers, what is fetched is what was posted, in order, and nothing is lost.
    #[test]
    fn honest_peers_form_a_queue(
        log_entries in 0u32..5,
        start in prop_oneof![Just(0), Just(u32::MAX - 3), any::<u32>()],
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let geometry = Geometry::new(1 << log_entries, 16).unwrap();
        let memory = Memory::new(geometry.size());
        memory.set_word(layout::PRODUCER, start);
        memory.set_word(layout::CONSUMER, start);
        let mut producer = Producer::resume_at(geometry, start);
        let mut consumer = Consumer::resume_at(geometry, start);

        let mut counter = 0u64;
        let mut staged = VecDeque::new();
        let mut visible = VecDeque::new();
        let mut in_work = VecDeque::new();
        // Retired, but the producer does not know yet.
        let mut held = 0u32;

        for op in ops {
            let used = (staged.len() + visible.len() + in_work.len()) as u32 + held;
            match op {
                Op::Post => match producer.vacant(&memory) {
                    Ok(slot) => {
                        prop_assert!(used < geometry.entries());
                        slot.write(&memory, 8, &counter.to_ne_bytes()).unwrap();
                        producer.commit();
                        staged.push_back(counter);
                        counter += 1;
                    }
                    Err(error) => {
                        prop_assert_eq!(error, Error::Full);
                        prop_assert_eq!(used, geometry.entries());
                    }
                },
                Op::Publish => {
                    producer.publish(&memory).unwrap();
                    visible.append(&mut staged);
                }
                Op::Fetch => {
                    let slot = consumer.fetch(&memory).unwrap();
                    prop_assert_eq!(slot.is_some(), !visible.is_empty());
                    if let Some(slot) = slot {
                        let mut found = [0; 8];
                        slot.read(&memory, 8, &mut found).unwrap();
                        let expected: u64 = visible.pop_front().unwrap();
                        prop_assert_eq!(u64::from_ne_bytes(found), expected);
                        in_work.push_back(expected);
                    }
                }
                Op::Retire(n) => {
                    let fits = n as usize <= in_work.len();
                    prop_assert_eq!(consumer.retire(n).is_ok(), fits);
                    if fits {
                        in_work.drain(..n as usize);
                        held += n;
                    }
                }
                Op::Give => {
                    consumer.publish(&memory).unwrap();
                    held = 0;
                }
                Op::Discard => {
                    consumer.discard(&memory).unwrap();
                    visible.clear();
                    in_work.clear();
                    held = 0;
                }
            }
            prop_assert_eq!(consumer.available(&memory).unwrap() as usize, visible.len());
            prop_assert_eq!(consumer.in_work() as usize, in_work.len());
        }
    }

    /// Whatever a peer stores, a consumer never sees more than a ring, nor leaves the memory.
    #[test]
    fn a_consumer_survives_any_producer_index(
        log_entries in 0u32..5,
        moves in prop::collection::vec((hostile(0), 0u32..4), 0..100),
    ) {
        let geometry = Geometry::new(1 << log_entries, 16).unwrap();
        let memory = Memory::new(geometry.size());
        let mut consumer = Consumer::new(geometry);
        for (index, retire) in moves {
            memory.set_word(layout::PRODUCER, index);
            match consumer.available(&memory) {
                Ok(n) => prop_assert!(n + consumer.in_work() <= geometry.entries()),
                Err(error) => prop_assert_eq!(error, Error::Runaway),
            }
            if let Ok(Some(slot)) = consumer.fetch(&memory) {
                prop_assert!(slot.read(&memory, 0, &mut [0; 16]).is_some());
            }
            prop_assert!(consumer.in_work() <= geometry.entries());
            let _ = consumer.retire(retire);
            let _ = consumer.prepare_idle(&memory);
        }
    }

    /// Whatever a peer stores, a producer never fills more than a ring, nor leaves the memory.
    #[test]
    fn a_producer_survives_any_consumer_index(
        log_entries in 0u32..5,
        moves in prop::collection::vec((hostile(0), any::<bool>()), 0..100),
    ) {
        let geometry = Geometry::new(1 << log_entries, 16).unwrap();
        let memory = Memory::new(geometry.size());
        let mut producer = Producer::new(geometry);
        for (index, publish) in moves {
            memory.set_word(layout::CONSUMER, index);
            if let Ok(free) = producer.refresh(&memory) {
                prop_assert!(free <= geometry.entries());
            }
            if let Ok(slot) = producer.vacant(&memory) {
                prop_assert!(slot.write(&memory, 0, &[0; 16]).is_some());
                producer.commit();
            }
            prop_assert!(producer.in_use() <= geometry.entries());
            if publish {
                producer.publish(&memory).unwrap();
            }
        }
    }
}
