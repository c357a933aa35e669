// SPDX-License-Identifier: GPL-2.0

//! The shape of a plane: a folded Clos network of two or three levels.
//!
//! With one pod it is a leaf-spine network: the "aggs" are its spines and there are no cores. With
//! several pods, agg `a` of every pod is joined to cores `a * cores ..`, as in the fat tree of
//! Al-Fares et al. (SIGCOMM 2008).

/// Counts of a plane's parts. All planes are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pods.
    pub pods: u32,
    /// Leaf switches of a pod.
    pub leafs: u32,
    /// Hosts at a leaf.
    pub hosts: u32,
    /// Aggregation switches of a pod (spines, if there is one pod).
    pub aggs: u32,
    /// Core switches that each aggregation switch is joined to.
    pub cores: u32,
}

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At a host.
    Host(u32),
    /// At a leaf, numbered through all pods.
    Leaf(u32),
    /// At an aggregation switch, numbered through all pods.
    Agg(u32),
    /// At a core.
    Core(u32),
}

/// A link of a plane, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Host to leaf.
    HostUp(u32),
    /// Leaf to host.
    HostDown(u32),
    /// Leaf to aggregation switch of its pod.
    LeafUp(u32, u32),
    /// Aggregation switch to leaf of its pod.
    AggDown(u32, u32),
    /// Aggregation switch to one of its cores.
    AggUp(u32, u32),
    /// Core to the aggregation switch of a pod.
    CoreDown(u32, u32),
}

impl Shape {
    /// A leaf-spine network without oversubscription.
    pub const fn leaf_spine(leafs: u32, hosts: u32) -> Self {
        Shape {
            pods: 1,
            leafs,
            hosts,
            aggs: hosts,
            cores: 0,
        }
    }

    /// Hosts in all.
    pub fn n_hosts(&self) -> u32 {
        self.pods * self.leafs * self.hosts
    }

    fn n_leafs(&self) -> u32 {
        self.pods * self.leafs
    }

    fn n_aggs(&self) -> u32 {
        self.pods * self.aggs
    }

    fn n_cores(&self) -> u32 {
        if self.pods > 1 {
            self.aggs * self.cores
        } else {
            0
        }
    }

    /// Links of a plane.
    pub fn n_links(&self) -> u32 {
        2 * (self.n_hosts() + self.n_leafs() * self.aggs + self.n_cores() * self.pods)
    }

    /// The number of a link within its plane, below [`Shape::n_links`].
    pub fn index(&self, hop: Hop) -> u32 {
        let up = self.n_hosts();
        let leaf = 2 * up;
        let agg = leaf + self.n_leafs() * self.aggs;
        let core = agg + self.n_aggs() * self.leafs;
        match hop {
            Hop::HostUp(h) => h,
            Hop::HostDown(h) => up + h,
            Hop::LeafUp(l, a) => leaf + l * self.aggs + a,
            Hop::AggDown(a, l) => agg + a * self.leafs + l,
            Hop::AggUp(a, c) => core + a * self.cores + c,
            Hop::CoreDown(c, p) => core + self.n_aggs() * self.cores + c * self.pods + p,
        }
    }

    /// All links of a plane with their ends, in the order of their numbers.
    pub fn links(&self) -> Vec<(Hop, End)> {
        let mut all = Vec::new();
        all.extend((0..self.n_hosts()).map(|h| (Hop::HostUp(h), End::Leaf(h / self.hosts))));
        all.extend((0..self.n_hosts()).map(|h| (Hop::HostDown(h), End::Host(h))));
        for l in 0..self.n_leafs() {
            let pod = l / self.leafs;
            all.extend((0..self.aggs).map(|a| (Hop::LeafUp(l, a), End::Agg(pod * self.aggs + a))));
        }
        for a in 0..self.n_aggs() {
            let pod = a / self.aggs;
            let leaf = |l| End::Leaf(pod * self.leafs + l);
            all.extend((0..self.leafs).map(|l| (Hop::AggDown(a, l), leaf(l))));
        }
        if self.pods > 1 {
            for a in 0..self.n_aggs() {
                let core = |c| End::Core(a % self.aggs * self.cores + c);
                all.extend((0..self.cores).map(|c| (Hop::AggUp(a, c), core(c))));
            }
            for c in 0..self.n_cores() {
                let agg = |p| End::Agg(p * self.aggs + c / self.cores);
                all.extend((0..self.pods).map(|p| (Hop::CoreDown(c, p), agg(p))));
            }
        }
        all
    }

    /// The link on which a packet to host `dst` leaves the switch at `end`. `pick(n)` chooses one
    /// of n equal links up. `None` at the host itself.
    pub fn next(&self, end: End, dst: u32, pick: impl FnOnce(u32) -> u32) -> Option<Hop> {
        let leaf = dst / self.hosts;
        let pod = leaf / self.leafs;
        Some(match end {
            End::Host(_) => return None,
            End::Leaf(l) if l == leaf => Hop::HostDown(dst),
            End::Leaf(l) => Hop::LeafUp(l, pick(self.aggs)),
            End::Agg(a) if a / self.aggs == pod => Hop::AggDown(a, leaf % self.leafs),
            End::Agg(a) => Hop::AggUp(a, pick(self.cores)),
            End::Core(c) => Hop::CoreDown(c, pod),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_reaches_every_other() {
        let fat_tree = Shape {
            pods: 4,
            leafs: 2,
            hosts: 2,
            aggs: 2,
            cores: 2,
        };
        for shape in [fat_tree, Shape::leaf_spine(4, 4)] {
            let links = shape.links();
            assert_eq!(links.len() as u32, shape.n_links());
            for (i, (hop, _)) in links.iter().enumerate() {
                assert_eq!(shape.index(*hop), i as u32);
            }
            for src in 0..shape.n_hosts() {
                for dst in 0..shape.n_hosts() {
                    let mut hop = Hop::HostUp(src);
                    for k in 0..7 {
                        let (_, end) = links[shape.index(hop) as usize];
                        match shape.next(end, dst, |n| (src * 7 + dst + k) % n) {
                            Some(next) => hop = next,
                            None => {
                                assert_eq!(end, End::Host(dst));
                                break;
                            }
                        }
                        assert!(k < 6, "{src} to {dst} goes round in circles");
                    }
                }
            }
        }
    }
}
