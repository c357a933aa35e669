// SPDX-License-Identifier: GPL-2.0

//! The state of a send stream, for somebody else to go on with.

use core::ops::DerefMut;

use super::{Failure, Hold, SendConfig, SendStream};
use crate::state::{fields, Reader, StateError, Writer};
use crate::stream::SendMsg;
use crate::time::Instant;

fields!(Hold { pos, until });
fields!(Failure { pos, status });

impl<B: DerefMut<Target = [SendMsg]>> SendStream<B> {
    /// Writes everything but the configuration; `None` if there is no room. The cookies must mean
    /// the same to whoever loads it.
    pub fn save(&self, w: &mut Writer<'_>) -> Option<()> {
        w.put(&self.size)?;
        for pos in [self.una, self.head, self.cursor, self.cursor_offset] {
            w.put(&pos)?;
        }
        for pos in [self.started, self.next, self.next_msn.0, self.next_rsn.0] {
            w.put(&pos)?;
        }
        w.put(&self.epoch)?;
        w.put(&self.first_epoch)?;
        w.put(&self.reads)?;
        w.put(&self.hold)?;
        w.put(&self.failure)?;
        w.put(&self.flushing)?;
        w.put(&self.draining)?;
        w.put(&self.rnr_tries)?;
        w.put(&self.tries)?;
        let size = usize::try_from(self.size).ok()?;
        self.ring.get(..size)?.iter().try_for_each(|msg| w.put(msg))
    }

    /// Goes on from a state, with `cfg`. Patience begins anew.
    ///
    /// # Errors
    ///
    /// What is wrong with the state. The stream is of no use then before it is reset.
    pub fn load(
        &mut self,
        now: Instant,
        cfg: SendConfig,
        r: &mut Reader<'_>,
    ) -> Result<(), StateError> {
        self.reset(cfg);
        if r.get::<u32>()? != self.size {
            return Err(StateError::Mismatch);
        }
        self.una = r.get()?;
        self.head = r.get()?;
        self.cursor = r.get()?;
        self.cursor_offset = r.get()?;
        self.started = r.get()?;
        self.next = r.get()?;
        self.next_msn = r.get()?;
        self.next_rsn = r.get()?;
        self.epoch = r.get()?;
        self.first_epoch = r.get()?;
        self.reads = r.get()?;
        self.hold = r.get()?;
        self.failure = r.get()?;
        self.flushing = r.get()?;
        self.draining = r.get()?;
        self.rnr_tries = r.get()?;
        self.tries = r.get()?;
        let size = usize::try_from(self.size).unwrap_or(0);
        for msg in self.ring.iter_mut().take(size) {
            *msg = r.get()?;
        }
        self.progress = now;
        Ok(())
    }

    /// Work requests handed in and not handed out again.
    pub fn in_work(&self) -> u32 {
        self.next.wrapping_sub(self.una)
    }
}
