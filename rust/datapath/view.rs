// SPDX-License-Identifier: GPL-2.0

//! What connections, their planes and their paths are doing, as lines of JSON.
//!
//! The user guide documents the fields. New ones may be added; none changes its meaning.

use super::{
    conn::{
        Conn,
        ConnInner,
        Proto, //
    },
    endpoint::Endpoint,
    shares::Shares, //
};
use crate::net::addr;
use core::fmt;
use proto::{
    congestion::CongestionControl,
    connection::{
        ConnStats,
        PlaneStats,
        State, //
    },
    packet::PathId,
    path::{
        Route,
        RxStats,
        TxStats, //
    },
    time::Duration,
    wire::Gid, //
};

/// A connection, as far as it is shown.
#[derive(Clone, Copy)]
struct ConnView {
    peer_id: u32,
    state: State,
    law: &'static str,
    n_paths: u16,
    n_planes: u8,
    hint: u32,
    /// What this side allots to the peer, kbit/s.
    allotted: u32,
    /// 1/256 packet.
    window: u32,
    in_flight: u32,
    stats: ConnStats,
}

/// A local plane of a connection.
#[derive(Clone, Copy)]
struct PlaneView {
    ifindex: u32,
    speed: u32,
    up: bool,
    usable_paths: u16,
    rtt_min: Duration,
    /// What came in of late, kbit/s; 0 if the peer is no sender that shares are worked out for.
    inbound: u64,
    stats: PlaneStats,
}

/// A path.
#[derive(Clone, Copy)]
struct PathView {
    route: Route,
    usable: bool,
    silent: bool,
    timeouts: u8,
    law: &'static str,
    /// 1/256 packet.
    window: u32,
    in_flight: u32,
    srtt: Duration,
    rtt_var: Duration,
    rtt_min: Duration,
    loss: u32,
    marked: u32,
    tx: TxStats,
    rx: RxStats,
}

impl ConnView {
    fn of(inner: &ConnInner, shares: &Shares) -> Self {
        let proto = &inner.proto;
        let (mut window, mut in_flight) = (0, 0);
        for i in 0..proto.n_paths() {
            if let Some(p) = proto.path(PathId(i)).filter(|_| proto.is_usable(PathId(i))) {
                window += p.tx.controller().fine_window().raw();
                in_flight += p.tx.in_flight();
            }
        }
        Self {
            peer_id: proto.peer_id(),
            state: proto.state(),
            law: proto.controller().name(),
            n_paths: proto.n_paths(),
            n_planes: proto.local_planes().len(),
            hint: proto.rate_hint(),
            allotted: inner.hint(shares),
            window,
            in_flight,
            stats: *proto.stats(),
        }
    }
}

impl PathView {
    fn of(proto: &Proto, path: PathId) -> Option<Self> {
        let p = proto.path(path)?;
        Some(Self {
            route: p.tx.route(),
            usable: proto.is_usable(path),
            silent: p.tx.is_silent(),
            timeouts: p.tx.timeouts(),
            law: p.tx.controller().name(),
            window: p.tx.controller().fine_window().raw(),
            in_flight: p.tx.in_flight(),
            srtt: p.tx.rtt().smoothed().unwrap_or(Duration::ZERO),
            rtt_var: p.tx.rtt().variation(),
            rtt_min: p.tx.rtt().min(),
            loss: p.tx.loss_share(),
            marked: p.tx.controller().marked_share(),
            tx: *p.tx.stats(),
            rx: *p.rx.stats(),
        })
    }
}

/// An address as text.
struct Address(Gid);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some([a, b, c, d]) = addr::to_ipv4(&self.0 .0) {
            return write!(f, "{a}.{b}.{c}.{d}");
        }
        write!(f, "{}", core::net::Ipv6Addr::from(self.0 .0))
    }
}

/// Thousandths of a packet.
fn milli(raw: u32) -> u64 {
    u64::from(raw) * 1000 / 256
}

impl fmt::Display for ConnView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Idle => "idle",
            State::Connecting => "connecting",
            State::Established => "established",
            State::Closed => "closed",
        };
        let s = &self.stats;
        write!(
            f,
            "\"peer_id\":{},\"state\":\"{state}\",\"cc\":\"{}\",\"paths\":{},\"hint_kbps\":{},\
             \"allotted_kbps\":{},\"window_milli\":{},\"in_flight\":{},\"acks_sent\":{},\"acks_received\":{},\
             \"naks_sent\":{},\"reroutes_timeout\":{},\"reroutes_plane\":{},\"planes_left\":{},\
             \"returns\":{}",
            self.peer_id,
            self.law,
            self.n_paths,
            self.hint,
            self.allotted,
            milli(self.window),
            self.in_flight,
            s.acks_sent,
            s.acks_received,
            s.naks_sent,
            s.reroutes_timeout,
            s.reroutes_plane,
            s.planes_left,
            s.returns,
        )
    }
}

impl fmt::Display for PlaneView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.stats;
        write!(
            f,
            "\"ifindex\":{},\"speed_mbps\":{},\"up\":{},\"paths\":{},\"rtt_min_ns\":{},\
             \"inbound_kbps\":{},\"packets\":{},\"bytes\":{},\"retransmits\":{},\"downs\":{}",
            self.ifindex,
            self.speed,
            self.up,
            self.usable_paths,
            self.rtt_min.0,
            self.inbound,
            s.packets,
            s.bytes,
            s.retransmits,
            s.downs,
        )
    }
}

impl fmt::Display for PathView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (r, t, x) = (&self.route, &self.tx, &self.rx);
        let state = match (self.usable, self.silent) {
            (false, _) => "down",
            (_, true) => "silent",
            _ => "up",
        };
        write!(
            f,
            "\"plane\":{},\"peer_plane\":{},\"src_port\":{},\"epoch\":{},\"state\":\"{state}\",\
             \"timeouts_in_row\":{},\"cc\":\"{}\",\"window_milli\":{},\"in_flight\":{},\
             \"srtt_ns\":{},\"rttvar_ns\":{},\"rtt_min_ns\":{},\"loss_permille\":{},\
             \"marked_permille\":{}",
            r.local_plane,
            r.remote_plane,
            r.src_port,
            r.epoch,
            self.timeouts,
            self.law,
            milli(self.window),
            self.in_flight,
            self.srtt.0,
            self.rtt_var.0,
            self.rtt_min.0,
            self.loss * 1000 / 1024,
            self.marked * 1000 / 1024,
        )?;
        write!(
            f,
            ",\"packets\":{},\"bytes\":{},\"acked\":{},\"retransmits_gap\":{},\
             \"retransmits_probe\":{},\"retransmits_timeout\":{},\"spurious\":{},\"marks\":{},\
             \"probes\":{},\"timeouts\":{},\"route_changes\":{}",
            t.packets,
            t.bytes,
            t.acked,
            t.retransmits_gap,
            t.retransmits_probe,
            t.retransmits_timeout,
            t.spurious,
            t.marks,
            t.probes,
            t.timeouts,
            t.route_changes,
        )?;
        write!(
            f,
            ",\"rx_packets\":{},\"rx_duplicates\":{},\"rx_gaps\":{},\"rx_marks\":{}",
            x.packets, x.duplicates, x.gaps, x.marks,
        )
    }
}

impl Endpoint {
    /// Writes a line for each connection, each of its planes and each of its paths. Process
    /// context.
    pub(crate) fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        self.for_each_conn(|conn| {
            if result.is_ok() {
                result = conn.describe(f);
            }
        });
        result
    }
}

impl Conn {
    /// Writes the lines of one connection. Process context.
    pub(crate) fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Copied line by line, so that the lock is never held for long.
        let (id, key) = (self.id(), self.key());
        let view = ConnView::of(&self.inner.lock(), &self.endpoint.shares);
        let (local, remote) = (Address(key.local), Address(key.remote));
        writeln!(
            f,
            "{{\"type\":\"connection\",\"id\":{id},\"local\":\"{local}\",\"remote\":\"{remote}\",\
             {view}}}"
        )?;
        for i in 0..view.n_planes {
            let Some(plane) = self.plane_view(i) else {
                break;
            };
            writeln!(
                f,
                "{{\"type\":\"plane\",\"id\":{id},\"plane\":{i},{plane}}}"
            )?;
        }
        for i in 0..view.n_paths {
            let path = PathView::of(&self.inner.lock().proto, PathId(i));
            let Some(path) = path else {
                break;
            };
            writeln!(f, "{{\"type\":\"path\",\"id\":{id},\"path\":{i},{path}}}")?;
        }
        Ok(())
    }

    fn plane_view(&self, i: u8) -> Option<PlaneView> {
        let inner = self.inner.lock();
        let proto = &inner.proto;
        let on_it = |path: &u16| {
            let at = proto.route(PathId(*path)).map(|r| r.local_plane);
            at == Some(i) && proto.is_usable(PathId(*path))
        };
        let plane = proto.local_planes().get(i)?;
        let meter = inner.meters.get(usize::from(i))?;
        // CAST: There are far fewer than 2^16 paths.
        let usable_paths = (0..proto.n_paths()).filter(on_it).count() as u16;
        Some(PlaneView {
            ifindex: inner.plane_ifindex(i)?,
            speed: plane.speed,
            up: plane.up,
            usable_paths,
            rtt_min: proto.plane_rtt(i),
            inbound: if meter.is_active() { meter.rate() } else { 0 },
            stats: *proto.plane_stats(i)?,
        })
    }
}
