// SPDX-License-Identifier: GPL-2.0

//! Hosts with connections on a fabric, and the loop that makes things happen.
//!
//! Hosts pull: while the least loaded of a host's network devices has less than
//! [`WorldConfig::device`] bytes to send, the connections that have something to send take turns,
//! a burst each. So a host's own link is no queue that anyone would have to control; Linux does the
//! same with byte queue limits. Acknowledgements and retransmissions do not wait for a turn.

use std::collections::VecDeque;

use proto::connection::Intro;
use proto::packet::Qpn;
use proto::path::{Path, RxStats, TxSlot, TxStats, SPAN};
use proto::wire::{Gid, Plane, PlaneList, Token};

use crate::calendar::Event;
use crate::endpoint::{connection, Conn, Endpoint, LazySlots};
use crate::fabric::{Fabric, FabricConfig, Hop};
use crate::messages::Messages;
use crate::net::{Ends, Net, Port};
use crate::rc;
use crate::rng::{mix, Rng};
use crate::time::{instant, Ps, MS, NS, US};
use crate::transport::{Settings, Transport};

/// Room for NAKs in a connection: nothing is refused here.
const NAKS: usize = 4;

/// What a world is made of.
#[derive(Clone, Copy, Debug)]
pub struct WorldConfig {
    /// The network.
    pub fabric: FabricConfig,
    /// What connections are.
    pub transport: Transport,
    /// How MetaRoCE is set.
    pub settings: Settings,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Bytes that a network device takes ahead.
    pub device: u64,
    /// All that is random follows from it.
    pub seed: u64,
}

#[derive(Debug)]
enum Kind {
    Meta(Box<Endpoint<Messages>>),
    Sender(Box<rc::Sender>),
    Receiver(Box<rc::Receiver>),
}

impl std::fmt::Debug for Endpoint<Messages> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("app", &self.app).finish()
    }
}

#[derive(Debug)]
struct Node {
    flow: u32,
    ends: Ends,
    /// In the queue of its host.
    queued: bool,
    /// Which queue that is.
    queue: u32,
    /// For when a timer event is under way.
    timer: Ps,
    /// Of the baseline.
    plane: u8,
    port: u16,
    kind: Kind,
}

impl Node {
    fn wants_to_send(&self) -> bool {
        match &self.kind {
            Kind::Meta(e) => e.app.wants_to_send(),
            Kind::Sender(s) => s.wants_to_send(),
            Kind::Receiver(_) => false,
        }
    }

    fn deadline(&self, now: Ps) -> Option<Ps> {
        match &self.kind {
            Kind::Meta(e) => e.deadline().map(|d| d.0.saturating_mul(NS)),
            Kind::Sender(s) => s.deadline(now),
            Kind::Receiver(_) => None,
        }
    }

    /// Sends what is due but for new data.
    fn control(&mut self, net: &mut Net) {
        let now = net.now;
        match &mut self.kind {
            Kind::Meta(e) => {
                let ends = self.ends;
                e.control(instant(now), &mut Port { net, ends });
            }
            Kind::Sender(s) => s.on_timeout(now),
            Kind::Receiver(_) => {}
        }
    }

    /// Sends a burst of new data; returns whether there may be more to send now.
    fn burst(&mut self, net: &mut Net) -> bool {
        let now = net.now;
        match &mut self.kind {
            Kind::Meta(e) => {
                let ends = self.ends;
                e.burst(instant(now), &mut Port { net, ends })
            }
            Kind::Sender(s) => match s.next(now) {
                Some(packet) => {
                    net.send_rc(self.ends, self.plane, self.port, packet);
                    true
                }
                None => false,
            },
            Kind::Receiver(_) => false,
        }
    }

    fn delivered(&mut self) -> (u64, Option<&mut Vec<u32>>) {
        match &mut self.kind {
            Kind::Meta(e) => (e.app.delivered, Some(&mut e.app.complete)),
            Kind::Receiver(r) => (r.delivered, Some(&mut r.complete)),
            Kind::Sender(_) => (0, None),
        }
    }
}

/// Queues of a host: one for each plane, for connections bound to it, and one for all planes.
const QUEUES: u32 = 9;
/// The one for all planes.
const ANY: u32 = 8;

#[derive(Debug, Default)]
struct Queue {
    /// Endpoints with something to send, in turn.
    turn: VecDeque<u32>,
    /// An event is under way for when a device has room.
    waits: bool,
}

/// Payload that arrived, by group of flows and time.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Width of a bin.
    pub bin: Ps,
    /// Bytes of each bin, of each group.
    pub groups: Vec<Vec<u64>>,
}

impl Series {
    fn add(&mut self, now: Ps, group: u32, bytes: u64) {
        let Some(i) = now.checked_div(self.bin) else {
            return;
        };
        let group = group as usize;
        if self.groups.len() <= group {
            self.groups.resize(group + 1, Vec::new());
        }
        let bins = &mut self.groups[group];
        if bins.len() <= i as usize {
            bins.resize(i as usize + 1, 0);
        }
        bins[i as usize] += bytes;
    }
}

/// What a scenario does while the world turns.
pub trait Workload {
    /// A message of `flow` has arrived.
    fn complete(&mut self, _world: &mut World, _flow: u32, _message: u32) {}
    /// The time of a [`World::script`] has come.
    fn script(&mut self, _world: &mut World, _what: u32) {}
}

/// Nothing to do.
pub struct Idle;
impl Workload for Idle {}

#[derive(Clone, Copy, Debug)]
struct Flow {
    tx: u32,
    rx: u32,
    group: u32,
    /// Bytes that were noted already.
    delivered: u64,
}

/// A world.
#[derive(Debug)]
pub struct World {
    /// As made.
    pub cfg: WorldConfig,
    /// The network.
    pub net: Net,
    nodes: Vec<Node>,
    /// By host and queue.
    queues: Vec<Queue>,
    flows: Vec<Flow>,
    rng: Rng,
    complete: Vec<(u32, u32)>,
    /// Arrivals over time, once its bin is set.
    pub series: Series,
    /// Events worked off.
    pub events: u64,
}

impl World {
    /// A world without connections, at time 0.
    pub fn new(cfg: WorldConfig) -> Self {
        let mut rng = Rng::new(cfg.seed);
        let fabric = Fabric::new(cfg.fabric, rng.next());
        let n = cfg.fabric.shape.n_hosts();
        World {
            net: Net::new(fabric, rng.next()),
            nodes: Vec::new(),
            queues: (0..n * QUEUES).map(|_| Queue::default()).collect(),
            flows: Vec::new(),
            rng,
            complete: Vec::new(),
            series: Series::default(),
            events: 0,
            cfg,
        }
    }

    /// Now.
    pub fn now(&self) -> Ps {
        self.net.now
    }

    fn planes_of(&self, host: u32) -> PlaneList {
        let mut list = PlaneList::new();
        for id in 0..self.cfg.fabric.planes {
            let [_, _, high, low] = host.to_be_bytes();
            let plane = Plane {
                gid: Gid::from_v4([10, id, high, low]),
                speed: u32::try_from(self.cfg.fabric.rate).unwrap_or(u32::MAX),
                id,
                up: true,
            };
            list.push(plane).expect("few enough planes");
        }
        list
    }

    fn meta(&mut self, host: u32, peer: u32) -> Kind {
        let planes = self.planes_of(host);
        let (id, seed) = (self.rng.next() as u32 | 1, self.rng.next() as u32);
        let cfg = self.cfg.settings.config(id, seed, planes, self.cfg.mtu);
        let conn = connection(cfg, NAKS);
        let app = Messages::new(self.cfg.mtu);
        let mut e = Endpoint::new(conn, app, self.rng.next());
        let gid = |h| self.planes_of(h).get(0).expect("a plane").gid;
        let intro = Intro {
            local_qpn: Qpn(1),
            peer_qpn: Qpn(1),
            token: Token::default(),
            local_gid: gid(host),
            peer_gid: gid(peer),
        };
        if host < peer {
            e.conn.start(instant(self.net.now), intro);
        }
        Kind::Meta(Box::new(e))
    }

    /// Makes a connection for data from `src` to `dst` and returns its number.
    pub fn connect(&mut self, src: u32, dst: u32) -> u32 {
        let flow = self.flows.len() as u32;
        let tx = self.nodes.len() as u32;
        let rx = tx + 1;
        // As a bond or a path selector of the fabric would: by a hash.
        let h = mix(self.rng.next());
        let plane = (h % u64::from(self.cfg.fabric.planes)) as u8;
        let port = 49_152 + (h >> 32) as u16 % 16_384;
        let kinds = match self.cfg.transport {
            Transport::MetaRoce => [self.meta(src, dst), self.meta(dst, src)],
            Transport::Rc => {
                let sender = rc::Sender::new(self.cfg.mtu, self.cfg.fabric.per_byte());
                [
                    Kind::Sender(Box::new(sender)),
                    Kind::Receiver(Box::default()),
                ]
            }
        };
        let ends = [(src, dst, rx), (dst, src, tx)];
        for (kind, (from, host, to)) in kinds.into_iter().zip(ends) {
            self.nodes.push(Node {
                flow,
                ends: Ends { from, host, to },
                queued: false,
                queue: match self.cfg.transport {
                    Transport::MetaRoce => from * QUEUES + ANY,
                    Transport::Rc => from * QUEUES + u32::from(plane),
                },
                timer: Ps::MAX,
                plane,
                port,
                kind,
            });
        }
        self.flows.push(Flow {
            tx,
            rx,
            group: 0,
            delivered: 0,
        });
        flow
    }

    /// Lets all connections come up, and the network become quiet.
    pub fn establish(&mut self) {
        for e in 0..self.nodes.len() as u32 {
            self.service(e);
        }
        let up = |w: &World| {
            w.nodes.iter().all(|n| match &n.kind {
                Kind::Meta(e) => e.conn.established(),
                _ => true,
            })
        };
        for _ in 0..1000 {
            let until = self.net.now + 100 * US;
            self.run(until, &mut Idle);
            if up(self) {
                return;
            }
        }
        panic!("connections do not come up within {} ms", self.net.now / MS);
    }

    /// Number of connections.
    pub fn n_flows(&self) -> u32 {
        self.flows.len() as u32
    }

    /// Puts a flow into a group of [`World::series`].
    pub fn set_group(&mut self, flow: u32, group: u32) {
        self.flows[flow as usize].group = group;
    }

    /// Payload of a flow that has arrived.
    pub fn delivered(&self, flow: u32) -> u64 {
        self.flows[flow as usize].delivered
    }

    /// Payload of all flows that has arrived.
    pub fn delivered_total(&self) -> u64 {
        self.flows.iter().map(|f| f.delivered).sum()
    }

    /// Posts a message of `len` bytes.
    pub fn post(&mut self, flow: u32, len: u32) {
        let f = self.flows[flow as usize];
        match &mut self.nodes[f.rx as usize].kind {
            Kind::Meta(e) => e.app.expect(len),
            Kind::Sender(_) | Kind::Receiver(_) => {}
        }
        match &mut self.nodes[f.tx as usize].kind {
            Kind::Meta(e) => e.app.post(len),
            Kind::Sender(s) => s.post(len),
            Kind::Receiver(_) => {}
        }
        self.service(f.tx);
    }

    /// Lets a flow send for ever, or not any more.
    pub fn set_endless(&mut self, flow: u32, endless: bool) {
        let f = self.flows[flow as usize];
        if let Kind::Meta(e) = &mut self.nodes[f.rx as usize].kind {
            e.app.expect_endless();
        }
        match &mut self.nodes[f.tx as usize].kind {
            Kind::Meta(e) => e.app.set_endless(endless),
            Kind::Sender(s) => s.set_endless(endless),
            Kind::Receiver(_) => {}
        }
        self.service(f.tx);
    }

    /// Calls [`Workload::script`] at a time.
    pub fn script(&mut self, at: Ps, what: u32) {
        self.net.events.add(at, Event::Script(what));
    }

    /// A plane's links go down or come up at every host, and the hosts see it.
    pub fn set_carrier(&mut self, plane: u8, up: bool) {
        self.net.fabric.set_plane(plane, up);
        for e in 0..self.nodes.len() {
            if let Kind::Meta(n) = &mut self.nodes[e].kind {
                n.conn.set_local_plane(instant(self.net.now), plane, up);
            }
            self.service(e as u32);
        }
    }

    /// Works off all events up to `until`.
    pub fn run(&mut self, until: Ps, workload: &mut impl Workload) {
        while let Some((at, event)) = self.net.events.next(until) {
            self.net.now = self.net.now.max(at);
            self.events += 1;
            match event {
                Event::Arrive(i) => {
                    if let Some(i) = self.net.arrive(i) {
                        self.deliver(i);
                    }
                }
                Event::Timer(e) => self.timer(e),
                Event::Room(q) => {
                    self.queues[q as usize].waits = false;
                    self.run_queue(q);
                }
                Event::Script(what) => workload.script(self, what),
            }
            while let Some((flow, message)) = self.complete.pop() {
                workload.complete(self, flow, message);
            }
        }
        self.net.now = self.net.now.max(until);
    }

    fn deliver(&mut self, i: u32) {
        let now = self.net.now;
        let p = self.net.packet(i);
        let (to, ce, rc) = (p.to, p.ce, p.rc);
        let bytes = std::mem::take(&mut p.bytes);
        let Node {
            kind,
            ends,
            plane,
            port,
            ..
        } = &mut self.nodes[to as usize];
        match (kind, rc) {
            (Kind::Meta(e), _) => e.receive(instant(now), ce, &bytes),
            (Kind::Sender(s), Some(packet)) => s.receive(now, &packet),
            (Kind::Receiver(r), Some(packet)) => {
                let net = &mut self.net;
                r.receive(now, &packet, ce, |answer| {
                    net.send_rc(*ends, *plane, *port, answer);
                });
            }
            _ => {}
        }
        self.net.packet(i).bytes = bytes;
        self.net.release(i);
        self.note_delivered(to);
        self.service(to);
    }

    fn note_delivered(&mut self, e: u32) {
        let node = &mut self.nodes[e as usize];
        let flow = node.flow;
        let f = &mut self.flows[flow as usize];
        if f.rx != e {
            return;
        }
        let (delivered, complete) = node.delivered();
        let bytes = delivered - f.delivered;
        if bytes == 0 {
            return;
        }
        f.delivered = delivered;
        self.series.add(self.net.now, f.group, bytes);
        if let Some(list) = complete {
            self.complete.extend(list.drain(..).map(|m| (flow, m)));
        }
    }

    fn timer(&mut self, e: u32) {
        let now = self.net.now;
        let node = &mut self.nodes[e as usize];
        if node.timer > now {
            // An earlier one, which another has replaced.
            return;
        }
        node.timer = Ps::MAX;
        // The baseline's timer paces, and is over when it may send.
        let paces = matches!(node.kind, Kind::Sender(_));
        if paces || node.deadline(now).is_some_and(|d| d <= now) {
            self.service(e);
        } else {
            self.arm(e);
        }
    }

    /// Lets an endpoint do what is due, and its host send.
    fn service(&mut self, e: u32) {
        let node = &mut self.nodes[e as usize];
        node.control(&mut self.net);
        let queue = node.queue;
        if !node.queued && node.wants_to_send() {
            node.queued = true;
            self.queues[queue as usize].turn.push_back(e);
        }
        self.run_queue(queue);
        self.arm(e);
    }

    fn arm(&mut self, e: u32) {
        let now = self.net.now;
        let node = &mut self.nodes[e as usize];
        if let Some(d) = node.deadline(now) {
            // Time must go on whatever the endpoint says.
            let d = d.max(now + NS);
            if d < node.timer {
                node.timer = d;
                self.net.events.add(d, Event::Timer(e));
            }
        }
    }

    /// When the devices that a queue feeds have room.
    fn room_at(&self, q: u32) -> Ps {
        let (host, queue) = (q / QUEUES, q % QUEUES);
        let fabric = &self.net.fabric;
        let planes = match queue {
            ANY => 0..self.cfg.fabric.planes,
            // CAST: below ANY.
            one => one as u8..one as u8 + 1,
        };
        let links = planes.map(|p| fabric.link(fabric.number(p, Hop::HostUp(host))));
        let room = links.filter(|l| l.up).map(|l| l.below_at(self.cfg.device));
        room.min().unwrap_or(0)
    }

    /// Endpoints of a host take turns while its devices have room.
    fn run_queue(&mut self, q: u32) {
        if self.queues[q as usize].waits {
            return;
        }
        let now = self.net.now;
        while !self.queues[q as usize].turn.is_empty() {
            let at = self.room_at(q);
            let queue = &mut self.queues[q as usize];
            if at > now {
                queue.waits = true;
                self.net.events.add(at, Event::Room(q));
                return;
            }
            let Some(e) = queue.turn.pop_front() else {
                return;
            };
            let node = &mut self.nodes[e as usize];
            if node.burst(&mut self.net) && node.wants_to_send() {
                queue.turn.push_back(e);
            } else {
                node.queued = false;
            }
            self.arm(e);
        }
    }

    /// The connections' ends, sender and receiver in turn.
    pub fn connections(&self) -> impl Iterator<Item = &Conn> {
        self.nodes.iter().filter_map(|n| match &n.kind {
            Kind::Meta(e) => Some(&e.conn),
            _ => None,
        })
    }

    /// The sending end of a flow.
    pub fn sender(&self, flow: u32) -> Option<&Conn> {
        match &self.nodes[self.flows[flow as usize].tx as usize].kind {
            Kind::Meta(e) => Some(&e.conn),
            _ => None,
        }
    }

    /// The baseline's sending end of a flow.
    pub fn rc_sender(&self, flow: u32) -> Option<&rc::Sender> {
        match &self.nodes[self.flows[flow as usize].tx as usize].kind {
            Kind::Sender(s) => Some(s),
            _ => None,
        }
    }

    /// Messages posted that have not arrived; for MetaRoCE, whose receivers know what to expect.
    pub fn outstanding(&self) -> usize {
        let left = |n: &Node| match &n.kind {
            Kind::Meta(e) => e.app.outstanding() + e.app.backlog(),
            _ => 0,
        };
        self.nodes.iter().map(left).sum()
    }

    /// Counters of all connections.
    pub fn totals(&self) -> Totals {
        let mut t = Totals::default();
        for c in self.connections() {
            t.tx.add(&c.tx_totals());
            t.rx.add(&c.rx_totals());
            t.reroutes += c.stats().reroutes_timeout;
            t.acks += c.stats().acks_sent;
        }
        for n in &self.nodes {
            match &n.kind {
                Kind::Sender(s) => {
                    t.rc_retransmits += s.retransmits;
                    t.rc_timeouts += s.timeouts;
                }
                Kind::Receiver(r) => t.rc_discarded += r.out_of_order,
                Kind::Meta(_) => {}
            }
        }
        for l in self.net.fabric.switch_links() {
            t.drops += l.drops;
            t.marks += l.marks;
            t.lost += l.lost;
            t.peak = t.peak.max(l.peak);
        }
        t
    }

    /// Bytes that one end of a connection takes, storage of the paths included.
    pub fn bytes_per_end(&self) -> usize {
        let paths = self
            .connections()
            .next()
            .map_or(0, |c| usize::from(c.n_paths()));
        let slots = SPAN as usize * std::mem::size_of::<TxSlot>();
        std::mem::size_of::<Conn>() + paths * (std::mem::size_of::<Path<LazySlots>>() + slots)
    }
}

/// Sums over all connections and links.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Sending.
    pub tx: TxStats,
    /// Receiving.
    pub rx: RxStats,
    /// ACKs sent.
    pub acks: u64,
    /// Routes changed by timeouts.
    pub reroutes: u64,
    /// The baseline's retransmissions.
    pub rc_retransmits: u64,
    /// The baseline's timeouts.
    pub rc_timeouts: u64,
    /// What its receivers threw away.
    pub rc_discarded: u64,
    /// Packets that full queues dropped.
    pub drops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets lost by links.
    pub lost: u64,
    /// Longest queue of a switch, bytes.
    pub peak: u64,
}
