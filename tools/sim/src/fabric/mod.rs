// SPDX-License-Identifier: GPL-2.0

//! The planes: links, queues, ECMP.

mod link;
mod topology;

pub use link::{Link, Queueing};
pub use topology::{End, Hop, Shape};

use crate::rng::{mix, Rng};
use crate::time::Ps;

/// What a fabric is made of.
#[derive(Clone, Copy, Debug)]
pub struct FabricConfig {
    /// Shape of each plane.
    pub shape: Shape,
    /// Number of planes.
    pub planes: u8,
    /// Rate of every link, Mbit/s.
    pub rate: u64,
    /// Delay of every link with the switch behind it.
    pub delay: Ps,
    /// Further delay of the last link: the receiving host.
    pub host_delay: Ps,
    /// The switches' queues.
    pub queueing: Queueing,
}

impl FabricConfig {
    /// Time that one byte takes on a link.
    pub fn per_byte(&self) -> Ps {
        8_000_000 / self.rate.max(1)
    }

    /// Links between the hosts that are farthest from each other.
    pub fn diameter(&self) -> u64 {
        if self.shape.pods > 1 {
            6
        } else if self.shape.leafs > 1 {
            4
        } else {
            2
        }
    }

    /// Time that a packet of `size` bytes needs between the hosts farthest apart, without queues.
    pub fn one_way(&self, size: u64) -> Ps {
        self.diameter() * (self.delay + size * self.per_byte()) + self.host_delay
    }

    /// Round trip of a packet of `size` bytes and an ACK, without queues.
    pub fn rtt(&self, size: u64) -> Ps {
        self.one_way(size) + self.one_way(84)
    }
}

/// All planes.
#[derive(Debug)]
pub struct Fabric {
    /// As made.
    pub cfg: FabricConfig,
    links: Vec<Link>,
    ends: Vec<(Hop, End)>,
    salt: u64,
}

impl Fabric {
    /// Makes the planes; `salt` is what the switches put into their hashes.
    pub fn new(cfg: FabricConfig, salt: u64) -> Self {
        let ends = cfg.shape.links();
        let link = |(hop, end): &(Hop, End)| {
            let queueing = match hop {
                Hop::HostUp(_) => Queueing::UNBOUNDED,
                _ => cfg.queueing,
            };
            let delay = match end {
                End::Host(_) => cfg.delay + cfg.host_delay,
                _ => cfg.delay,
            };
            Link::new(cfg.rate, delay, queueing)
        };
        Fabric {
            links: (0..cfg.planes)
                .flat_map(|_| ends.iter().map(link))
                .collect(),
            cfg,
            ends,
            salt,
        }
    }

    /// The number of a link among all.
    pub fn number(&self, plane: u8, hop: Hop) -> u32 {
        u32::from(plane) * self.cfg.shape.n_links() + self.cfg.shape.index(hop)
    }

    /// A link.
    pub fn link(&self, number: u32) -> &Link {
        &self.links[number as usize]
    }

    /// A link, to change it.
    pub fn link_mut(&mut self, number: u32) -> &mut Link {
        &mut self.links[number as usize]
    }

    /// All links that leave a switch.
    pub fn switch_links(&self) -> impl Iterator<Item = &Link> {
        let ends = self.ends.iter().cycle();
        let pairs = self.links.iter().zip(ends);
        pairs
            .filter(|(_, (hop, _))| !matches!(hop, Hop::HostUp(_)))
            .map(|(link, _)| link)
    }

    /// Takes a plane down, or up again. Nobody is told.
    pub fn set_plane(&mut self, plane: u8, up: bool) {
        let n = self.cfg.shape.n_links() as usize;
        let first = usize::from(plane) * n;
        for link in &mut self.links[first..first + n] {
            link.up = up;
        }
    }

    /// Where a packet to `dst` with the flow's `hash` goes behind link `number`; `None` if it has
    /// arrived.
    pub fn next(&self, number: u32, dst: u32, hash: u64) -> Option<u32> {
        let n = self.cfg.shape.n_links();
        let (plane, index) = (number / n, number % n);
        let (_, end) = self.ends[index as usize];
        let pick = |k: u32| {
            let switch = match end {
                End::Host(i) | End::Leaf(i) => i,
                End::Agg(i) => i | 1 << 20,
                End::Core(i) => i | 1 << 21,
            };
            let h = mix(hash ^ self.salt ^ u64::from(switch | plane << 24));
            // The upper bits, scaled: as good as a remainder.
            (((h >> 32) * u64::from(k)) >> 32) as u32
        };
        let hop = self.cfg.shape.next(end, dst, pick)?;
        Some(plane * n + self.cfg.shape.index(hop))
    }

    /// Puts a packet on a link, see [`Link::send`].
    pub fn send(&mut self, number: u32, now: Ps, size: u32, rng: &mut Rng) -> Option<(Ps, bool)> {
        self.links[number as usize].send(now, size, rng)
    }
}
