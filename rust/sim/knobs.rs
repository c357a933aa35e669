// SPDX-License-Identifier: GPL-2.0

//! What can be set of a device: capabilities, delay, and which operation fails.

use super::caps::{
    self,
    Caps, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// Longest delay, in microseconds.
const MAX_DELAY: u32 = 1_000_000;

/// An operation of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Register,
    MrAdd,
    MrDel,
    CqAdd,
    CqDel,
    ConnAdd,
    ConnSetPlanes,
    ConnDel,
    QpAdd,
    QpModify,
    QpDel,
    QpExport,
    QpRing,
    Rx,
    GetStats,
}

impl Op {
    /// All of them, in the order of their values.
    pub(crate) const ALL: [Self; 15] = [
        Self::Register,
        Self::MrAdd,
        Self::MrDel,
        Self::CqAdd,
        Self::CqDel,
        Self::ConnAdd,
        Self::ConnSetPlanes,
        Self::ConnDel,
        Self::QpAdd,
        Self::QpModify,
        Self::QpDel,
        Self::QpExport,
        Self::QpRing,
        Self::Rx,
        Self::GetStats,
    ];

    /// The name, as in `struct metaroce_ofl_ops`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::MrAdd => "mr_add",
            Self::MrDel => "mr_del",
            Self::CqAdd => "cq_add",
            Self::CqDel => "cq_del",
            Self::ConnAdd => "conn_add",
            Self::ConnSetPlanes => "conn_set_planes",
            Self::ConnDel => "conn_del",
            Self::QpAdd => "qp_add",
            Self::QpModify => "qp_modify",
            Self::QpDel => "qp_del",
            Self::QpExport => "qp_export",
            Self::QpRing => "qp_ring",
            Self::Rx => "rx",
            Self::GetStats => "get_stats",
        }
    }

    /// Whether it can fail.
    const fn is_fallible(self) -> bool {
        matches!(
            self,
            Self::Register
                | Self::MrAdd
                | Self::CqAdd
                | Self::ConnAdd
                | Self::QpAdd
                | Self::QpModify
                | Self::QpExport
        )
    }
}

/// The settings of a device, and how often each operation was called.
#[pin_data]
pub(crate) struct Knobs {
    #[pin]
    caps: SpinLock<Caps>,
    /// The operation that fails when it is called next.
    #[pin]
    failure: SpinLock<Option<(Op, Error)>>,
    /// Microseconds.
    delay: Atomic<u32>,
    /// Calls that succeeded.
    calls: [Atomic<u64>; Op::ALL.len()],
}

impl Knobs {
    /// Returns those of a new device: it can do everything, at once.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            caps <- new_spinlock!(caps::all()),
            failure <- new_spinlock!(None),
            delay: Atomic::new(0),
            calls: [const { Atomic::new(0) }; Op::ALL.len()],
        })
    }

    /// Returns the capabilities for the next registration.
    pub(crate) fn caps(&self) -> Caps {
        *self.caps.lock()
    }

    /// Sets a capability for the next registration.
    ///
    /// Errors: `EINVAL` if there is none of that name.
    pub(crate) fn set_cap(&self, name: &str, value: u32) -> Result {
        caps::set(&mut self.caps.lock(), name, value)
    }

    /// Makes the next call of an operation fail, or none.
    ///
    /// Errors: `EINVAL` if there is no operation of that name, if it cannot fail, or if the error
    /// is none.
    pub(crate) fn set_failure(&self, name: &str, errno: i32) -> Result {
        let op = Op::ALL.into_iter().find(|op| op.name() == name);
        let op = op.filter(|op| op.is_fallible()).ok_or(EINVAL)?;
        let failure = match kernel::error::to_result(-errno.abs()) {
            Ok(()) => None,
            Err(e) => Some((op, e)),
        };
        *self.failure.lock() = failure;
        Ok(())
    }

    /// Returns the operation that fails next, and how.
    pub(crate) fn failure(&self) -> Option<(Op, Error)> {
        *self.failure.lock()
    }

    /// Returns the delay, in microseconds.
    pub(crate) fn delay(&self) -> u32 {
        self.delay.load(Relaxed)
    }

    /// Sets how long operations, packets and doorbells wait, in microseconds.
    ///
    /// Errors: `EINVAL` if that is more than a second.
    pub(crate) fn set_delay(&self, micros: u32) -> Result {
        if micros > MAX_DELAY {
            return Err(EINVAL);
        }
        self.delay.store(micros, Relaxed);
        Ok(())
    }

    /// Waits as long as is set. Process context.
    pub(crate) fn wait(&self) {
        match self.delay() {
            0 => {}
            micros => fsleep(Delta::from_micros(micros.into())),
        }
    }

    /// An operation that may sleep begins; fails if it was told to. Process context.
    pub(crate) fn begin(&self, op: Op) -> Result {
        self.wait();
        let mut failure = self.failure.lock();
        match *failure {
            Some((failing, error)) if failing == op => {
                *failure = None;
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// An operation has succeeded. Any context.
    pub(crate) fn done(&self, op: Op) {
        if let Some(calls) = self.calls.get(op as usize) {
            calls.fetch_add(1, Relaxed);
        }
    }

    /// Returns how often an operation has succeeded.
    pub(crate) fn calls(&self, op: Op) -> u64 {
        self.calls.get(op as usize).map_or(0, |c| c.load(Relaxed))
    }
}
