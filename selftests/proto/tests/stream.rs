// SPDX-License-Identifier: GPL-2.0

//! Queue pairs end to end: messages over connections over a troubled network.

mod sim;

use proto::congestion::{Controller, FixedWindow};
use proto::connection::Config;
use proto::state::{Reader, Writer, MAX_LEN};
use proto::stream::{
    MsgSlot, RecvStream, Refusal, Response, SendMsg, SendOp, SendStream, WcStatus, MSG_WINDOW,
};
use proto::time::{Duration, Instant};
use sim::host::{Attributes, Host, Message, Plan};
use sim::net::Plane;
use sim::{connection, ends, seeds, Endpoint, Ends, Rng, Sim, Trouble};

struct Setup {
    planes: [u8; 2],
    qps: usize,
    messages: usize,
    max_len: u32,
    window: u32,
    naks: usize,
    attr: [Attributes; 2],
    receive_gap: u64,
    trouble: Trouble,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            planes: [2, 2],
            qps: 4,
            messages: 200,
            max_len: 20_000,
            window: 64,
            naks: 256,
            attr: Default::default(),
            receive_gap: 0,
            trouble: Trouble::default(),
        }
    }
}

type Nodes = [Endpoint<Host>; 2];

fn pair(seed: u64, s: &Setup) -> Nodes {
    let plans = |host: u64| -> Vec<Plan> {
        (0..s.qps as u64)
            .map(|i| Plan::random(seed ^ host << 32 ^ i << 40, s.messages, s.max_len))
            .collect()
    };
    nodes(seed, s, [plans(1), plans(2)])
}

fn nodes(seed: u64, s: &Setup, plans: [Vec<Plan>; 2]) -> Nodes {
    let setup = Ends {
        planes: s.planes,
        window: s.window,
        naks: s.naks,
        trouble: s.trouble,
        qpns: [0x100, 0x200],
    };
    ends(&mut Rng::new(seed ^ 0x5555), setup, |i, rng| {
        let both = plans[i].iter().cloned().zip(plans[1 - i].iter().cloned());
        let (first, first_of_peer) = (setup.qpns[i], setup.qpns[1 - i]);
        let both = both.collect();
        let mut host = Host::new(rng.next(), first, first_of_peer, both, &s.attr[i]);
        host.receive_gap = s.receive_gap;
        host
    })
}

/// The two, and the links between them.
fn start(seed: u64, links: Vec<Plane>, s: &Setup) -> (Sim, Nodes) {
    (Sim::new(seed, links), pair(seed, s))
}

/// What the requester takes for complete, the responder must have delivered.
fn check(nodes: &Nodes) {
    for i in 0..2 {
        for (q, peer) in nodes[i].app.qps.iter().zip(&nodes[1 - i].app.qps) {
            let delivers = |m: &Message| !matches!(m.op, SendOp::Read | SendOp::Local);
            let done = q
                .completions
                .iter()
                .zip(&q.mine.messages)
                .filter(|(c, m)| c.status == WcStatus::Success && delivers(m))
                .count();
            assert!(peer.delivered as usize >= done);
        }
    }
}

fn finished(nodes: &Nodes) -> bool {
    nodes
        .iter()
        .all(|e| e.app.qps.iter().all(|q| q.done()) && e.conn.is_idle())
}

fn run(sim: &mut Sim, nodes: &mut Nodes, secs: u64) {
    let limit = sim.now.after(Duration::from_millis(secs * 1000));
    let mut steps = 0u32;
    let ok = sim.run(nodes, limit, |_, nodes| {
        steps += 1;
        if steps % 64 == 0 {
            check(nodes);
        }
        finished(nodes)
    });
    check(nodes);
    if ok {
        return;
    }
    for e in nodes.iter() {
        eprintln!(
            "{:?}\n{:?}\n{:?}",
            e.conn.tx_totals(),
            e.conn.rx_totals(),
            e.conn.stats()
        );
        for q in &e.app.qps {
            eprintln!(
                "{:?}: {} of {} complete, received {}, delivered {}, {:?}",
                q.tx.config().qpn,
                q.completions.len(),
                q.mine.messages.len(),
                q.received,
                q.delivered,
                q.failed
            );
        }
    }
    panic!("stuck at {:?}", sim.now);
}

fn assert_success(nodes: &Nodes) {
    for e in nodes {
        for q in &e.app.qps {
            for (k, c) in q.completions.iter().enumerate() {
                assert_eq!(
                    c.status,
                    WcStatus::Success,
                    "message {k} {:?}",
                    q.mine.messages[k]
                );
            }
        }
    }
}

#[test]
fn every_operation_completes_in_order() {
    seeds(1, 10, |seed| {
        let mut rng = Rng::new(seed);
        let plane = Plane {
            jitter: 50_000,
            ..Plane::default()
        };
        let setup = Setup {
            planes: [1 + rng.below(3) as u8, 1 + rng.below(3) as u8],
            window: 1 + rng.below(240) as u32,
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 3], &setup);
        run(&mut sim, &mut nodes, 60);
        assert_success(&nodes);
    });
}

#[test]
fn loss_and_disorder_do_not_show() {
    seeds(2, 16, |seed| {
        let mut rng = Rng::new(seed);
        let mut plane = || Plane {
            delay: 1_000 + rng.below(100_000),
            jitter: rng.below(200_000),
            loss: rng.below(1_000) as u32,
            duplicate: rng.below(500) as u32,
            reorder: rng.below(500) as u32,
            ..Plane::default()
        };
        let links = vec![plane(), plane(), plane()];
        let setup = Setup {
            planes: [1 + rng.below(3) as u8, 1 + rng.below(3) as u8],
            window: 1 + rng.below(240) as u32,
            trouble: Trouble {
                put_back: 500,
                slow: 500,
            },
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, links, &setup);
        run(&mut sim, &mut nodes, 600);
        assert_success(&nodes);
    });
}

#[test]
fn receivers_may_be_late() {
    seeds(3, 16, |seed| {
        let mut rng = Rng::new(seed);
        let mut plane = || Plane {
            jitter: rng.below(100_000),
            loss: rng.below(500) as u32,
            ..Plane::default()
        };
        let links = vec![plane(), plane()];
        let setup = Setup {
            naks: 4 + rng.below(64) as usize,
            receive_gap: 1 + rng.below(200_000),
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, links, &setup);
        run(&mut sim, &mut nodes, 600);
        assert_success(&nodes);
        let naks: u64 = nodes.iter().map(|e| e.conn.stats().naks_sent).sum();
        assert!(naks > 0);
    });
}

#[test]
fn queue_pairs_may_become_ready_at_any_time() {
    seeds(4, 10, |seed| {
        let mut rng = Rng::new(seed);
        let plane = Plane {
            loss: 100,
            ..Plane::default()
        };
        let setup = Setup {
            attr: [(); 2].map(|()| Attributes {
                ack_timeout: 1,
                ..Attributes::default()
            }),
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &setup);
        for e in &mut nodes {
            for q in &mut e.app.qps {
                q.ready_at = sim.now.after(Duration(rng.below(40_000_000)));
            }
        }
        run(&mut sim, &mut nodes, 600);
        assert_success(&nodes);
    });
}

/// One bad key ends one pair of QPs, in message order, and nobody else.
#[test]
fn an_access_error_ends_one_queue_pair() {
    seeds(5, 16, |seed| {
        let mut rng = Rng::new(seed);
        let plane = Plane {
            jitter: 50_000,
            loss: 100,
            ..Plane::default()
        };
        let mut sim = Sim::new(seed, vec![plane; 2]);
        let setup = Setup::default();
        let plans = [1u64, 2].map(|host| -> Vec<Plan> {
            (0..setup.qps as u64)
                .map(|i| Plan::random(seed ^ host << 32 ^ i << 40, 100, 20_000))
                .collect()
        });
        let [mut a, b] = plans;
        let bad = 20 + rng.below(60) as usize;
        a[0].messages[bad] = Message {
            op: [SendOp::Write, SendOp::Read][rng.below(2) as usize],
            len: 1 + rng.below(10_000) as u32,
            fence: false,
            bad: true,
        };
        let mut nodes = nodes(seed, &setup, [a, b]);
        run(&mut sim, &mut nodes, 600);
        for (host, e) in nodes.iter().enumerate() {
            for (i, q) in e.app.qps.iter().enumerate() {
                for (k, c) in q.completions.iter().enumerate() {
                    let wanted = match (host, i) {
                        (0, 0) if k < bad => vec![WcStatus::Success],
                        (0, 0) if k == bad => vec![WcStatus::RemoteAccess],
                        (0, 0) => vec![WcStatus::Flushed],
                        // The responder's own requests end as its QP goes to the error state, or
                        // find the peer's QP there.
                        (1, 0) => vec![
                            WcStatus::Success,
                            WcStatus::Flushed,
                            WcStatus::RetryExceeded,
                        ],
                        _ => vec![WcStatus::Success],
                    };
                    assert!(wanted.contains(&c.status), "{host} {i} {k} {:?}", c.status);
                }
            }
        }
        assert_eq!(nodes[1].app.qps[0].failed, Some(Refusal::RemoteAccess));
    });
}

#[test]
fn rnr_retries_run_out() {
    seeds(6, 10, |seed| {
        let mut sim = Sim::new(seed, vec![Plane::default()]);
        let setup = Setup {
            planes: [1, 1],
            qps: 1,
            attr: [(); 2].map(|()| Attributes {
                rnr_retry: 3,
                ..Attributes::default()
            }),
            // No receive is ever posted in time.
            receive_gap: 1 << 60,
            ..Setup::default()
        };
        let send = |n| Plan {
            seed,
            max_len: 5_000,
            messages: vec![
                Message {
                    op: SendOp::Send,
                    len: 3_000,
                    fence: false,
                    bad: false,
                };
                n
            ],
        };
        let mut nodes = nodes(seed, &setup, [vec![send(20)], vec![send(0)]]);
        let limit = sim.now.after(Duration::from_millis(5_000));
        sim.run(&mut nodes, limit, |_, n| n[0].app.qps[0].done());
        let q = &nodes[0].app.qps[0];
        assert!(q.done());
        let failed = q
            .completions
            .iter()
            .position(|c| c.status != WcStatus::Success);
        let k = failed.expect("a failure");
        assert_eq!(q.completions[k].status, WcStatus::RnrRetryExceeded);
        assert!(q.completions[k + 1..]
            .iter()
            .all(|c| c.status == WcStatus::Flushed));
    });
}

#[test]
fn a_silent_peer_is_given_up() {
    seeds(7, 10, |seed| {
        let setup = Setup {
            attr: [(); 2].map(|()| Attributes {
                retry_cnt: 2,
                ack_timeout: 14,
                ..Attributes::default()
            }),
            ..Setup::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![Plane::default(); 2], &setup);
        let at = sim.now.after(Duration::from_micros(600));
        sim.run(&mut nodes, at, |_, _| false);
        nodes[1].gone = true;
        let limit = sim.now.after(Duration::from_millis(5_000));
        sim.run(&mut nodes, limit, |_, n| {
            n[0].app.qps.iter().all(|q| q.done())
        });
        for q in &nodes[0].app.qps {
            assert!(q.done());
            let failed = q.completions.iter().find(|c| c.status != WcStatus::Success);
            assert_eq!(failed.map(|c| c.status), Some(WcStatus::RetryExceeded));
        }
    });
}

#[test]
fn a_plane_goes_down_and_comes_back_under_load() {
    seeds(8, 10, |seed| {
        let mut rng = Rng::new(seed);
        let plane = Plane {
            rate: 2_000,
            loss: 50,
            ..Plane::default()
        };
        let (mut sim, mut nodes) = start(seed, vec![plane; 2], &Setup::default());
        for round in 0..6 {
            let until = sim.now.after(Duration(1 + rng.below(5_000_000)));
            if sim.run(&mut nodes, until, |_, n| finished(n)) {
                break;
            }
            let up = round % 2 == 1;
            sim.planes[1].dead = !up;
            if rng.chance(5_000) {
                let (now, host) = (sim.now, rng.below(2) as usize);
                nodes[host].conn.set_local_plane(now, 1, up);
            }
        }
        for p in &mut sim.planes {
            p.dead = false;
        }
        run(&mut sim, &mut nodes, 600);
        assert_success(&nodes);
    });
}

/// Somebody else goes on with all that a host does, from nothing but its saved state.
fn relocate(e: &mut Endpoint<Host>, now: Instant, s: &Setup) {
    let mut buf = vec![0; MAX_LEN];
    let mut w = Writer::new(&mut buf).expect("room");
    e.conn.save(&mut w).expect("a connection with a peer");
    for q in &e.app.qps {
        q.tx.save(&mut w).expect("room");
        q.rx.save(&mut w).expect("room");
    }
    let len = w.len();
    let mut r = Reader::new(&buf[..len]).expect("a state");
    let mut cfg = Config::new(e.conn.local_id(), 1, *e.conn.local_planes());
    cfg.controller = Controller::Fixed(FixedWindow::new(s.window));
    e.conn = connection(cfg, s.naks);
    e.conn.load(now, &mut r).expect("its own state");
    for q in &mut e.app.qps {
        let (tx, rx) = (*q.tx.config(), *q.rx.config());
        let window = MSG_WINDOW as usize;
        let responses = 2 * rx.max_dest_rd_atomic as usize;
        q.tx = SendStream::new(vec![SendMsg::default(); window], tx);
        q.tx.load(now, tx, &mut r).expect("its own state");
        q.rx = RecvStream::new(
            vec![MsgSlot::default(); window],
            vec![Response::default(); responses.next_power_of_two()],
            rx,
        );
        q.rx.load(rx, &mut r).expect("its own state");
    }
    r.done().expect("all read");
    // Nothing less is a state, whatever is missing.
    for cut in [0, 3, 4, len / 2, len - 1] {
        let read = Reader::new(&buf[..cut]).and_then(|mut r| {
            let mut other = connection(cfg, s.naks);
            other.load(now, &mut r)?;
            for q in &e.app.qps {
                let cfg = *q.tx.config();
                let mut tx = SendStream::new(vec![SendMsg::default(); MSG_WINDOW as usize], cfg);
                tx.load(now, cfg, &mut r)?;
            }
            r.done()
        });
        assert!(read.is_err());
    }
}

/// A host moves again and again in the middle of everything: what it sends and receives is
/// complete, in order and once.
#[test]
fn whoever_goes_on_from_a_state_loses_nothing() {
    seeds(0x6d6f_7665, 8, |seed| {
        let s = Setup {
            receive_gap: 20_000,
            ..Setup::default()
        };
        let mut nodes = pair(seed, &s);
        let plane = Plane {
            loss: 200,
            duplicate: 100,
            reorder: 100,
            ..Plane::default()
        };
        let mut sim = Sim::new(seed, vec![plane; 2]);
        let mut rng = Rng::new(seed ^ 0x77);
        let mut moves = 0;
        let mut limit = sim.now;
        for _ in 0..300 {
            limit = limit.after(Duration::from_micros(50 + rng.below(300)));
            if sim.run(&mut nodes, limit, |_, nodes| finished(nodes)) {
                break;
            }
            let which = rng.below(2) as usize;
            if nodes[which].conn.established() {
                relocate(&mut nodes[which], sim.now, &s);
                moves += 1;
            }
        }
        run(&mut sim, &mut nodes, 60);
        assert!(moves > 5, "{moves}");
        assert_success(&nodes);
    });
}
