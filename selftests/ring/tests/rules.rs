// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The rules of the ring, one by one.

mod common;

use common::Memory;
use ring::{layout, Consumer, Error, Geometry, Idle, Migration, Producer, Runaway, Shared};

fn ring(entries: u32) -> (Memory, Producer, Consumer) {
    let geometry = Geometry::new(entries, 16).unwrap();
    (
        Memory::new(geometry.size()),
        Producer::new(geometry),
        Consumer::new(geometry),
    )
}

fn post(memory: &Memory, producer: &mut Producer, value: u64) -> Result<(), Error> {
    let slot = producer.vacant(memory)?;
    slot.write(memory, 0, &value.to_ne_bytes()).unwrap();
    producer.commit();
    producer.publish(memory)
}

#[test]
fn geometry_takes_only_what_a_ring_can_have() {
    assert!(Geometry::new(0, 64).is_none());
    assert!(Geometry::new(3, 64).is_none());
    assert!(Geometry::new(4, 0).is_none());
    assert!(Geometry::new(4, 12).is_none());
    assert_eq!(Geometry::new(4, 64).unwrap().size(), 256 + 4 * 64);
    assert!(Geometry::new(Geometry::MAX_ENTRIES, 8).is_some());
}

#[test]
fn slots_repeat_and_cannot_be_left() {
    let (memory, ..) = ring(4);
    let geometry = Geometry::new(4, 16).unwrap();
    assert_eq!(geometry.slot(1), geometry.slot(u32::MAX - 2));
    let slot = geometry.slot(0);
    assert_eq!(slot.write(&memory, 0, &[0; 16]), Some(()));
    assert_eq!(slot.write(&memory, 1, &[0; 16]), None);
    assert_eq!(slot.read(&memory, usize::MAX, &mut [0; 2]), None);
}

#[test]
fn nothing_is_visible_before_publish() {
    let (memory, mut producer, consumer) = ring(4);
    producer.vacant(&memory).unwrap();
    producer.commit();
    assert!(producer.has_unpublished());
    assert_eq!(consumer.available(&memory), Ok(0));
    producer.publish(&memory).unwrap();
    assert_eq!(consumer.available(&memory), Ok(1));
}

#[test]
fn a_slot_is_free_only_after_its_entry_was_retired_and_published() {
    let (memory, mut producer, mut consumer) = ring(2);
    post(&memory, &mut producer, 1).unwrap();
    post(&memory, &mut producer, 2).unwrap();
    assert_eq!(post(&memory, &mut producer, 3), Err(Error::Full));
    consumer.fetch(&memory).unwrap().unwrap();
    assert_eq!(post(&memory, &mut producer, 3), Err(Error::Full));
    consumer.retire(1).unwrap();
    assert_eq!(post(&memory, &mut producer, 3), Err(Error::Full));
    consumer.publish(&memory).unwrap();
    assert_eq!(post(&memory, &mut producer, 3), Ok(()));
}

#[test]
fn only_entries_in_work_can_be_read_again_or_retired() {
    let (memory, mut producer, mut consumer) = ring(4);
    post(&memory, &mut producer, 1).unwrap();
    post(&memory, &mut producer, 2).unwrap();
    assert_eq!(consumer.slot_in_work(0), None);
    assert_eq!(consumer.retire(1), Err(Error::NotFetched));
    consumer.fetch(&memory).unwrap().unwrap();
    assert!(consumer.slot_in_work(0).is_some());
    assert_eq!(consumer.slot_in_work(1), None);
    assert_eq!(consumer.slot_in_work(u32::MAX), None);
    consumer.retire(1).unwrap();
    assert_eq!(consumer.slot_in_work(0), None);
}

#[test]
fn looking_ahead_ends_where_the_ring_does() {
    let (memory, mut producer, mut consumer) = ring(4);
    for value in 0..3 {
        post(&memory, &mut producer, value).unwrap();
    }
    consumer.fetch(&memory).unwrap();
    let geometry = consumer.geometry();
    assert_eq!(consumer.slot_ahead(0), Some(geometry.slot(1)));
    assert_eq!(consumer.slot_ahead(2), Some(geometry.slot(3)));
    assert_eq!(consumer.slot_ahead(3), None);
    assert_eq!(consumer.slot_ahead(u32::MAX), None);
}

#[test]
fn a_producer_that_runs_away_is_noticed() {
    let (memory, mut producer, mut consumer) = ring(4);
    for value in 0..4 {
        post(&memory, &mut producer, value).unwrap();
    }
    consumer.fetch(&memory).unwrap();
    consumer.fetch(&memory).unwrap();
    assert_eq!(consumer.pending(4), Ok(2));
    assert_eq!(consumer.pending(2), Ok(0));
    // More than the ring holds, and less than was fetched.
    assert_eq!(consumer.pending(5), Err(Runaway));
    assert_eq!(consumer.pending(1), Err(Runaway));
    assert_eq!(consumer.pending(u32::MAX), Err(Runaway));
}

#[test]
fn a_consumer_that_runs_away_is_noticed() {
    let (memory, mut producer, _) = ring(4);
    for value in 0..4 {
        post(&memory, &mut producer, value).unwrap();
    }
    for bad in [5, u32::MAX, 1 << 31] {
        memory.set_word(layout::CONSUMER, bad);
        assert_eq!(producer.refresh(&memory), Err(Error::Runaway));
    }
    memory.set_word(layout::CONSUMER, 3);
    assert_eq!(producer.refresh(&memory), Ok(3));
    // Taking back what was given is no honest move either.
    memory.set_word(layout::CONSUMER, 2);
    assert_eq!(producer.refresh(&memory), Err(Error::Runaway));
}

#[test]
fn committing_into_a_full_ring_changes_nothing() {
    let (memory, mut producer, _) = ring(2);
    for value in 0..2 {
        post(&memory, &mut producer, value).unwrap();
    }
    producer.commit();
    assert_eq!(producer.index(), 2);
}

#[test]
fn indices_wrap() {
    let geometry = Geometry::new(4, 16).unwrap();
    let start = u32::MAX - 1;
    let memory = Memory::new(geometry.size());
    memory.set_word(layout::PRODUCER, start);
    memory.set_word(layout::CONSUMER, start);
    let mut producer = Producer::resume_at(geometry, start);
    let mut consumer = Consumer::resume_at(geometry, start);
    for value in 0..16u64 {
        post(&memory, &mut producer, value).unwrap();
        let slot = consumer.fetch(&memory).unwrap().unwrap();
        let mut found = [0; 8];
        slot.read(&memory, 0, &mut found).unwrap();
        assert_eq!(u64::from_ne_bytes(found), value);
        consumer.retire(1).unwrap();
        consumer.publish(&memory).unwrap();
    }
}

#[test]
fn a_discarded_ring_goes_on_without_telling_the_producer() {
    let (memory, mut producer, mut consumer) = ring(4);
    for value in 0..3 {
        post(&memory, &mut producer, value).unwrap();
    }
    consumer.fetch(&memory).unwrap();
    consumer.discard(&memory).unwrap();
    assert_eq!(consumer.in_work(), 0);
    assert_eq!(consumer.available(&memory), Ok(0));
    assert_eq!(producer.refresh(&memory), Ok(4));
    post(&memory, &mut producer, 9).unwrap();
    assert_eq!(consumer.available(&memory), Ok(1));
}

#[test]
fn the_doorbell_is_asked_for_only_by_an_idle_consumer() {
    let (memory, mut producer, mut consumer) = ring(4);
    assert_eq!(consumer.prepare_idle(&memory), Ok(Idle::Sleep));
    producer.vacant(&memory).unwrap();
    producer.commit();
    assert_eq!(producer.publish_with_doorbell(&memory), Ok(true));
    consumer.resume(&memory).unwrap();
    producer.vacant(&memory).unwrap();
    producer.commit();
    assert_eq!(producer.publish_with_doorbell(&memory), Ok(false));
    assert_eq!(consumer.prepare_idle(&memory), Ok(Idle::Busy));
    assert_eq!(memory.load_acquire(layout::NEED_DOORBELL), Some(0));
    while consumer.fetch(&memory).unwrap().is_some() {}
    assert_eq!(consumer.prepare_idle(&memory), Ok(Idle::Sleep));
}

#[test]
fn memory_that_is_too_small_is_an_error() {
    let geometry = Geometry::new(4, 16).unwrap();
    let memory = Memory::new(8);
    let consumer = Consumer::new(geometry);
    assert_eq!(consumer.publish(&memory), Err(Error::OutOfBounds));
    assert_eq!(consumer.prepare_idle(&memory), Err(Error::OutOfBounds));
}

#[test]
fn a_producer_goes_on_behind_what_was_moved_into_its_ring() {
    let (memory, ..) = ring(4);
    let geometry = Geometry::new(4, 16).unwrap();
    assert!(Producer::resume_filled(geometry, 5).is_none());
    for filled in 0..=4 {
        memory.set_word(layout::CONSUMER, 0);
        memory.set_word(layout::PRODUCER, filled);
        let mut producer = Producer::resume_filled(geometry, filled).unwrap();
        let mut consumer = Consumer::new(geometry);
        for _ in filled..4 {
            post(&memory, &mut producer, 1).unwrap();
        }
        assert_eq!(post(&memory, &mut producer, 1), Err(Error::Full));
        assert_eq!(consumer.available(&memory), Ok(4));
        assert!(consumer.fetch(&memory).unwrap().is_some());
        consumer.retire(1).unwrap();
        consumer.publish(&memory).unwrap();
        post(&memory, &mut producer, 1).unwrap();
        assert_eq!(consumer.available(&memory), Ok(4));
    }
}

#[test]
fn what_was_not_published_can_be_taken_back() {
    let (memory, mut producer, consumer) = ring(4);
    post(&memory, &mut producer, 1).unwrap();
    for _ in 0..3 {
        producer.vacant(&memory).unwrap();
        producer.commit();
    }
    assert_eq!(producer.vacant(&memory), Err(Error::Full));
    producer.abandon();
    assert!(!producer.has_unpublished());
    assert_eq!((producer.index(), producer.oldest()), (1, 0));
    post(&memory, &mut producer, 2).unwrap();
    assert_eq!(consumer.available(&memory), Ok(2));
}

#[test]
fn entries_move_to_another_ring_while_more_come_and_some_go() {
    // Slots that are no multiple of what is copied at a time.
    let geometry = |entries| Geometry::new(entries, 72).unwrap();
    let (small, large) = (geometry(4), geometry(8));
    let old = Memory::new(small.size());
    let new = Memory::new(large.size());
    let mut producer = Producer::resume_at(small, u32::MAX - 1);
    let mut consumer = Consumer::resume_at(small, u32::MAX - 1);
    consumer.publish(&old).unwrap();
    for value in 0..3 {
        post(&old, &mut producer, value).unwrap();
    }
    let mut migration = Migration::new(small, large, consumer.fetched()).unwrap();
    assert_eq!(migration.step(&old, &new, producer.index(), 2), Ok(false));

    // One is taken, two are added: the last in the slot of the first.
    consumer.fetch(&old).unwrap();
    consumer.retire(1).unwrap();
    consumer.publish(&old).unwrap();
    for value in 3..5 {
        post(&old, &mut producer, value).unwrap();
    }
    assert_eq!(migration.step(&old, &new, producer.index(), 2), Ok(false));
    assert_eq!(migration.step(&old, &new, producer.index(), 2), Ok(true));
    assert_eq!(migration.moved(), 5);
    assert_eq!(migration.place(consumer.fetched()), 1);
    for n in 0..5u32 {
        let mut value = [0; 8];
        large.slot(n).read(&new, 0, &mut value).unwrap();
        assert_eq!(u64::from_ne_bytes(value), u64::from(n));
    }
}

#[test]
fn what_does_not_fit_is_not_moved() {
    let (memory, ..) = ring(8);
    let (other, ..) = ring(2);
    let geometry = |entries, stride| Geometry::new(entries, stride).unwrap();
    assert!(Migration::new(geometry(8, 16), geometry(8, 24), 0).is_none());
    let mut migration = Migration::new(geometry(8, 16), geometry(2, 16), 7).unwrap();
    assert_eq!(migration.step(&memory, &other, 10, 8), Err(Error::Full));
    assert_eq!(migration.step(&memory, &other, 9, 8), Ok(true));
    // An index that goes back.
    assert_eq!(migration.step(&memory, &other, 8, 8), Err(Error::Runaway));
    assert_eq!(migration.step(&memory, &other, 6, 8), Err(Error::Full));
}
