// SPDX-License-Identifier: GPL-2.0

//! The NICs that there are, and their registrations.
//!
//! The RTNL is held when a network device comes or goes, and must not be when a registration ends:
//! so that is left to a worker.

use super::{
    abi::register,
    registration::Registration, //
};
use crate::{
    net::netdev::{
        NetDevice,
        NetDeviceRef, //
    },
    sync::{
        global_mutex::global_mutex,
        work, //
    },
};
use kernel::{
    impl_has_work, new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    workqueue::{
        self,
        Work,
        WorkItem, //
    },
};

/// A NIC.
struct Card {
    /// Its network device, until that goes; only to be compared, and to register again.
    ndev: Option<NetDeviceRef>,
    /// Where it is plugged in, see [`NetDevice::parent`].
    parent: usize,
    registration: Option<Registration>,
    /// Firmware is being reset: `ionic` has taken the auxiliary device away.
    is_reset: bool,
    /// Firmware is back: to be registered anew.
    is_back: bool,
}

impl Card {
    fn is_of(&self, ndev: &NetDevice) -> bool {
        self.ndev.as_ref().is_some_and(|own| **own == *ndev)
    }
}

global_mutex! {
    /// All NICs.
    static CARDS: KVec<Card> = KVec::new();
}

global_mutex! {
    /// The worker, while there is an [`End`].
    static TIDY: Option<Arc<Tidy>> = None;
}

/// Whether it was told that the firmware has no commands.
static TOLD: Atomic<bool> = Atomic::new(false);

/// Whether a network device is known. The RTNL is held.
pub(crate) fn has(ndev: &NetDevice) -> bool {
    CARDS.lock().iter().any(|card| card.is_of(ndev))
}

/// A network device has come. The RTNL is held.
///
/// Errors: as the core says.
pub(crate) fn add(ndev: &NetDevice) -> Result {
    let mut cards = CARDS.lock();
    cards.reserve(1, GFP_KERNEL)?;
    let card = Card {
        registration: Some(register(ndev)?),
        ndev: Some(ndev.into()),
        parent: ndev.parent(),
        is_reset: false,
        is_back: false,
    };
    cards.push_within_capacity(card).map_err(|_| ENOMEM)?;
    if !TOLD.xchg(true, Relaxed) {
        pr_info!(
            "{}: the public firmware interface has no MetaRoCE commands; queue pairs run in software\n",
            ndev.name()
        );
    }
    Ok(())
}

/// A network device goes. The RTNL is held.
pub(crate) fn remove(ndev: &NetDevice) {
    let mut found = false;
    for card in CARDS.lock().iter_mut() {
        if card.is_of(ndev) {
            // Its unregistration waits for the reference.
            card.ndev = None;
            found = true;
        }
    }
    if found {
        Tidy::queue();
    }
}

/// The auxiliary device of the NIC at `parent` goes: it is removed, or its firmware is reset. What
/// there was in the NIC is lost. Process context.
pub(crate) fn reset(parent: usize) {
    for card in CARDS.lock().iter_mut().filter(|c| c.parent == parent) {
        card.is_reset = true;
        if let Some(registration) = &card.registration {
            registration.fault(c"the firmware is being reset");
        }
    }
}

/// The auxiliary device of the NIC at `parent` is there, for the first time or again. Process
/// context.
pub(crate) fn ready(parent: usize) {
    let mut found = false;
    for card in CARDS.lock().iter_mut().filter(|c| c.parent == parent) {
        if card.is_reset {
            card.is_back = true;
            found = true;
        }
    }
    if found {
        Tidy::queue();
    }
}

/// Takes a registration that is of no more use, of a card that is gone or back.
fn take_old() -> Option<Registration> {
    let mut cards = CARDS.lock();
    cards.retain(|c| c.ndev.is_some() || c.registration.is_some());
    let old = |c: &&mut Card| (c.is_back || c.ndev.is_none()) && c.registration.is_some();
    cards.iter_mut().find(old)?.registration.take()
}

/// Ends registrations that are of no more use, and makes those anew that are.
fn tidy() {
    // They end outside of the list's lock, which is taken under the RTNL.
    while let Some(old) = take_old() {
        drop(old);
    }
    for card in CARDS.lock().iter_mut().filter(|c| c.is_back) {
        if let Some(ndev) = &card.ndev {
            card.is_back = false;
            card.is_reset = false;
            match register(ndev) {
                Ok(registration) => card.registration = Some(registration),
                Err(e) => pr_warn!("{}: not registered again: {e:?}\n", ndev.name()),
            }
        }
    }
}

/// Work that calls [`tidy`].
#[pin_data]
struct Tidy {
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Tidy { self.work }
}

impl WorkItem for Tidy {
    type Pointer = Arc<Self>;

    fn run(_this: Arc<Self>) {
        tidy();
    }
}

impl Tidy {
    fn queue() {
        let tidy = TIDY.lock().clone();
        if let Some(tidy) = tidy {
            // If it is queued already, then it has yet to run.
            let _ = workqueue::system().enqueue(tidy);
        }
    }
}

/// The end of the module: all registrations end when this is dropped.
pub(crate) struct End;

impl End {
    /// Begins. Process context.
    ///
    /// Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let tidy = pin_init!(Tidy { work <- new_work!("Tidy::work") });
        *TIDY.lock() = Some(Arc::pin_init(tidy, GFP_KERNEL)?);
        Ok(Self)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let tidy = TIDY.lock().take();
        if let Some(tidy) = tidy {
            work::cancel_sync(&tidy);
        }
        let cards = core::mem::replace(&mut *CARDS.lock(), KVec::new());
        drop(cards);
    }
}
