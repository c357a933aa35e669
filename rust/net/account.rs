// SPDX-License-Identifier: GPL-2.0

//! Packets that are still on this host, on somebody's account.
//!
//! What is sent waits in queues of the host, and what finds them full is lost. A sender that nothing
//! else slows down stops when as much of its packets is in queues as a socket may have there
//! (`net.core.wmem_default`), and goes on when some have left.
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)

use super::namespace::Net;
use crate::sync::id_table::synchronize_rcu_expedited;
use core::{
    mem::align_of,
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        rcu,
        Arc,
        ArcBorrow, //
    }, //
};

/// Who is told that there is room.
pub trait Room: Send + Sync + 'static {
    /// Packets have left, after [`Account::must_wait`] has said to wait for that. Any context but
    /// hard interrupts.
    fn room(&self);
}

/// An account of packets.
///
/// # Invariants
///
/// `raw` is a socket that this owns, and whose user data is `waiter` until [`close`](Self::close).
pub struct Account<R: Room> {
    raw: NonNull<bindings::socket>,
    waiter: Arc<Waiter<R>>,
    saved: Callback,
}

type Callback = Option<unsafe extern "C" fn(*mut bindings::sock)>;

#[repr(align(8))]
struct Waiter<R: Room> {
    waiting: Atomic<bool>,
    room: R,
}

// SAFETY: A socket of the kernel has no file and belongs to no thread. `waiter` is an `Arc` of what is
// `Send` and `Sync`, as [`Room`] demands.
unsafe impl<R: Room> Send for Account<R> {}

// SAFETY: What is charged is counted atomically; `waiting` is atomic too; `close` changes the callback
// under the socket's lock for that.
unsafe impl<R: Room> Sync for Account<R> {}

impl<R: Room> Account<R> {
    /// Opens an account. Process context.
    ///
    /// Its socket is in the namespace that is never gone, for that of its user may go first.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and others of opening a socket.
    pub fn open(room: R) -> Result<Self> {
        // The low bits of a socket's user data are in use.
        const { assert!(align_of::<Waiter<R>>() >= 8) };

        let waiter = Arc::new(
            Waiter {
                waiting: Atomic::new(false),
                room,
            },
            GFP_KERNEL,
        )?;
        let mut raw = ptr::null_mut();
        let mut saved = None;
        // SAFETY: The namespace is live, `raw` and `saved` are valid for writes.
        to_result(unsafe {
            bindings::metaroce_account_open(
                Net::init_net().as_raw(),
                Some(Self::has_room),
                Arc::as_ptr(&waiter).cast_mut().cast(),
                &raw mut raw,
                &raw mut saved,
            )
        })?;
        // INVARIANT: The socket was just opened, with this user data.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(EINVAL)?,
            waiter,
            saved,
        })
    }

    /// Returns who waits.
    pub fn waiter(&self) -> &R {
        &self.waiter.room
    }

    /// Returns the C socket, which is live as long as `self`.
    pub(super) fn sk(&self) -> *mut bindings::sock {
        // SAFETY: By the type invariant; the member does not change.
        unsafe { (*self.raw.as_ptr()).sk }
    }

    /// Returns whether there are so many packets that no more should be sent now; then
    /// [`Room::room`] is called later. Softirq and process context.
    pub fn must_wait(&self) -> bool {
        if !self.is_full() {
            return false;
        }
        // A full barrier, as is taking the flag in the callback: either that sees the flag, or this
        // sees the room.
        self.waiter.waiting.xchg(true, Full);
        // If both do, then the callback does no harm.
        self.is_full()
    }

    fn is_full(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_account_is_full(self.sk()) }
    }

    /// The callback: a packet was freed.
    ///
    /// # Safety
    ///
    /// `sk` must be a socket whose user data, if any, is a waiter.
    unsafe extern "C" fn has_room(sk: *mut bindings::sock) {
        let guard = rcu::read_lock();
        // SAFETY: The socket is live, and this is an RCU read side section.
        let data = unsafe { bindings::metaroce_sk_user_data(sk) };
        if !data.is_null() {
            // SAFETY: By the requirements of this function this comes from an `Arc`, whose owner
            // keeps it until a grace period after it took the data away.
            let this = unsafe { ArcBorrow::from_raw(data.cast_const().cast::<Waiter<R>>()) };
            if this.waiting.xchg(false, Full) {
                this.room.room();
            }
        }
        drop(guard);
    }

    /// Ends the use of the account: on return nobody is told any more. Process context.
    pub fn close(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_account_close(self.sk(), self.saved) };
        synchronize_rcu_expedited();
    }
}

impl<R: Room> Drop for Account<R> {
    /// Packets may still be on the way: the socket is freed with the last.
    fn drop(&mut self) {
        self.close();
        // SAFETY: By the type invariant.
        unsafe { bindings::sock_release(self.raw.as_ptr()) };
    }
}
