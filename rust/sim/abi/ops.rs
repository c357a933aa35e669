// SPDX-License-Identifier: GPL-2.0

//! The operations that the core calls.

use super::{
    super::{
        firmware::{
            Carried,
            ConnSpec,
            Firmware,
            QpSpec, //
        },
        knobs::Op,
        registration::Operations, //
    },
    translate::{
        attr_of,
        law_of,
        planes_of,
        ring_of, //
    },
    CqRef,
    Ofl,
    QpRef, //
};
use crate::{
    datapath::{
        conn::{
            Conn,
            ConnKey,
            Settings,
            Transport, //
        },
        cq::Cq,
        wishes::Wishes,
    },
    net::skbuff::RxSkb,
    rdma::{
        qp::AttrMask,
        umem::Umem, //
    },
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::from_result,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    }, //
};
use proto::wire::Gid;

pub(super) static TABLE: Operations = Operations::new(bindings::metaroce_ofl_ops {
    name: c"metaroce_sim".to_bytes_with_nul().as_ptr(),
    mr_add: Some(mr_add),
    mr_del: Some(mr_del),
    cq_add: Some(cq_add),
    cq_del: Some(cq_del),
    conn_add: Some(conn_add),
    conn_set_planes: Some(conn_set_planes),
    conn_del: Some(conn_del),
    qp_add: Some(qp_add),
    qp_modify: Some(qp_modify),
    qp_del: Some(qp_del),
    qp_export: Some(qp_export),
    qp_ring: Some(qp_ring),
    rx: Some(rx),
    get_stats: Some(get_stats),
});

/// Returns the firmware of a registration.
///
/// # Safety
///
/// To be called by operations, with the registration that they were called for.
unsafe fn firmware<'a>(ofl: *mut Ofl) -> ArcBorrow<'a, Firmware> {
    // SAFETY: `priv` is that of an `Arc` that is there until the registration has ended.
    unsafe { ArcBorrow::from_raw((*ofl).priv_.cast_const().cast()) }
}

/// Carries out an operation that adds or changes something, unless it was told to fail.
fn attempt(
    firmware: ArcBorrow<'_, Firmware>,
    op: Op,
    f: impl FnOnce(&Arc<Firmware>) -> Result,
) -> c_int {
    from_result(|| {
        let firmware: Arc<Firmware> = firmware.into();
        firmware.knobs().begin(op)?;
        f(&firmware)?;
        firmware.knobs().done(op);
        Ok(0)
    })
}

/// Carries out an operation that cannot fail.
fn carry_out(firmware: ArcBorrow<'_, Firmware>, op: Op, f: impl FnOnce(&Arc<Firmware>)) {
    let firmware: Arc<Firmware> = firmware.into();
    firmware.knobs().wait();
    f(&firmware);
    firmware.knobs().done(op);
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn mr_add(ofl: *mut Ofl, mr: *const bindings::metaroce_ofl_mr) -> c_int {
    // SAFETY: By the requirements of this function.
    let (firmware, mr) = unsafe { (firmware(ofl), &*mr) };
    attempt(firmware, Op::MrAdd, |firmware| {
        // CAST: `usize` is 64 bits wide here.
        let (offset, len) = (mr.offset as usize, usize::try_from(mr.length)?);
        // SAFETY: The list is valid for this call, and the pages are pinned until `mr_del` has
        // returned, which waits for all who use the region.
        let umem = unsafe {
            let pages = core::slice::from_raw_parts(mr.pages, mr.n_pages);
            Umem::borrow(pages, offset, len)
        }?;
        firmware.add_mr((mr.key, mr.pd), umem, (mr.va, mr.length), mr.access)
    })
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn mr_del(ofl: *mut Ofl, key: u32) {
    // SAFETY: By the requirements of this function.
    let firmware = unsafe { firmware(ofl) };
    carry_out(firmware, Op::MrDel, |firmware| firmware.remove_mr(key));
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn cq_add(ofl: *mut Ofl, cq: *mut bindings::metaroce_ofl_cq) -> c_int {
    // SAFETY: By the requirements of this function.
    let firmware = unsafe { firmware(ofl) };
    attempt(firmware, Op::CqAdd, |_| {
        let refs = NonNull::new(ofl).zip(NonNull::new(cq));
        let (ofl, raw) = refs.ok_or(EINVAL)?;
        let own = Cq::new(CqRef { ofl, cq: raw })?;
        // SAFETY: The member is the driver's.
        unsafe { (*cq).drv = Arc::into_raw(own).cast_mut().cast() };
        Ok(())
    })
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn cq_del(ofl: *mut Ofl, cq: *mut bindings::metaroce_ofl_cq) {
    // SAFETY: By the requirements of this function.
    let firmware = unsafe { firmware(ofl) };
    carry_out(firmware, Op::CqDel, |_| {
        // SAFETY: From `cq_add`, which is called once before.
        drop(unsafe { Arc::from_raw((*cq).drv.cast_const().cast::<Cq>()) });
    });
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn conn_add(ofl: *mut Ofl, conn: *mut bindings::metaroce_ofl_conn) -> c_int {
    // SAFETY: By the requirements of this function.
    let (firmware, raw) = unsafe { (firmware(ofl), &mut *conn) };
    attempt(firmware, Op::ConnAdd, |firmware| {
        // CAST: `usize` is no narrower.
        let list = raw.planes.get(..raw.n_planes as usize).ok_or(EINVAL)?;
        // SAFETY: The core holds references to the devices in the list.
        let (planes, devices) = unsafe { planes_of(list) }?;
        let conn = firmware.add_conn(ConnSpec {
            key: ConnKey {
                local: Gid(raw.local_gid),
                remote: Gid(raw.remote_gid),
                // It has a queue pair of its own, whichever.
                owner: raw.id,
            },
            port: raw.port,
            settings: Settings {
                id: raw.id,
                planes,
                transport: Transport {
                    paths_per_plane: raw.paths_per_plane,
                    crc: raw.crc,
                },
                payload_mtu: raw.payload_mtu,
                law: law_of(raw)?,
                wishes: Wishes::default(),
            },
            devices,
        })?;
        raw.drv = Arc::into_raw(conn).cast_mut().cast();
        Ok(())
    })
}

/// Returns the firmware's side of a connection.
///
/// # Safety
///
/// The connection must be one that was added and not deleted.
unsafe fn conn_of<'a>(conn: *const bindings::metaroce_ofl_conn) -> ArcBorrow<'a, Conn> {
    // SAFETY: By the requirements of this function, from `conn_add`.
    unsafe { ArcBorrow::from_raw((*conn).drv.cast_const().cast()) }
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn conn_set_planes(
    ofl: *mut Ofl,
    conn: *mut bindings::metaroce_ofl_conn,
    planes: *const bindings::metaroce_ofl_plane,
    n: u32,
) {
    // CAST: `usize` is no narrower.
    //
    // SAFETY: By the requirements of this function.
    let (firmware, conn, planes) = unsafe {
        let planes = match n {
            0 => &[],
            _ => core::slice::from_raw_parts(planes, n as usize),
        };
        (firmware(ofl), conn_of(conn), planes)
    };
    carry_out(firmware, Op::ConnSetPlanes, |firmware| {
        // SAFETY: The core holds references to the devices in the list.
        let lists = unsafe { planes_of(planes) };
        // Without memory, it uses none: the old references must not be kept.
        let (infos, devices) = lists.unwrap_or_else(|_| (KVec::new(), KVec::new()));
        firmware.set_planes(&conn.into(), infos, devices);
    });
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn conn_del(ofl: *mut Ofl, conn: *mut bindings::metaroce_ofl_conn) {
    // SAFETY: By the requirements of this function.
    let firmware = unsafe { firmware(ofl) };
    carry_out(firmware, Op::ConnDel, |firmware| {
        // SAFETY: From `conn_add`, which is called once before.
        let conn = unsafe { Arc::from_raw((*conn).drv.cast_const().cast::<Conn>()) };
        firmware.remove_conn(&conn);
    });
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn qp_add(ofl: *mut Ofl, qp: *mut bindings::metaroce_ofl_qp) -> c_int {
    // SAFETY: By the requirements of this function.
    let (firmware, raw) = unsafe { (firmware(ofl), &mut *qp) };
    attempt(firmware, Op::QpAdd, |firmware| {
        let refs = NonNull::new(ofl).zip(NonNull::new(qp));
        let (ofl, qp) = refs.ok_or(EINVAL)?;
        let cq = |cq: *const bindings::metaroce_ofl_cq| {
            // SAFETY: The queues were added, and are there for longer than the queue pair.
            Arc::from(unsafe { ArcBorrow::from_raw((*cq).drv.cast_const().cast::<Cq>()) })
        };
        // SAFETY: The connection was added before, and so for the rings.
        let (conn, remote, sq, rq) = unsafe {
            (
                conn_of(raw.conn),
                (*raw.conn).remote_gid,
                ring_of(&raw.sq)?,
                ring_of(&raw.rq)?,
            )
        };
        let spec = QpSpec {
            qp: QpRef { ofl, qp },
            qpn: raw.qpn,
            pd: raw.pd,
            signal_all: raw.signal_all,
            send_cq: cq(raw.send_cq),
            recv_cq: cq(raw.recv_cq),
            sq: sq.ok_or(EINVAL)?,
            rq,
            first: (raw.sq.first, raw.rq.first),
            attr: attr_of(&raw.attr, remote)?,
            state: if raw.state.is_null() {
                None
            } else {
                // SAFETY: By the requirements of this function, the state is there for this call.
                Some(unsafe { core::slice::from_raw_parts(raw.state.cast(), raw.state_len) })
            },
        };
        let carried = firmware.add_qp(&conn.into(), spec)?;
        raw.drv = Arc::into_raw(carried).cast_mut().cast();
        Ok(())
    })
}

/// Returns the firmware's side of a queue pair.
///
/// # Safety
///
/// The queue pair must be one that was added and not deleted.
unsafe fn qp_of<'a>(qp: *const bindings::metaroce_ofl_qp) -> ArcBorrow<'a, Carried> {
    // SAFETY: By the requirements of this function, from `qp_add`.
    unsafe { ArcBorrow::from_raw((*qp).drv.cast_const().cast()) }
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn qp_modify(
    ofl: *mut Ofl,
    qp: *mut bindings::metaroce_ofl_qp,
    attr: *const bindings::metaroce_ofl_qp_attr,
    mask: u32,
) -> c_int {
    // SAFETY: By the requirements of this function; the connection is there for longer.
    let (firmware, carried, remote, attr) =
        unsafe { (firmware(ofl), qp_of(qp), (*(*qp).conn).remote_gid, &*attr) };
    attempt(firmware, Op::QpModify, |firmware| {
        firmware.modify_qp(&carried, &attr_of(attr, remote)?, AttrMask::from_bits(mask))
    })
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn qp_del(ofl: *mut Ofl, qp: *mut bindings::metaroce_ofl_qp) {
    // SAFETY: By the requirements of this function.
    let firmware = unsafe { firmware(ofl) };
    carry_out(firmware, Op::QpDel, |firmware| {
        // SAFETY: From `qp_add`, which is called once before.
        let carried = unsafe { Arc::from_raw((*qp).drv.cast_const().cast::<Carried>()) };
        firmware.remove_qp(&carried);
        // SAFETY: The member is the driver's.
        unsafe { (*qp).drv = ptr::null_mut() };
    });
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn qp_export(
    ofl: *mut Ofl,
    qp: *mut bindings::metaroce_ofl_qp,
    buf: *mut c_void,
    size: usize,
) -> c_int {
    // SAFETY: By the requirements of this function; the memory is initialised, and nobody else's
    // for the time of this call.
    let (firmware, carried, buf) = unsafe {
        let buf = core::slice::from_raw_parts_mut(buf.cast::<u8>(), size);
        (firmware(ofl), qp_of(qp), buf)
    };
    let mut len = 0;
    let ret = attempt(firmware, Op::QpExport, |firmware| {
        len = c_int::try_from(firmware.export_qp(&carried, buf)?)?;
        Ok(())
    });
    if ret < 0 {
        ret
    } else {
        len
    }
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn qp_ring(ofl: *mut Ofl, qp: *mut bindings::metaroce_ofl_qp) {
    // SAFETY: By the requirements of this function.
    let (firmware, carried) = unsafe { (firmware(ofl), qp_of(qp)) };
    let firmware: Arc<Firmware> = firmware.into();
    firmware.ring(&carried);
    firmware.knobs().done(Op::QpRing);
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn rx(
    ofl: *mut Ofl,
    _conn: *mut bindings::metaroce_ofl_conn,
    skb: *mut bindings::sk_buff,
    off: u32,
    len: u32,
) {
    // SAFETY: By the requirements of this function.
    let firmware: Arc<Firmware> = unsafe { firmware(ofl) }.into();
    let clone = NonNull::new(skb).ok_or(EINVAL).and_then(|skb| {
        // SAFETY: The packet is out of the receive queue of one of the core's sockets.
        unsafe { RxSkb::clone_of(skb) }
    });
    // CAST: `usize` is no narrower.
    firmware.receive(clone.map(|skb| (skb, (off as usize, len as usize))));
    firmware.knobs().done(Op::Rx);
}

/// # Safety
///
/// As the header says.
unsafe extern "C" fn get_stats(ofl: *mut Ofl, stats: *mut bindings::metaroce_ofl_stats) {
    // SAFETY: By the requirements of this function.
    let (firmware, stats) = unsafe { (firmware(ofl), &mut *stats) };
    carry_out(firmware, Op::GetStats, |firmware| {
        let s = firmware.stats();
        *stats = bindings::metaroce_ofl_stats {
            tx_packets: s.tx_packets,
            tx_bytes: s.tx_bytes,
            rx_packets: s.rx_packets,
            rx_bytes: s.rx_bytes,
            retransmits: s.retransmits,
            rx_errors: s.rx_errors,
        };
    });
}
