// SPDX-License-Identifier: GPL-2.0

//! UDP sockets of the kernel.
//!
//! They are plain sockets and not those of tunnels, because only a plain socket is handed packets
//! of several datagrams whole.
//!
//! C headers: [`include/net/udp.h`](srctree/include/net/udp.h),
//! [`include/net/sock.h`](srctree/include/net/sock.h)

use super::{
    namespace::Net,
    skbuff::RxSkb, //
};
use crate::sync::{
    id_table::synchronize_rcu_expedited,
    lock_bh::BhDisabled,
    work, //
};
use core::{
    mem::align_of,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    error::to_result,
    impl_has_work,
    new_mutex,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        rcu,
        Arc,
        ArcBorrow,
        Mutex, //
    },
    workqueue::{
        self,
        Work,
        WorkItem, //
    }, //
};

/// After so many packets others have a turn on the CPU.
const BUDGET: usize = 64;

/// Receive buffer of a socket, in bytes; the kernel doubles it for its own needs.
const RCVBUF: c_int = 8 << 20;

/// Most sockets per family that the flows are spread over.
const MAX_SHARDS: u32 = 8;

/// Who receives packets.
pub trait Receive: Send + Sync + 'static {
    /// What is remembered from the packets of a batch until its end.
    type Batch: Default;

    /// Takes a packet.
    ///
    /// Softirq context. The packets of one flow (addresses and ports) come in the order in which
    /// they arrived, and never two at the same time; those of different flows may come at the
    /// same time on several CPUs.
    fn receive(&self, skb: RxSkb, batch: &mut Self::Batch);

    /// No more packets are waiting just now, or there were many. Context as above.
    fn batch_end(&self, batch: Self::Batch);
}

/// UDP sockets that receive on a port of a namespace, whatever the address, by IPv4 and IPv6.
///
/// The namespace does not know of them: whoever opened them has to [`close`] or drop them before
/// the namespace is gone, at the latest in [`Operations::exit`].
///
/// [`close`]: UdpSockets::close
/// [`Operations::exit`]: super::namespace::Operations::exit
#[pin_data]
pub struct UdpSockets<R: Receive> {
    #[pin]
    sockets: Mutex<KVec<Socket<R>>>,
    port: u16,
    /// Packets that were dropped by sockets that are closed meanwhile.
    dropped: Atomic<u64>,
    /// As above, with wrong checksums.
    broken: Atomic<u64>,
}

impl<R: Receive> UdpSockets<R> {
    /// Opens the sockets. Process context.
    ///
    /// A family that the kernel does not have is left out.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if the port is in use, `ENOMEM`, and others.
    pub fn open(net: &Net, port: u16, receiver: Arc<R>) -> Result<Arc<Self>> {
        let shards = kernel::cpu::nr_cpu_ids().clamp(1, MAX_SHARDS);
        let mut sockets = KVec::new();
        for family in [bindings::AF_INET, bindings::AF_INET6] {
            for i in 0..shards {
                let shared = (shards > 1, i == 0);
                match Socket::open(net, family, port, shared, receiver.clone()) {
                    Ok(socket) => sockets.push(socket, GFP_KERNEL)?,
                    Err(EAFNOSUPPORT) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        if sockets.is_empty() {
            return Err(EAFNOSUPPORT);
        }
        Arc::pin_init(
            pin_init!(Self {
                sockets <- new_mutex!(sockets, "UdpSockets::sockets"),
                port,
                dropped: Atomic::new(0),
                broken: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns how many packets were dropped because nobody took them in time. Process context.
    pub fn drops(&self) -> u64 {
        let sockets = self.sockets.lock();
        self.dropped.load(Relaxed) + sockets.iter().map(Socket::drops).sum::<u64>()
    }

    /// Returns how many packets were dropped because of a wrong UDP checksum. Process context.
    pub fn checksum_errors(&self) -> u64 {
        let sockets = self.sockets.lock();
        self.broken.load(Relaxed) + sockets.iter().map(Socket::checksum_errors).sum::<u64>()
    }

    /// Closes the sockets. Process context; not in [`Receive`].
    ///
    /// When this returns, the receiver is not called any more and is let go of.
    pub fn close(&self) {
        let sockets = core::mem::take(&mut *self.sockets.lock());
        let drops = sockets.iter().map(Socket::drops).sum::<u64>();
        self.dropped.fetch_add(drops, Relaxed);
        let broken = sockets.iter().map(Socket::checksum_errors).sum::<u64>();
        self.broken.fetch_add(broken, Relaxed);
        drop(sockets);
    }
}

/// One socket.
///
/// # Invariants
///
/// `raw` is a UDP socket that this owns. Its user data is `listener`, and its callback is
/// [`Listener::data_ready`], until [`Drop`] puts `saved` back.
struct Socket<R: Receive> {
    raw: NonNull<bindings::socket>,
    listener: Arc<Listener<R>>,
    saved: DataReady,
}

type DataReady = Option<unsafe extern "C" fn(*mut bindings::sock)>;

// SAFETY: A socket of the kernel has no file and belongs to no thread. `listener` is an `Arc` of what is
// `Send` and `Sync`.
unsafe impl<R: Receive> Send for Socket<R> {}

// SAFETY: The methods of a shared socket read two counters, both atomic.
unsafe impl<R: Receive> Sync for Socket<R> {}

/// What a socket's callback finds.
///
/// # Invariants
///
/// `sk` is the socket of the [`Socket`] that keeps this, which outlives all calls of
/// [`Listener::drain`].
#[pin_data]
struct Listener<R: Receive> {
    sk: NonNull<bindings::sock>,
    receiver: Arc<R>,
    /// How often the callback was called without being answered. Whoever changes it from zero
    /// answers, so there is only one at a time, until it can be changed back.
    calls: Atomic<u32>,
    /// Packets with a wrong checksum.
    broken: Atomic<u64>,
    /// Goes on where the callback has stopped to give others a turn.
    #[pin]
    work: Work<Self>,
}

// SAFETY: A socket of the kernel belongs to no thread; what it receives is drained on the CPU that the
// packets come to as it is. The receiver is `Send` and `Sync`, as [`Receive`] demands.
unsafe impl<R: Receive> Send for Listener<R> {}

// SAFETY: As above. Of what is shared, the receive queue is used by one at a time, for only who changes
// `calls` from zero drains it, and the counters are atomic.
unsafe impl<R: Receive> Sync for Listener<R> {}

impl_has_work! {
    impl{R: Receive} HasWork<Self> for Listener<R> { self.work }
}

impl<R: Receive> WorkItem for Listener<R> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        Self::drain(this.as_arc_borrow());
    }
}

impl<R: Receive> Socket<R> {
    /// Opens a socket; `shared` allows for several of the same port, of which the one with
    /// `multicast` gets what is sent to groups that the host has joined.
    fn open(
        net: &Net,
        family: u32,
        port: u16,
        (shared, multicast): (bool, bool),
        receiver: Arc<R>,
    ) -> Result<Self> {
        // The low bits of a socket's user data are in use.
        const { assert!(align_of::<Listener<R>>() >= 8) };

        let mut raw = ptr::null_mut();
        // CAST: A small constant.
        //
        // SAFETY: `net` is a live namespace, `raw` is valid for writes.
        to_result(unsafe {
            bindings::metaroce_udp_open(
                net.as_raw(),
                family as c_int,
                port,
                shared,
                multicast,
                RCVBUF,
                &raw mut raw,
            )
        })?;
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        // SAFETY: The socket was just opened.
        let sk = unsafe { (*raw.as_ptr()).sk };
        let listener = NonNull::new(sk).ok_or(EINVAL).and_then(|sk| {
            Arc::pin_init(
                pin_init!(Listener {
                    sk,
                    receiver,
                    // As if it had been called: packets may be waiting.
                    calls: Atomic::new(1),
                    broken: Atomic::new(0),
                    work <- new_work!("Listener::work"),
                }),
                GFP_KERNEL,
            )
        });
        let listener = listener.inspect_err(|_| {
            // SAFETY: The socket was just opened, and nobody knows of it.
            unsafe { bindings::sock_release(raw.as_ptr()) }
        })?;

        // INVARIANT: The socket is owned and gets the callback and the data. They are taken back
        // before the listener is dropped.
        //
        // SAFETY: The socket was just opened.
        let this = unsafe {
            let saved = (*sk).sk_data_ready;
            bindings::metaroce_sk_set_callback(
                sk,
                Some(Listener::<R>::data_ready),
                Arc::as_ptr(&listener).cast_mut().cast(),
            );
            Self {
                raw,
                listener,
                saved,
            }
        };
        // For the packets that arrived before the callback was in place. Nobody else queues the
        // work before this has run, for `calls` is not zero.
        let _ = workqueue::system_bh().enqueue(this.listener.clone());
        Ok(this)
    }

    /// Returns how many packets the socket dropped.
    fn drops(&self) -> u64 {
        // SAFETY: By the type invariant.
        u64::from(unsafe { bindings::metaroce_sk_drops(self.listener.sk.as_ptr()) })
    }

    /// Returns how many packets had a wrong checksum.
    fn checksum_errors(&self) -> u64 {
        self.listener.broken.load(Relaxed)
    }
}

impl<R: Receive> Drop for Socket<R> {
    fn drop(&mut self) {
        let sk = self.listener.sk.as_ptr();
        // SAFETY: By the type invariant.
        unsafe { bindings::metaroce_sk_set_callback(sk, self.saved, ptr::null_mut()) };
        // The callback runs under RCU: now it does not run any more.
        synchronize_rcu_expedited();
        // And nobody else queues the work.
        work::cancel_sync(&self.listener);
        // SAFETY: By the type invariant this owns the socket, and nobody drains it any more.
        unsafe {
            bindings::kernel_sock_shutdown(
                self.raw.as_ptr(),
                bindings::sock_shutdown_cmd_SHUT_RDWR,
            );
            bindings::sock_release(self.raw.as_ptr());
        }
    }
}

impl<R: Receive> Listener<R> {
    /// The callback: packets are waiting. Softirq context.
    ///
    /// # Safety
    ///
    /// `sk` must be a socket whose user data, if any, is a listener.
    unsafe extern "C" fn data_ready(sk: *mut bindings::sock) {
        let guard = rcu::read_lock();
        // SAFETY: The socket is live, and this is an RCU read side section.
        let data = unsafe { bindings::metaroce_sk_user_data(sk) };
        if !data.is_null() {
            // SAFETY: By the requirements of this function this comes from an `Arc`. The socket's
            // owner keeps it until a grace period after it took the data away, so at least until
            // `guard` is dropped.
            let this = unsafe { ArcBorrow::from_raw(data.cast_const().cast::<Self>()) };
            if this.calls.fetch_add(1, Full) == 0 {
                Self::drain(this);
            }
        }
        drop(guard);
    }

    /// Hands the waiting packets to the receiver. Only who changed `calls` from zero calls this.
    fn drain(this: ArcBorrow<'_, Self>) {
        // The callback is called with bottom halves disabled, and the work item runs in one.
        let _bh = BhDisabled::new();
        let mut batch = R::Batch::default();
        let mut n = 0;
        loop {
            let calls = this.calls.load(Relaxed);
            while let Some(mut skb) = this.recv() {
                if skb.checksum_ok() {
                    this.receiver.receive(skb, &mut batch);
                } else {
                    this.broken.add(1, Relaxed);
                }
                n += 1;
                if n == BUDGET {
                    this.receiver.batch_end(batch);
                    // It is not queued: only who drains does that. If it is just being cancelled,
                    // then the socket is about to be closed.
                    let _ = workqueue::system_bh().enqueue(Arc::from(this));
                    return;
                }
            }
            // A packet that came after the queue was seen empty comes with another call: then
            // this fails. It is a full barrier, and so is the one in the callback.
            if this.calls.cmpxchg(calls, 0, Full).is_ok() {
                break;
            }
        }
        if n != 0 {
            this.receiver.batch_end(batch);
        }
    }

    /// Takes a packet off the queue.
    fn recv(&self) -> Option<RxSkb> {
        // SAFETY: By the type invariant the socket is live.
        let skb = unsafe { bindings::metaroce_skb_recv_udp(self.sk.as_ptr()) };
        // SAFETY: A packet of the queue is as the invariants of the type say: UDP has found the
        // socket by both headers and pulled its own, and it goes to the caller.
        NonNull::new(skb).map(|skb| unsafe { RxSkb::from_raw(skb) })
    }
}
