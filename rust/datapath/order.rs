// SPDX-License-Identifier: GPL-2.0

//! Writes whose last bytes come last, for queue pairs whose application polls on them; see
//! `proto::stream`.

use super::{
    mr::{
        access,
        AccessError, //
    },
    qp::{
        Locked,
        Qp, //
    },
    requester::Source,
    responder::PlaceError,
};
use proto::{
    packet::DataFields,
    stream::{
        MemoryRange,
        Refusal,
        Tail, //
    },
};

impl Qp {
    /// Copies the payload of a Write's last packet to where it belongs, but for the last bytes, which
    /// are returned if they are to wait in the stream.
    ///
    /// Memory that is not pinned may be gone when their turn comes, with the packet acknowledged.
    /// There the whole packet waits: it is to come again until its turn has come.
    pub(super) fn place_ordered(
        &self,
        inner: &Locked<'_>,
        fields: &DataFields,
        range: &MemoryRange,
        source: &Source<'_>,
    ) -> Result<Option<Tail>, PlaceError> {
        let is_turn = inner.recv.is_turn(fields, source.len());
        let mut bytes = [0; Tail::MAX];
        let kept = Tail::len_of(source.len());
        let bytes = bytes.get_mut(..kept).unwrap_or(&mut []);
        // CAST: At most `Tail::MAX`.
        let body = source.len().saturating_sub(kept as u32);
        let mut done = 0;
        let mut is_pinned = true;
        self.remote(range, access::REMOTE_WRITE, |memory, at, len| {
            if memory.is_on_demand() {
                is_pinned = false;
                if !is_turn {
                    return Err(AccessError::Absent);
                }
            }
            let now = len.min(body.saturating_sub(done));
            if now != 0 {
                source.copy_to(done, memory, at, now)?;
            }
            done += len;
            Ok::<(), AccessError>(())
        })
        .and_then(|()| source.read(body, bytes))
        .map_err(|error| PlaceError::of(error, Refusal::RemoteAccess))?;
        if is_pinned {
            return Ok(Some(Tail::new(bytes)));
        }
        let target = MemoryRange {
            va: range.va.wrapping_add(body.into()),
            rkey: range.rkey,
            len: range.len.saturating_sub(body),
        };
        self.write_tail(&target, bytes).map(|()| None)
    }

    /// Writes the last bytes of a Write, everything before which is in its place.
    pub(super) fn write_tail(&self, target: &MemoryRange, bytes: &[u8]) -> Result<(), PlaceError> {
        let mut rest = bytes;
        self.remote(target, access::REMOTE_WRITE, |memory, at, len| {
            // CAST: `usize` is 64 bits wide here.
            let piece = rest.split_at_checked(len as usize);
            let (now, later) = piece.ok_or(AccessError::Bounds)?;
            rest = later;
            memory.publish(at, now).map_err(AccessError::from)
        })
        .map_err(|error| PlaceError::of(error, Refusal::RemoteAccess))
    }
}
