// SPDX-License-Identifier: GPL-2.0

//! The state of a connection and its streams as bytes: for moving them to somebody else who runs
//! this transport, in the middle of everything.
//!
//! [`Connection::save`](crate::connection::Connection::save),
//! [`SendStream::save`](crate::stream::SendStream::save) and
//! [`RecvStream::save`](crate::stream::RecvStream::save) write what the peer relies on: numbers,
//! what is outstanding, what has arrived. Estimates of the network are not part of it, they are
//! made anew. Whoever loads it takes all that is outstanding for lost and sends it again; the peer
//! drops what it had.
//!
//! Numbers are in network byte order. Reading checks that every value is one that its type has,
//! and that there is neither too little nor too much; that numbers fit together is up to who has
//! written them, who is as trusted as the code that reads them.

mod field;

pub(crate) use field::{fields, numbered, Field};

use crate::packet::TxDesc;
use crate::wire::cursor;

/// The version of the format; others are refused.
pub const VERSION: u32 = 1;

/// Bytes that are enough for anything that is saved.
pub const MAX_LEN: usize = 1 << 20;

/// Why a state cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateError {
    /// Another version, or not a state.
    Version,
    /// Too short, too long, or a value that there is not.
    Malformed,
    /// It does not fit the storage, or the configuration.
    Mismatch,
}

/// Writes a state to a slice.
#[derive(Debug)]
pub struct Writer<'a>(cursor::Writer<'a>);

impl<'a> Writer<'a> {
    /// Begins; `None` if `buf` is too short.
    pub fn new(buf: &'a mut [u8]) -> Option<Self> {
        let mut w = Writer(cursor::Writer::new(buf));
        w.put(&VERSION)?;
        Some(w)
    }

    /// Adds a number of the caller's.
    pub fn number(&mut self, n: u32) -> Option<()> {
        self.put(&n)
    }

    /// Adds the description of a packet of the caller's, or that there is none.
    pub fn packet(&mut self, desc: Option<&TxDesc>) -> Option<()> {
        self.put(&desc.copied())
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn put<T: Field>(&mut self, value: &T) -> Option<()> {
        value.put(&mut self.0)
    }
}

/// Reads a state.
#[derive(Debug)]
pub struct Reader<'a>(cursor::Reader<'a>);

impl<'a> Reader<'a> {
    /// Begins.
    ///
    /// # Errors
    ///
    /// [`StateError::Version`], [`StateError::Malformed`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, StateError> {
        let mut r = Reader(cursor::Reader(bytes));
        match r.get::<u32>()? {
            VERSION => Ok(r),
            _ => Err(StateError::Version),
        }
    }

    /// Takes a number of the caller's.
    ///
    /// # Errors
    ///
    /// [`StateError::Malformed`].
    pub fn number(&mut self) -> Result<u32, StateError> {
        self.get()
    }

    /// Takes the description of a packet of the caller's, if there is one.
    ///
    /// # Errors
    ///
    /// [`StateError::Malformed`].
    pub fn packet(&mut self) -> Result<Option<TxDesc>, StateError> {
        self.get()
    }

    /// Succeeds if everything was read.
    ///
    /// # Errors
    ///
    /// [`StateError::Malformed`].
    pub fn done(self) -> Result<(), StateError> {
        self.0.done().map_err(|_| StateError::Malformed)
    }

    pub(crate) fn get<T: Field>(&mut self) -> Result<T, StateError> {
        T::get(&mut self.0).ok_or(StateError::Malformed)
    }
}
