// SPDX-License-Identifier: GPL-2.0

//! What a perfect transport on a perfect network would do: a fluid model.
//!
//! The network blocks nowhere but at the hosts, whose links, all planes together, are shared
//! max-min fairly among the connections that have something to send, at once and without overhead
//! other than headers. A connection sends its messages one after the other.

use std::collections::VecDeque;

use proto::wire::LINK_OVERHEAD;

use crate::fabric::FabricConfig;
use crate::rc;
use crate::time::Ps;
use crate::transport::Transport;

/// A message to transfer.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// When it is posted.
    pub at: Ps,
    /// Its connection.
    pub flow: u32,
    /// From host.
    pub src: u32,
    /// To host.
    pub dst: u32,
    /// Payload bytes.
    pub len: u32,
}

/// Payload that all planes of a host carry, bytes per picosecond.
pub fn capacity(fabric: &FabricConfig, mtu: u32, transport: Transport) -> f64 {
    let overhead = match transport {
        Transport::MetaRoce => LINK_OVERHEAD,
        Transport::Rc => rc::OVERHEAD,
    };
    let share = f64::from(mtu) / f64::from(mtu + overhead);
    f64::from(fabric.planes) * share / fabric.per_byte() as f64
}

/// Time from the end of a message's transfer in the fluid model until its last packet is placed:
/// the last of the planes' packets, and the way through the network.
pub fn latency(fabric: &FabricConfig, mtu: u32) -> Ps {
    let size = u64::from(mtu + LINK_OVERHEAD);
    let packet = size * fabric.per_byte();
    let planes = u64::from(fabric.planes);
    fabric.one_way(size) - packet + packet * (planes - 1) / planes
}

#[derive(Debug)]
struct Active {
    src: usize,
    dst: usize,
    flow: u32,
    /// Index of the job and bytes left of it.
    jobs: VecDeque<(usize, f64)>,
    rate: f64,
}

/// Transfer time of each job, without [`latency`]. `capacity` is that of a host, each way; jobs
/// come in the order of their times.
pub fn transfer_times(jobs: &[Job], hosts: u32, capacity: f64) -> Vec<Ps> {
    let mut done = vec![0; jobs.len()];
    let mut active: Vec<Active> = Vec::new();
    let mut now = 0.0;
    let mut next = 0;
    while next < jobs.len() || !active.is_empty() {
        share(&mut active, hosts as usize, capacity);
        let arrival = jobs.get(next).map_or(f64::INFINITY, |j| j.at as f64);
        let left = |a: &Active| a.jobs.front().map_or(f64::INFINITY, |j| j.1) / a.rate;
        let end = now + active.iter().map(left).fold(f64::INFINITY, f64::min);
        let until = arrival.min(end);
        for a in &mut active {
            let sent = a.rate * (until - now);
            if let Some(job) = a.jobs.front_mut() {
                job.1 -= sent;
                // Less than a byte is rounding.
                if job.1 < 0.5 {
                    done[job.0] = until as Ps - jobs[job.0].at;
                    a.jobs.pop_front();
                }
            }
        }
        active.retain(|a| !a.jobs.is_empty());
        now = until;
        while let Some(j) = jobs.get(next).filter(|j| j.at as f64 <= now) {
            let job = (next, f64::from(j.len));
            match active.iter_mut().find(|a| a.flow == j.flow) {
                Some(a) => a.jobs.push_back(job),
                None => active.push(Active {
                    src: j.src as usize,
                    dst: j.dst as usize,
                    flow: j.flow,
                    jobs: VecDeque::from([job]),
                    rate: 0.0,
                }),
            }
            next += 1;
        }
    }
    done
}

/// Max-min fair rates (Bertsekas and Gallager, Data Networks, 6.5.2): the tightest link fixes the
/// rates of the connections on it, and so on with what remains.
fn share(active: &mut [Active], hosts: usize, capacity: f64) {
    // Links up first, then links down.
    let mut room = vec![capacity; 2 * hosts];
    let mut users = vec![0u32; 2 * hosts];
    for a in active.iter_mut() {
        a.rate = -1.0;
        users[a.src] += 1;
        users[hosts + a.dst] += 1;
    }
    loop {
        let fair = |l: usize| room[l] / f64::from(users[l]);
        let used = (0..2 * hosts).filter(|l| users[*l] > 0);
        let Some(tightest) = used.min_by(|a, b| fair(*a).total_cmp(&fair(*b))) else {
            return;
        };
        let rate = fair(tightest).max(0.0);
        for a in active.iter_mut().filter(|a| a.rate < 0.0) {
            let links = [a.src, hosts + a.dst];
            if links.contains(&tightest) {
                a.rate = rate;
                for l in links {
                    room[l] -= rate;
                    users[l] -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(at: Ps, flow: u32, src: u32, dst: u32, len: u32) -> Job {
        Job {
            at,
            flow,
            src,
            dst,
            len,
        }
    }

    #[test]
    fn links_are_shared_max_min() {
        // Two into host 2, one of which shares its host's link with a third.
        let jobs = [
            job(0, 0, 0, 2, 1000),
            job(0, 1, 1, 2, 1000),
            job(0, 2, 1, 3, 1000),
            job(500, 3, 0, 1, 1000),
        ];
        let done = transfer_times(&jobs, 4, 1.0);
        // Half each; the last has host 0 to itself from 2000 on, when a quarter is left.
        assert_eq!(done, [2000, 2000, 2000, 1750]);
    }

    #[test]
    fn messages_of_a_connection_queue() {
        let jobs = [job(0, 0, 0, 1, 1000), job(200, 0, 0, 1, 500)];
        assert_eq!(transfer_times(&jobs, 2, 1.0), [1000, 1300]);
    }
}
