// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! All interleavings of the doorbell protocol, under the C11 memory model: no wake-up is lost, and
//! no slot is read while it is written.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{fence, AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ring::{layout, Consumer, Geometry, Idle, Producer, Shared};

const ENTRIES: u32 = 2;
const STRIDE: u32 = 8;

/// A ring of loom's own atomics; loom reports unordered accesses to `slots`.
struct Modelled {
    producer: AtomicU32,
    consumer: AtomicU32,
    need_doorbell: AtomicU32,
    slots: [UnsafeCell<u8>; ENTRIES as usize],
    fences: bool,
}

// SAFETY: that the protocol orders the accesses to `slots` is what loom checks here.
unsafe impl Sync for Modelled {}

impl Modelled {
    fn new(fences: bool) -> Self {
        Self {
            producer: AtomicU32::new(0),
            consumer: AtomicU32::new(0),
            // As the kernel creates it: nobody looks at the ring.
            need_doorbell: AtomicU32::new(1),
            slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
            fences,
        }
    }

    fn word(&self, off: usize) -> Option<&AtomicU32> {
        match off {
            layout::PRODUCER => Some(&self.producer),
            layout::CONSUMER => Some(&self.consumer),
            layout::NEED_DOORBELL => Some(&self.need_doorbell),
            _ => None,
        }
    }

    fn cell(&self, off: usize) -> Option<&UnsafeCell<u8>> {
        let off = off.checked_sub(layout::HEADER_SIZE)?;
        self.slots.get(off / STRIDE as usize)
    }
}

impl Shared for Modelled {
    fn len(&self) -> usize {
        layout::HEADER_SIZE + (ENTRIES * STRIDE) as usize
    }

    fn load_acquire(&self, off: usize) -> Option<u32> {
        Some(self.word(off)?.load(Ordering::Acquire))
    }

    fn store_release(&self, off: usize, value: u32) -> Option<()> {
        self.word(off)?.store(value, Ordering::Release);
        Some(())
    }

    fn full_fence(&self) {
        if self.fences {
            fence(Ordering::SeqCst);
        }
    }

    fn read(&self, off: usize, buf: &mut [u8]) -> Option<()> {
        let cell = self.cell(off)?;
        // SAFETY: loom checks that no other thread accesses the cell meanwhile.
        *buf.first_mut()? = cell.with(|p| unsafe { *p });
        Some(())
    }

    fn write(&self, off: usize, buf: &[u8]) -> Option<()> {
        let value = *buf.first()?;
        // SAFETY: as in `read`.
        self.cell(off)?.with_mut(|p| unsafe { *p = value });
        Some(())
    }
}

/// The doorbell: what the system call does to the kernel's worker.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    wake: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.wake.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.wake.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// Runs a producer of `count` entries against a sleeping consumer; a lost wake-up is a deadlock,
/// which loom reports.
fn run(count: u8, fences: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let geometry = Geometry::new(ENTRIES, STRIDE).unwrap();
        let shared = Arc::new((Modelled::new(fences), Bell::default()));

        let peer = shared.clone();
        let poster = thread::spawn(move || {
            let (ring, bell) = &*peer;
            let mut producer = Producer::new(geometry);
            for value in 1..=count {
                let slot = producer.vacant(ring).unwrap();
                slot.write(ring, 0, &[value]).unwrap();
                producer.commit();
                if producer.publish_with_doorbell(ring).unwrap() {
                    bell.ring();
                }
            }
        });

        let (ring, bell) = &*shared;
        let mut consumer = Consumer::new(geometry);
        let mut expected = 1;
        while expected <= count {
            bell.wait();
            consumer.resume(ring).unwrap();
            loop {
                while let Some(slot) = consumer.fetch(ring).unwrap() {
                    let mut value = [0];
                    slot.read(ring, 0, &mut value).unwrap();
                    assert_eq!(value, [expected]);
                    expected += 1;
                    consumer.retire(1).unwrap();
                    consumer.publish(ring).unwrap();
                }
                if consumer.prepare_idle(ring).unwrap() == Idle::Sleep {
                    break;
                }
            }
        }
        poster.join().unwrap();
    });
}

#[test]
fn no_wake_up_is_lost() {
    run(2, true);
}

/// The model can fail: without the fences, loom finds the lost wake-up.
#[test]
#[should_panic(expected = "deadlock")]
fn the_fences_are_needed() {
    run(2, false);
}

/// A slot is used again only when the other side is through with it.
#[test]
fn reuse_of_a_slot_is_ordered() {
    loom::model(|| {
        let geometry = Geometry::new(ENTRIES, STRIDE).unwrap();
        let ring = Arc::new(Modelled::new(true));
        let peer = ring.clone();
        let poster = thread::spawn(move || {
            let mut producer = Producer::new(geometry);
            let mut value = 1;
            while value <= 3 {
                let Ok(slot) = producer.vacant(&*peer) else {
                    thread::yield_now();
                    continue;
                };
                slot.write(&*peer, 0, &[value]).unwrap();
                producer.commit();
                producer.publish(&*peer).unwrap();
                value += 1;
            }
        });
        let mut consumer = Consumer::new(geometry);
        let mut expected = 1;
        while expected <= 3 {
            let Some(slot) = consumer.fetch(&*ring).unwrap() else {
                thread::yield_now();
                continue;
            };
            let mut value = [0];
            slot.read(&*ring, 0, &mut value).unwrap();
            assert_eq!(value, [expected]);
            expected += 1;
            consumer.retire(1).unwrap();
            consumer.publish(&*ring).unwrap();
        }
        poster.join().unwrap();
    });
}
