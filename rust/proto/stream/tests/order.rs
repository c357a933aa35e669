// SPDX-License-Identifier: GPL-2.0

//! Writes whose last bytes come last.

use super::model::{run, Setup, PLAIN};
use super::*;

fn ordered() -> Receiver {
    receiver(RecvConfig {
        last_byte_ordered: true,
        ..recv_config()
    })
}

fn write(msn: u32, epoch: u16, offset: u32, flags: StreamFlags) -> DataFields {
    DataFields {
        opcode: Opcode::Write,
        flags,
        dst_qpn: B,
        src_qpn: A,
        msn: START.add(msn),
        epoch,
        offset,
        va: 0x10_0000,
        rkey: 9,
        ..DataFields::default()
    }
}

/// Takes a packet; what is kept of it has bytes of this value.
fn take(r: &mut Receiver, f: &DataFields, len: u32, byte: u8) -> Target {
    match r.on_packet(f, len, Rsn(8)) {
        Verdict::Place(target) => {
            r.placed(f, len);
            if let Target::Ordered(_) = target {
                r.hold(f, &Tail::new(&[byte; Tail::MAX][..Tail::len_of(len)]));
            }
            target
        }
        other => panic!("{other:?} for {f:?}"),
    }
}

fn tail(va: u64, bytes: &[u8]) -> Option<Delivery> {
    Some(Delivery::Tail {
        target: MemoryRange {
            va,
            rkey: 9,
            len: u32::try_from(bytes.len()).unwrap(),
        },
        tail: Tail::new(bytes),
    })
}

#[test]
fn kept_for_the_rest_of_the_message() {
    let mut r = ordered();
    let last = write(0, 0, 2_048, LAST);
    assert!(!r.is_turn(&last, 1_000));
    let range = MemoryRange {
        va: 0x10_0800,
        rkey: 9,
        len: 1_000,
    };
    assert_eq!(take(&mut r, &last, 1_000, 5), Target::Ordered(range));
    assert_eq!(r.pop_delivery(), None);
    let middle = take(&mut r, &write(0, 0, 1_024, NONE), 1_024, 0);
    assert!(matches!(middle, Target::Memory(_)), "{middle:?}");
    assert_eq!(r.pop_delivery(), None);
    take(&mut r, &write(0, 0, 0, NONE), 1_024, 0);
    assert_eq!(r.pop_delivery(), tail(0x10_0000 + 3_048 - 8, &[5; 8]));
    assert_eq!(r.pop_delivery(), Some(Delivery::Write { byte_len: 3_048 }));
    assert_eq!(r.pop_delivery(), None);
}

#[test]
fn kept_for_earlier_messages() {
    let mut r = ordered();
    let (first, second) = (write(0, 0, 0, LAST), write(1, 0, 0, LAST));
    assert!(r.is_turn(&first, 4));
    assert!(!r.is_turn(&second, 3));
    take(&mut r, &second, 3, 2);
    assert_eq!(r.pop_delivery(), None);
    take(&mut r, &first, 4, 1);
    assert_eq!(r.pop_delivery(), tail(0x10_0000, &[1; 4]));
    assert_eq!(r.pop_delivery(), Some(Delivery::Write { byte_len: 4 }));
    assert_eq!(r.pop_delivery(), tail(0x10_0000, &[2; 3]));
    assert_eq!(r.pop_delivery(), Some(Delivery::Write { byte_len: 3 }));
}

#[test]
fn immediate_and_nothing_at_all() {
    let mut r = ordered();
    let imm = DataFields {
        opcode: Opcode::WriteImm,
        imm: 77,
        ..write(0, 0, 0, LAST)
    };
    take(&mut r, &imm, 9, 3);
    assert_eq!(r.pop_delivery(), tail(0x10_0001, &[3; 8]));
    assert!(matches!(r.pop_delivery(), Some(Delivery::Receive(got)) if got.imm == 77));
    // Without payload there is no last byte, and no memory.
    assert_eq!(take(&mut r, &write(1, 0, 0, LAST), 0, 0), Target::None);
    assert_eq!(r.pop_delivery(), Some(Delivery::Write { byte_len: 0 }));
}

/// What a refusal takes back is not written later on.
#[test]
fn given_up_with_its_attempt() {
    let mut r = ordered();
    take(&mut r, &write(1, 0, 0, LAST), 8, 1);
    let refused = write(0, 0, 0, LAST);
    assert!(r.refuse(&refused, Refusal::ReceiverNotReady).is_some());
    take(&mut r, &write(0, 1, 0, LAST), 8, 2);
    assert_eq!(r.pop_delivery(), tail(0x10_0000, &[2; 8]));
    assert_eq!(r.pop_delivery(), Some(Delivery::Write { byte_len: 8 }));
    assert_eq!(r.pop_delivery(), None);
    // That of the first attempt comes again, too late.
    r.hold(&write(1, 0, 0, LAST), &Tail::new(&[1; 8]));
    assert!(r.is_turn(&write(1, 1, 0, LAST), 8));
    take(&mut r, &write(1, 1, 0, LAST), 8, 3);
    assert_eq!(r.pop_delivery(), tail(0x10_0000, &[3; 8]));
}

/// A queue pair whose state is taken over goes on with what it keeps.
#[test]
fn saved_with_the_stream() {
    let mut r = ordered();
    take(&mut r, &write(0, 0, 1_024, LAST), 2, 6);
    let mut buf = [0; 1 << 15];
    let mut w = crate::state::Writer::new(&mut buf).unwrap();
    r.save(&mut w).unwrap();
    let cfg = *r.config();
    let mut other = ordered();
    let mut saved = crate::state::Reader::new(&buf).unwrap();
    other.load(cfg, &mut saved).unwrap();
    take(&mut other, &write(0, 0, 0, NONE), 1_024, 0);
    assert_eq!(other.pop_delivery(), tail(0x10_0400, &[6; 2]));
}

#[test]
fn not_of_others() {
    let mut r = receiver(recv_config());
    let last = write(0, 0, 0, LAST);
    assert!(matches!(take(&mut r, &last, 100, 1), Target::Memory(_)));
    assert_eq!(r.pop_delivery(), Some(Delivery::Write { byte_len: 100 }));
}

#[test]
fn lengths() {
    assert_eq!([0, 1, 7, 8, 9, 4_096].map(Tail::len_of), [0, 1, 7, 8, 8, 8]);
    assert_eq!(Tail::new(&[1; 9]).bytes(), [1; 8]);
    assert_eq!(Tail::new(&[]).bytes(), []);
}

const ORDERED: Setup = Setup {
    last_byte_ordered: true,
    ..PLAIN
};

#[test]
fn any_order() {
    assert!(run(0..300, ORDERED).early > 1_000);
}

#[test]
fn with_refusals() {
    for faults in [0, 3] {
        let setup = Setup {
            faults,
            receives: 5,
            not_ready: 10,
            naks_dropped: 20,
            messages: 60,
            ..ORDERED
        };
        let seen = run(0..300, setup);
        assert!(seen.early > 100 && seen.go_backs > 100, "{seen:?}");
    }
}
