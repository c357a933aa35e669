// SPDX-License-Identifier: GPL-2.0

//! When a connection sends, and who does it.

use super::{
    super::{
        now,
        qp::{
            self,
            Qp, //
        }, //
    },
    Conn,
    RESUME,
    RETIRE, //
};
use crate::sync::{
    hrtimer::TimerCallback,
    lock_bh::BhDisabled, //
};
use kernel::{
    sync::{
        atomic::{
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
    workqueue::WorkItem,
};
use proto::connection::Event;

/// Rounds of sending that one caller makes.
const ROUNDS: usize = 8;

impl Conn {
    /// Sends all that is due and may be sent. Any context; no lock held.
    ///
    /// Only one caller does the work at a time, which keeps the order of packets on a path without
    /// anybody waiting; the others make it go round once more. After some rounds a worker goes on,
    /// so that nobody is kept in softirq context for as long as others have work.
    pub(in crate::datapath) fn run(self: &Arc<Self>) {
        let _bh = BhDisabled::new();
        self.again.store(true, Relaxed);
        let mut rounds = 0;
        loop {
            if self.running.xchg(true, Full) {
                return;
            }
            while rounds < ROUNDS && self.again.xchg(false, Full) {
                self.pass();
                rounds += 1;
            }
            self.running.xchg(false, Full);
            // Who came after the last look and before the line above has left already.
            if !self.again.load(Relaxed) {
                return;
            }
            if rounds >= ROUNDS {
                // If it is queued already, then it has yet to run.
                let _ = self.endpoint.queue.enqueue::<_, RESUME>(self.clone());
                return;
            }
        }
    }

    /// Makes the one who is in [`Self::run`] go round once more.
    pub(in crate::datapath) fn ask_again(&self) {
        self.again.store(true, Relaxed);
    }

    /// Acts on what the transport has found out, and sets the timer.
    pub(in crate::datapath) fn conclude(&self) {
        let mut lost = false;
        let mut migrated = false;
        let timeout = {
            let mut inner = self.inner.lock();
            while let Some(event) = inner.proto.poll_event() {
                lost |= matches!(event, Event::PeerRestarted | Event::PeerClosed);
                migrated |= event == Event::Migrated;
                if event == Event::PathsChanged {
                    // The peer's planes may have other addresses now.
                    inner.routes.clear();
                }
            }
            let idle = inner.idle_until.map(|t| t.0);
            let timeout = inner.proto.poll_timeout().map(|t| t.0);
            [timeout, idle].into_iter().flatten().min()
        };
        if lost {
            self.for_each_qp(|qp, inner| qp.peer_lost(inner));
        }
        // Each of them is told once, and asks again if it wants to be.
        if migrated && self.watched.xchg(false, Full) {
            self.for_each_qp(|qp, inner| qp.migrated(inner));
        }
        if let Some(at) = timeout {
            self.timer.arm_by(at);
        }
    }

    /// Calls `f` with each queue pair of the connection.
    fn for_each_qp(&self, f: impl Fn(&Qp, &mut qp::Locked<'_>)) {
        self.endpoint.host().qps.for_each(|_, qp| {
            let mut inner = qp.inner.lock();
            if inner.belongs_to(self) {
                f(&qp, &mut inner);
            }
        });
    }
}

impl TimerCallback for Conn {
    /// Runs in softirq context.
    fn expired(this: ArcBorrow<'_, Self>) {
        let conn: Arc<Self> = this.into();
        let idle = {
            let mut inner = conn.inner.lock();
            let now = now();
            inner.proto.on_timeout(now);
            // Taken, so that the timer is not set for it again.
            inner.idle_until.take_if(|t| now >= *t).is_some()
        };
        conn.run();
        if idle {
            let _ = conn.endpoint.queue.enqueue::<_, RETIRE>(conn.clone());
        }
    }
}

impl WorkItem<RESUME> for Conn {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        Conn::run(&this);
    }
}

impl WorkItem<RETIRE> for Conn {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.endpoint.retire(&this);
    }
}
