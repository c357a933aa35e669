// SPDX-License-Identifier: GPL-2.0

//! The state of the sending half, for somebody else to go on with.

use core::ops::DerefMut;

use super::{index, TxHalf, TxSlot, Whose};
use crate::congestion::Controller;
use crate::recovery::LossCause;
use crate::state::{Reader, StateError, Writer};

impl<S: DerefMut<Target = [TxSlot]>> TxHalf<S> {
    /// Writes what the peer relies on.
    pub(crate) fn save(&self, w: &mut Writer<'_>) -> Option<()> {
        w.put(&self.una)?;
        w.put(&self.next)?;
        w.put(&self.outstanding)?;
        w.put(&self.acked)?;
        w.put(&self.route)?;
        w.put(&self.tick)?;
        w.put(&self.ce_count)?;
        let mut used = self.outstanding.or(self.acked);
        let una = index(self.una);
        while let Some(i) = used.take_from(una) {
            let slot = self.slots.get(usize::from(i))?;
            w.put(&slot.desc)?;
            w.put(&slot.last())?;
            w.put(&(slot.whose == Whose::Internal))?;
        }
        Some(())
    }

    /// Goes on from a state. All that is outstanding counts as lost.
    pub(crate) fn load(&mut self, r: &mut Reader<'_>, cc: Controller) -> Result<(), StateError> {
        let (una, next) = (r.get()?, r.get()?);
        let (outstanding, acked) = (r.get()?, r.get()?);
        let route = r.get()?;
        self.restart(una, route, cc);
        self.next = next;
        self.outstanding = outstanding;
        self.lost = outstanding;
        self.acked = acked;
        self.tick = self.tick.max(r.get()?);
        self.ce_count = r.get()?;
        let mut used = outstanding.or(acked);
        let una = index(una);
        while let Some(i) = used.take_from(una) {
            let (desc, last, internal) = (r.get()?, r.get()?, r.get()?);
            let slot = self.slot_mut(i).ok_or(StateError::Mismatch)?;
            *slot = TxSlot {
                again: true,
                cause: LossCause::Timeout,
                ..TxSlot::new(desc, last, Whose::new(internal))
            };
        }
        Ok(())
    }
}
