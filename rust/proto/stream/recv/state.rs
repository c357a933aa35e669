// SPDX-License-Identifier: GPL-2.0

//! The state of a receive stream, for somebody else to go on with.

use core::ops::DerefMut;

use super::{Fatal, RecvConfig, RecvStream};
use crate::state::{fields, Reader, StateError, Writer};
use crate::stream::{MsgSlot, Response};

fields!(Fatal {
    msn,
    epoch,
    why,
    receive,
});

impl<B, R> RecvStream<B, R>
where
    B: DerefMut<Target = [MsgSlot]>,
    R: DerefMut<Target = [Response]>,
{
    /// Writes everything but the configuration; `None` if there is no room.
    pub fn save(&self, w: &mut Writer<'_>) -> Option<()> {
        w.put(&self.size)?;
        w.put(&self.responses_size)?;
        w.put(&self.ready)?;
        w.put(&self.next)?;
        w.put(&self.next_rsn)?;
        w.put(&self.floor)?;
        w.put(&self.seen)?;
        w.put(&self.began)?;
        w.put(&self.requests)?;
        w.put(&self.executing)?;
        w.put(&self.fatal)?;
        for pos in [self.resp_head, self.resp_send, self.resp_tail] {
            w.put(&pos)?;
        }
        w.put(&self.resp_offset)?;
        let size = usize::try_from(self.size).ok()?;
        self.ring.get(..size)?.iter().try_for_each(|m| w.put(m))?;
        let size = usize::try_from(self.responses_size).ok()?;
        let responses = self.responses.get(..size)?;
        responses.iter().try_for_each(|response| w.put(response))
    }

    /// Goes on from a state, with `cfg`.
    ///
    /// # Errors
    ///
    /// What is wrong with the state. The stream is of no use then before it is reset.
    pub fn load(&mut self, cfg: RecvConfig, r: &mut Reader<'_>) -> Result<(), StateError> {
        self.reset(cfg);
        if r.get::<u32>()? != self.size || r.get::<u32>()? != self.responses_size {
            return Err(StateError::Mismatch);
        }
        self.ready = r.get()?;
        self.next = r.get()?;
        self.next_rsn = r.get()?;
        self.floor = r.get()?;
        self.seen = r.get()?;
        self.began = r.get()?;
        self.requests = r.get()?;
        self.executing = r.get()?;
        self.fatal = r.get()?;
        self.resp_head = r.get()?;
        self.resp_send = r.get()?;
        self.resp_tail = r.get()?;
        self.resp_offset = r.get()?;
        let size = usize::try_from(self.size).unwrap_or(0);
        for slot in self.ring.iter_mut().take(size) {
            *slot = r.get()?;
        }
        let size = usize::try_from(self.responses_size).unwrap_or(0);
        for response in self.responses.iter_mut().take(size) {
            *response = r.get()?;
        }
        Ok(())
    }
}
