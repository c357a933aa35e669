// SPDX-License-Identifier: GPL-2.0

//! Loss, disorder, refusals and marks.

use super::*;

#[test]
fn a_fifo_network_without_loss_needs_no_retransmission() {
    seeds(1, 20, |seed| {
        let mut rng = Rng::new(seed);
        let plane = Plane {
            delay: 5_000,
            jitter: 20_000,
            ..Plane::default()
        };
        let setup = Setup {
            planes: [1 + rng.below(3) as u8, 1 + rng.below(3) as u8],
            window: 1 + rng.below(256) as u32,
            refuse: [0, 30][rng.below(2) as usize],
            trouble: Trouble {
                slow: [0, 300, 5_000][rng.below(3) as usize],
                put_back: 0,
            },
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 3], &setup);
        // What overtakes the INIT_ACK is dropped, and that would be a loss.
        let packets = nodes.each_mut().map(|e| std::mem::take(&mut e.app.to_send));
        let limit = sim.now.after(Duration::from_millis(1_000));
        assert!(sim.run(&mut nodes, limit, |_, n| n
            .iter()
            .all(|e| e.conn.established())));
        for (e, n) in nodes.iter_mut().zip(packets) {
            e.app.to_send = n;
        }
        run(&mut sim, &mut nodes, 60);
        for e in &nodes {
            let (tx, rx) = (e.conn.tx_totals(), e.conn.rx_totals());
            assert_eq!(tx.retransmits(), 0, "{tx:?} {:?}", e.conn.stats());
            assert_eq!(tx.timeouts, 0);
            assert_eq!((rx.duplicates, rx.outside, rx.gaps), (0, 0, 0));
        }
    });
}

#[test]
fn loss_is_repaired() {
    seeds(2, 20, |seed| {
        let mut rng = Rng::new(seed);
        let loss = [10, 100, 1_000, 3_000][rng.below(4) as usize];
        let plane = Plane {
            jitter: 10_000,
            loss,
            ..Plane::default()
        };
        let setup = Setup {
            window: 1 + rng.below(256) as u32,
            refuse: 50,
            abort: 50,
            trouble: Trouble {
                slow: 300,
                put_back: 500,
            },
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        run(&mut sim, &mut nodes, 600);
    });
}

/// Evidence is exact: on a FIFO network what is sent again was lost, but for packets whose
/// acknowledgement took longer than the timers allow.
#[test]
fn only_what_was_lost_is_sent_again() {
    seeds(3, 6, |seed| {
        let plane = Plane {
            loss: 100,
            ..Plane::default()
        };
        let setup = Setup {
            packets: [20_000, 0],
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        run(&mut sim, &mut nodes, 600);
        let tx = nodes[0].conn.tx_totals();
        let rx = nodes[1].conn.rx_totals();
        assert!(tx.retransmits_gap > 100, "{tx:?}");
        // Timeouts may guess wrong, evidence may not.
        assert!(rx.duplicates <= tx.retransmits_timeout, "{tx:?} {rx:?}");
    });
}

#[test]
fn any_disorder_is_survived() {
    seeds(4, 16, |seed| {
        let mut rng = Rng::new(seed);
        let mut plane = || Plane {
            delay: 1_000 + rng.below(200_000),
            jitter: rng.below(1_000_000),
            loss: rng.below(1_000) as u32,
            duplicate: rng.below(1_000) as u32,
            reorder: rng.below(2_000) as u32,
            ..Plane::default()
        };
        let links = vec![plane(), plane(), plane()];
        let setup = Setup {
            planes: [1 + rng.below(3) as u8, 1 + rng.below(3) as u8],
            window: 1 + rng.below(256) as u32,
            naks: 1 + rng.below(8) as usize,
            refuse: rng.below(500) as u32,
            abort: rng.below(500) as u32,
            trouble: Trouble {
                slow: rng.below(3_000) as u32,
                put_back: rng.below(3_000) as u32,
            },
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, links, &setup);
        run(&mut sim, &mut nodes, 600);
    });
}

/// Both sides refuse everything: the NAKs must get through all the same.
#[test]
fn refusals_do_not_block_each_other() {
    seeds(5, 10, |seed| {
        let plane = Plane {
            loss: 100,
            ..Plane::default()
        };
        let setup = Setup {
            window: 256,
            naks: 16 + Rng::new(seed).below(2_000) as usize,
            refuse: 10_000,
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        run(&mut sim, &mut nodes, 600);
    });
}

#[test]
fn marks_are_counted_once() {
    let plane = Plane {
        rate: 1_000,
        mark: 100_000,
        ..Plane::default()
    };
    let setup = Setup {
        planes: [1, 1],
        ..Setup::default()
    };
    let (mut sim, mut nodes) = start(11, vec![plane], &setup);
    run(&mut sim, &mut nodes, 60);
    let [a, b] = &nodes;
    assert!(a.conn.tx_totals().marks > 100);
    assert_eq!(a.conn.tx_totals().marks, b.conn.rx_totals().marks);
}

#[test]
fn connecting_survives_loss() {
    seeds(10, 50, |seed| {
        let plane = Plane {
            loss: 5_000,
            ..Plane::default()
        };
        let setup = Setup {
            planes: [1, 1],
            packets: [0, 0],
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane], &setup);
        let limit = sim.now.after(Duration::from_millis(20_000));
        let up = sim.run(&mut nodes, limit, |_, n| {
            n.iter().all(|e| e.conn.established())
        });
        assert!(up);
        let [a, b] = &nodes;
        assert_eq!(a.conn.peer_id(), b.conn.local_id());
        assert_eq!(b.conn.peer_id(), a.conn.local_id());
    });
}
