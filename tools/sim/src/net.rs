// SPDX-License-Identifier: GPL-2.0

//! Packets on their way through the fabric.

use crate::calendar::{Calendar, Event};
use crate::endpoint::{Outgoing, Outlet};
use crate::fabric::{Fabric, Hop};
use crate::rc::{self, RcPacket};
use crate::rng::{mix, Rng};
use crate::time::Ps;

/// Bytes around the UDP payload: preamble, gap, Ethernet, IPv4, UDP.
const FRAME: u32 = 38 + 20 + 8;
/// The least Ethernet frame with preamble and gap.
const LEAST: u32 = 84;

/// A packet on a link. Kept and used again, with its buffer.
#[derive(Debug, Default)]
pub struct Packet {
    link: u32,
    /// Destination host.
    host: u32,
    /// Destination endpoint.
    pub to: u32,
    size: u32,
    /// Of the five-tuple.
    hash: u64,
    ect: bool,
    /// It was marked.
    pub ce: bool,
    /// Header as on the wire; nothing for the baseline.
    pub bytes: Vec<u8>,
    /// The baseline's.
    pub rc: Option<RcPacket>,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// The sending host.
    pub from: u32,
    /// The receiving host.
    pub host: u32,
    /// The receiving endpoint.
    pub to: u32,
}

/// The network: clock, events, packets, fabric.
#[derive(Debug)]
pub struct Net {
    /// Now.
    pub now: Ps,
    /// What will happen.
    pub events: Calendar,
    /// The planes.
    pub fabric: Fabric,
    packets: Vec<Packet>,
    free: Vec<u32>,
    rng: Rng,
    /// Packets sent to a plane that is not the sender's: separate fabrics do not reach each other.
    pub misrouted: u64,
}

impl Net {
    /// A network at time 0.
    pub fn new(fabric: Fabric, seed: u64) -> Self {
        Net {
            now: 0,
            events: Calendar::default(),
            fabric,
            packets: Vec::new(),
            free: Vec::new(),
            rng: Rng::new(seed),
            misrouted: 0,
        }
    }

    fn launch(&mut self, ends: Ends, plane: u8, port: u16, size: u32) -> Option<u32> {
        let link = self.fabric.number(plane, Hop::HostUp(ends.from));
        let (at, _) = self.fabric.send(link, self.now, size, &mut self.rng)?;
        let i = self.free.pop().unwrap_or_else(|| {
            self.packets.push(Packet::default());
            self.packets.len() as u32 - 1
        });
        let p = &mut self.packets[i as usize];
        p.link = link;
        p.host = ends.host;
        p.to = ends.to;
        p.size = size;
        let tuple = u64::from(ends.from) << 40 | u64::from(ends.host) << 16 | u64::from(port);
        p.hash = mix(tuple);
        p.ce = false;
        p.rc = None;
        p.bytes.clear();
        self.events.add(at, Event::Arrive(i));
        Some(i)
    }

    /// Sends a packet of the baseline.
    pub fn send_rc(&mut self, ends: Ends, plane: u8, port: u16, packet: RcPacket) {
        let (size, ect) = match packet {
            RcPacket::Data { len, .. } => (len + rc::OVERHEAD, true),
            _ => (rc::CONTROL, false),
        };
        if let Some(i) = self.launch(ends, plane, port, size) {
            let p = &mut self.packets[i as usize];
            p.ect = ect;
            p.rc = Some(packet);
        }
    }

    /// A packet has come to the end of its link. Returns it if that was its last.
    pub fn arrive(&mut self, i: u32) -> Option<u32> {
        let p = &mut self.packets[i as usize];
        if self.fabric.link_mut(p.link).loses(&mut self.rng) {
            self.free.push(i);
            return None;
        }
        let Some(link) = self.fabric.next(p.link, p.host, p.hash) else {
            return Some(i);
        };
        p.link = link;
        match self.fabric.send(link, self.now, p.size, &mut self.rng) {
            Some((at, mark)) => {
                p.ce |= mark && p.ect;
                self.events.add(at, Event::Arrive(i));
            }
            None => self.free.push(i),
        }
        None
    }

    /// A packet that has arrived.
    pub fn packet(&mut self, i: u32) -> &mut Packet {
        &mut self.packets[i as usize]
    }

    /// It is not needed any more.
    pub fn release(&mut self, i: u32) {
        self.free.push(i);
    }

    /// Most packets that were on their way at once.
    pub fn most_packets(&self) -> usize {
        self.packets.len()
    }
}

/// Where an endpoint's packets go.
pub struct Port<'a> {
    /// The network.
    pub net: &'a mut Net,
    /// The endpoint and its peer.
    pub ends: Ends,
}

impl Outlet for Port<'_> {
    fn send(&mut self, packet: Outgoing<'_>) {
        let route = packet.route;
        if route.local_plane != route.remote_plane {
            self.net.misrouted += 1;
            return;
        }
        let size = (packet.header.len() as u32 + packet.payload_len + FRAME).max(LEAST);
        let launched = self
            .net
            .launch(self.ends, route.local_plane, route.src_port, size);
        if let Some(i) = launched {
            let p = &mut self.net.packets[i as usize];
            p.ect = packet.ect;
            p.bytes.extend_from_slice(packet.header);
        }
    }
}
