// SPDX-License-Identifier: GPL-2.0

//! Shares of the planes' inbound capacity, told to senders in acknowledgements.
//!
//! Each connection meters what it receives under its own lock. What the connections of a device
//! share is touched once in dozens of packets; the level that comes of it is read without a lock.

use super::conn::ConnInner;
use crate::sync::lock_bh::{
    new_spinlock_bh,
    SpinLockBh, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};
use proto::{
    fairshare::Inbound,
    recovery::Timers,
    time::Instant,
    wire::{
        LINK_OVERHEAD,
        MAX_PLANES, //
    }, //
};

/// The inbound sides of a device's planes, by their numbers.
#[pin_data]
pub(super) struct Shares {
    #[pin]
    planes: SpinLockBh<[Inbound; MAX_PLANES]>,
    /// [`Inbound::level`] as it was last worked out.
    levels: [Atomic<u32>; MAX_PLANES],
    /// Mbit/s of each plane, 0 for the link's speed.
    capacity: Atomic<u32>,
}

impl Shares {
    pub(super) fn new() -> impl PinInit<Self> {
        let grain = Timers::default().granularity;
        pin_init!(Self {
            planes <- new_spinlock_bh!([Inbound::new(0, grain); MAX_PLANES]),
            levels: [const { Atomic::new(0) }; MAX_PLANES],
            capacity: Atomic::new(0),
        })
    }

    /// Returns the capacity that was set, Mbit/s; 0 is the link's speed.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity.load(Relaxed)
    }

    /// Sets the capacity of each plane, Mbit/s; 0 is the link's speed.
    pub(super) fn set_capacity(&self, mbps: u32) {
        self.capacity.store(mbps, Relaxed);
    }

    /// The capacity of a plane whose link has this speed, Mbit/s; 0 if unknown.
    fn capacity_of(&self, speed: u32) -> u32 {
        match self.capacity() {
            0 => speed,
            set => set,
        }
    }

    fn level(&self, plane: usize) -> u32 {
        self.levels.get(plane).map_or(0, |l| l.load(Relaxed))
    }
}

impl ConnInner {
    /// Notes that a data packet of `payload` bytes came over the plane with this network device.
    /// Returns the plane's number.
    pub(super) fn meter(
        &mut self,
        shares: &Shares,
        now: Instant,
        ifindex: u32,
        payload: u32,
    ) -> Option<usize> {
        let grain = Timers::default().granularity;
        let mut both = self.planes.iter().zip(&mut self.meters).enumerate();
        let (at, (info, meter)) = both.find(|(_, (info, _))| info.iif == ifindex)?;
        if meter.on_packet(now, payload + LINK_OVERHEAD, grain) {
            let mut planes = shares.planes.lock();
            if let Some(plane) = planes.get_mut(at) {
                plane.set_capacity(shares.capacity_of(info.speed));
                meter.update(now, plane);
                if let Some(level) = shares.levels.get(at) {
                    level.store(plane.level(), Relaxed);
                }
            }
        }
        Some(at)
    }

    /// The rate for an acknowledgement to the peer, kbit/s, over all planes; 0 if there is no need
    /// to limit it.
    pub(super) fn hint(&self, shares: &Shares) -> u32 {
        let (mut sum, mut limited) = (0u32, false);
        for (at, info) in self.planes.iter().enumerate().filter(|(_, p)| p.up) {
            let level = shares.level(at);
            limited |= level != 0;
            let part = match level {
                0 => shares.capacity_of(info.speed).saturating_mul(1000),
                level => level,
            };
            if part == 0 {
                return 0;
            }
            sum = sum.saturating_add(part);
        }
        if limited {
            sum
        } else {
            0
        }
    }
}
