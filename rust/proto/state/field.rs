// SPDX-License-Identifier: GPL-2.0

//! What a state is made of.

use crate::bits::Bits256;
use crate::connection::Intro;
use crate::packet::{Opcode, PathId, Qpn, StreamFlags, TxDesc};
use crate::path::Route;
use crate::psn::{Msn, Psn, Rsn};
use crate::recovery::Transmission;
use crate::time::{Instant, Stamp};
use crate::wire::cursor::{Reader, Writer};
use crate::wire::{Gid, Plane, PlaneList, Token};

/// A value in a state.
pub(crate) trait Field: Sized {
    /// Writes it; `None` if there is no room.
    fn put(&self, w: &mut Writer<'_>) -> Option<()>;

    /// Reads it; `None` if there is none.
    fn get(r: &mut Reader<'_>) -> Option<Self>;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl Field for $ty {
            fn put(&self, w: &mut Writer<'_>) -> Option<()> {
                w.$ty(*self)
            }

            fn get(r: &mut Reader<'_>) -> Option<Self> {
                r.$ty().ok()
            }
        }
    )*};
}
integers! { u8 u16 u32 u64 }

impl Field for bool {
    fn put(&self, w: &mut Writer<'_>) -> Option<()> {
        w.u8(u8::from(*self))
    }

    fn get(r: &mut Reader<'_>) -> Option<Self> {
        match r.u8().ok()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, w: &mut Writer<'_>) -> Option<()> {
        self.is_some().put(w)?;
        match self {
            Some(value) => value.put(w),
            None => Some(()),
        }
    }

    fn get(r: &mut Reader<'_>) -> Option<Self> {
        Some(match bool::get(r)? {
            true => Some(T::get(r)?),
            false => None,
        })
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, w: &mut Writer<'_>) -> Option<()> {
        self.0.put(w)?;
        self.1.put(w)
    }

    fn get(r: &mut Reader<'_>) -> Option<Self> {
        Some((A::get(r)?, B::get(r)?))
    }
}

/// Types around one value.
macro_rules! wrappers {
    ($($ty:ident)*) => {$(
        impl Field for $ty {
            fn put(&self, w: &mut Writer<'_>) -> Option<()> {
                self.0.put(w)
            }

            fn get(r: &mut Reader<'_>) -> Option<Self> {
                Field::get(r).map($ty)
            }
        }
    )*};
}
wrappers! { Psn Msn Rsn Qpn PathId Instant Stamp StreamFlags Gid }

impl Field for [u8; 16] {
    fn put(&self, w: &mut Writer<'_>) -> Option<()> {
        w.bytes(self)
    }

    fn get(r: &mut Reader<'_>) -> Option<Self> {
        r.array().ok()
    }
}

impl Field for Bits256 {
    fn put(&self, w: &mut Writer<'_>) -> Option<()> {
        self.words().iter().try_for_each(|word| word.put(w))
    }

    fn get(r: &mut Reader<'_>) -> Option<Self> {
        let mut words = [0; 8];
        for word in &mut words {
            *word = u32::get(r)?;
        }
        Some(Bits256::from_words(words))
    }
}

impl Field for PlaneList {
    fn put(&self, w: &mut Writer<'_>) -> Option<()> {
        self.len().put(w)?;
        self.as_slice().iter().try_for_each(|plane| plane.put(w))
    }

    fn get(r: &mut Reader<'_>) -> Option<Self> {
        let mut list = PlaneList::new();
        for _ in 0..u8::get(r)? {
            list.push(Plane::get(r)?)?;
        }
        Some(list)
    }
}

/// Structures, by their members.
macro_rules! fields {
    ($ty:ident { $($member:ident),* $(,)? }) => {
        impl $crate::state::Field for $ty {
            fn put(&self, w: &mut $crate::wire::cursor::Writer<'_>) -> Option<()> {
                $($crate::state::Field::put(&self.$member, w)?;)*
                Some(())
            }

            fn get(r: &mut $crate::wire::cursor::Reader<'_>) -> Option<Self> {
                Some($ty { $($member: $crate::state::Field::get(r)?),* })
            }
        }
    };
}
pub(crate) use fields;

/// Enumerations of numbers below 256, by number.
macro_rules! numbered {
    ($ty:ident { $($variant:ident),* $(,)? }) => {
        impl $crate::state::Field for $ty {
            fn put(&self, w: &mut $crate::wire::cursor::Writer<'_>) -> Option<()> {
                // None is left out. CAST: the discriminants are the numbers.
                w.u8(match self { $($ty::$variant => $ty::$variant as u8),* })
            }

            fn get(r: &mut $crate::wire::cursor::Reader<'_>) -> Option<Self> {
                let n = r.u8().ok()?;
                // CAST: as above.
                [$($ty::$variant),*].into_iter().find(|v| *v as u8 == n)
            }
        }
    };
}
pub(crate) use numbered;

fields!(TxDesc {
    opcode,
    flags,
    epoch,
    qpn,
    peer_qpn,
    msn,
    offset,
    len,
});
fields!(Route {
    local_plane,
    remote_plane,
    src_port,
    epoch,
});
fields!(Transmission { stamp, route_epoch });
fields!(Plane { gid, speed, id, up });
fields!(Token { psn, expected });
fields!(Intro {
    local_qpn,
    peer_qpn,
    token,
    local_gid,
    peer_gid,
});
numbered!(Opcode {
    Void,
    Send,
    SendImm,
    SendInv,
    Write,
    WriteImm,
    ReadRequest,
    ReadResponse,
    CmpSwap,
    FetchAdd,
    AtomicResponse,
    Nak,
    AtomicWrite,
    Flush,
});
