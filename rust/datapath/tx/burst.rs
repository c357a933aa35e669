// SPDX-License-Identifier: GPL-2.0

//! Bursts of data packets on one path.

use super::{
    super::{
        conn::{
            Conn,
            Locked, //
        },
        host::{
            ECT0,
            TTL, //
        },
        qp::{
            Qp,
            QpInner, //
        },
        requester::BuildError,
    },
    packet::{
        write_packet,
        Content,
        Place, //
    },
};
use crate::net::tx::TxBurst;
use proto::{
    packet::{
        PathId,
        TxDesc, //
    },
    path::Tx,
};

/// A burst under way on one path, sent when it is dropped from the hands of the sender.
pub(super) struct Sender<'a> {
    conn: &'a Conn,
    path: PathId,
    /// It carries what was sent before.
    again: bool,
    burst: Option<TxBurst>,
    /// Size of the first segment; all but the last are as long.
    first: u32,
    /// A shorter one was the last.
    closed: bool,
}

impl<'a> Sender<'a> {
    /// Begins a burst.
    pub(super) fn new(conn: &'a Conn, path: PathId) -> Self {
        Self {
            conn,
            path,
            again: false,
            burst: None,
            first: 0,
            closed: false,
        }
    }

    /// Begins a burst of what was sent before.
    pub(super) fn again(conn: &'a Conn, path: PathId) -> Self {
        Self {
            again: true,
            ..Self::new(conn, path)
        }
    }

    /// Hands over what is collected.
    pub(super) fn flush(&mut self, inner: &mut Locked<'_>) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        let route = inner.route(self.conn, self.path);
        let counters = &self.conn.endpoint.counters;
        let _ = counters.xmit(burst, route, ECT0, TTL);
    }

    /// Adds a packet. `qp` is whose it is, if it carries anything.
    ///
    /// Errors: [`BuildError::Protection`] if memory is not accessible, and a Void packet went in
    /// instead; [`BuildError::NoRoom`] if there is no memory for the packet, which is then lost.
    pub(super) fn push(
        &mut self,
        inner: &mut Locked<'_>,
        qp: Option<(&Qp, &QpInner)>,
        content: &Content,
        desc: &TxDesc,
        tx: Tx,
    ) -> Result<(), BuildError> {
        let place = inner.place(self.path, tx, self.again);
        if self.burst.is_some() && (self.closed || content.size() > self.first) {
            self.flush(inner);
        }
        match self.try_push(qp, content, place) {
            // It may only be that the burst is full.
            Err(BuildError::NoRoom) if self.segments() > 0 => {
                self.flush(inner);
                self.try_push(qp, content, place)
            }
            Err(BuildError::Protection) => {
                let void = Content::void(desc);
                if self.segments() > 0 && void.size() > self.first {
                    self.flush(inner);
                }
                let _ = self.try_push(None, &void, place);
                Err(BuildError::Protection)
            }
            other => other,
        }
    }

    fn segments(&self) -> usize {
        self.burst.as_ref().map_or(0, TxBurst::segments)
    }

    fn try_push(
        &mut self,
        qp: Option<(&Qp, &QpInner)>,
        content: &Content,
        place: Place,
    ) -> Result<(), BuildError> {
        let fresh = self.burst.is_none();
        if fresh {
            let mut burst = TxBurst::new().map_err(|_| BuildError::NoRoom)?;
            if self.again && place.with_crc() {
                // It may be that it has changed each time that it was under way.
                burst.copy_pages();
            }
            self.burst = Some(burst);
            self.closed = false;
            self.first = content.size();
        }
        let burst = self.burst.as_mut().ok_or(BuildError::NoRoom)?;
        let result = write_packet(burst, qp, content, place);
        if result.is_err() {
            burst.segment_abort();
            if fresh {
                self.burst = None;
            }
        } else {
            self.closed |= content.size() < self.first;
        }
        result
    }
}
