// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: which datagram queue pairs are in which, and where the host has joined them.
//!
//! Groups are IP multicast groups. The network device of the primary plane joins them, for it is by
//! this one that datagrams of the device's GIDs go.

use crate::{
    datapath::{
        limits::{
            MAX_GROUPS,
            MAX_GROUP_MEMBERS,
            MAX_MEMBERS, //
        },
        plane::Planes,
    },
    net::netdev::{
        NetDevice,
        NetDeviceRef, //
    },
    sync::{
        list,
        lock_bh::{
            new_spinlock_bh,
            SpinLockBh, //
        },
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};
use proto::wire::Gid;

/// A queue pair in a group.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Member {
    group: Gid,
    /// Its key in the host's table.
    key: u32,
}

/// A group that has members.
struct Joined {
    group: Gid,
    members: u32,
    /// The network device that has joined it; 0 if none has.
    ifindex: u32,
}

/// The multicast groups of an endpoint.
#[pin_data]
pub(in crate::datapath) struct Groups {
    /// Held while members come and go.
    #[pin]
    joined: Mutex<KVec<Joined>>,
    /// What packets look at.
    #[pin]
    members: SpinLockBh<KVec<Member>>,
}

impl Groups {
    pub(in crate::datapath) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            joined <- new_mutex!(KVec::new()),
            members <- new_spinlock_bh!(KVec::new()),
        })
    }

    /// Adds the queue pair with a key to a group; does nothing if it is there. Process context.
    ///
    /// Errors: `ENOMEM`, also if there are too many groups or members.
    pub(super) fn attach(&self, planes: &Planes, group: Gid, key: u32) -> Result {
        let member = Member { group, key };
        let mut joined = self.joined.lock();
        if self.members.lock().contains(&member) {
            return Ok(());
        }
        let at = joined.iter().position(|j| j.group == group);
        let users = at.and_then(|i| joined.get(i)).map_or(0, |j| j.members);
        if users >= MAX_GROUP_MEMBERS || at.is_none() && joined.len() >= MAX_GROUPS as usize {
            return Err(ENOMEM);
        }
        if at.is_none() {
            joined.reserve(1, GFP_KERNEL_ACCOUNT)?;
        }
        self.add(member)?;
        match at.and_then(|i| joined.get_mut(i)) {
            Some(j) => j.members += 1,
            None => {
                let mut new = Joined {
                    group,
                    members: 1,
                    ifindex: 0,
                };
                let dev = planes.primary();
                if let Err(error) = dev.ok_or(ENODEV).and_then(|dev| new.join(&dev)) {
                    self.members.lock().retain(|m| *m != member);
                    return Err(error);
                }
                // There is room.
                joined.push_within_capacity(new).map_err(|_| ENOMEM)?;
            }
        }
        Ok(())
    }

    /// Adds a member. The caller holds `joined`.
    fn add(&self, member: Member) -> Result {
        if self.members.lock().len() >= MAX_MEMBERS as usize {
            return Err(ENOMEM);
        }
        list::push(&self.members, member, GFP_KERNEL_ACCOUNT, |_| true)
    }

    /// Takes the queue pair with a key out of a group. Process context.
    ///
    /// Errors: `EINVAL` if it is not in it.
    pub(super) fn detach(&self, planes: &Planes, group: Gid, key: u32) -> Result {
        let member = Member { group, key };
        let mut joined = self.joined.lock();
        {
            let mut members = self.members.lock();
            let n = members.len();
            members.retain(|m| *m != member);
            if members.len() == n {
                return Err(EINVAL);
            }
        }
        if let Some(i) = joined.iter().position(|j| j.group == group) {
            if let Some(j) = joined.get_mut(i) {
                j.members -= 1;
                if j.members == 0 {
                    j.leave(planes.primary());
                    let _ = joined.remove(i);
                }
            }
        }
        Ok(())
    }

    /// Calls `f` with the key of each queue pair in a group. Bottom halves are disabled.
    pub(in crate::datapath) fn for_each(&self, group: &Gid, mut f: impl FnMut(u32)) {
        for member in self.members.lock().iter() {
            if member.group == *group {
                f(member.key);
            }
        }
    }

    /// Joins the groups on the present primary plane, and leaves them on another. Process context,
    /// the RTNL is not held.
    pub(in crate::datapath) fn follow(&self, planes: &Planes) {
        let mut joined = self.joined.lock();
        for j in joined.iter_mut() {
            let Some(dev) = planes.primary() else {
                return;
            };
            if j.ifindex != dev.ifindex() {
                j.leave(Some(dev.clone()));
                // If that cannot be, then nothing is received until the planes change again.
                let _ = j.join(&dev);
            }
        }
    }

    /// Whether there is any group.
    pub(in crate::datapath) fn is_empty(&self) -> bool {
        self.members.lock().is_empty()
    }
}

impl Joined {
    fn join(&mut self, dev: &NetDevice) -> Result {
        dev.join(&self.group.0)?;
        self.ifindex = dev.ifindex();
        Ok(())
    }

    /// Leaves the group, in the namespace that `dev` is in.
    fn leave(&mut self, dev: Option<NetDeviceRef>) {
        let ifindex = core::mem::replace(&mut self.ifindex, 0);
        let net = dev.and_then(|dev| dev.net());
        if let Some(dev) = net.and_then(|net| NetDevice::by_index(&net, ifindex)) {
            dev.leave(&self.group.0);
        }
    }
}
