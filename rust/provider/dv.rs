// SPDX-License-Identifier: GPL-2.0

//! Direct verbs: what is not in verbs of connections with many paths over several planes.
//!
//! Verbs work without them. `metaroce_dv(7)` is their manual, [`include/uapi/rdma/metaroce-abi.h`]
//! their ABI.

use super::Device;
use crate::{
    datapath::wishes::Wishes,
    params,
    rdma::{
        self,
        methods::{
            Access,
            Attr,
            Call,
            Definitions,
            Handler,
            Method,
            MethodObject, //
        }, //
    }, //
};
use bindings::{
    metaroce_dv_device,
    metaroce_dv_modify_qp,
    metaroce_dv_qp, //
};
use kernel::prelude::*;
use proto::{
    congestion::Controller,
    connection::MAX_PATHS,
    wire::MAX_PLANES, //
};

const _: () = assert!(bindings::METAROCE_DV_PLANES as usize == MAX_PLANES);

/// What holds for all queue pairs.
const ORDERING: u32 = bindings::metaroce_dv_ordering_METAROCE_DV_ORDER_COMPLETION;

// CAST: The numbers of methods and attributes have 16 bits.
const DEVICE_RESP: u16 =
    bindings::metaroce_query_device_attrs_METAROCE_ATTR_QUERY_DEVICE_RESP as u16;
const QP_HANDLE: u16 = bindings::metaroce_query_qp_attrs_METAROCE_ATTR_QUERY_QP_HANDLE as u16;
const QP_RESP: u16 = bindings::metaroce_query_qp_attrs_METAROCE_ATTR_QUERY_QP_RESP as u16;
const MODIFY_HANDLE: u16 = bindings::metaroce_modify_qp_attrs_METAROCE_ATTR_MODIFY_QP_HANDLE as u16;
const MODIFY_REQ: u16 = bindings::metaroce_modify_qp_attrs_METAROCE_ATTR_MODIFY_QP_REQ as u16;
const OBJECT: u16 = bindings::metaroce_objects_METAROCE_OBJECT_DV as u16;

static DEVICE_ATTRS: [Attr; 1] = [Attr::output::<metaroce_dv_device>(DEVICE_RESP)];
static QP_ATTRS: [Attr; 2] = [
    Attr::qp(QP_HANDLE, Access::Shared),
    Attr::output::<metaroce_dv_qp>(QP_RESP),
];
static MODIFY_ATTRS: [Attr; 2] = [
    Attr::qp(MODIFY_HANDLE, Access::Exclusive),
    Attr::input::<metaroce_dv_modify_qp>(MODIFY_REQ),
];

static QUERY_DEVICE: Method<Device> = Method::new::<QueryDevice, 1>(
    bindings::metaroce_dv_methods_METAROCE_METHOD_QUERY_DEVICE as u16,
    &[&DEVICE_ATTRS[0]],
);
static QUERY_QP: Method<Device> = Method::new::<QueryQp, 2>(
    bindings::metaroce_dv_methods_METAROCE_METHOD_QUERY_QP as u16,
    &[&QP_ATTRS[0], &QP_ATTRS[1]],
);
static MODIFY_QP: Method<Device> = Method::new::<ModifyQp, 2>(
    bindings::metaroce_dv_methods_METAROCE_METHOD_MODIFY_QP as u16,
    &[&MODIFY_ATTRS[0], &MODIFY_ATTRS[1]],
);

static METHODS: MethodObject<Device> =
    MethodObject::new(OBJECT, &[&QUERY_DEVICE, &QUERY_QP, &MODIFY_QP]);

/// All of it.
pub(super) static DEFINITIONS: Definitions<Device> = Definitions::new(&METHODS);

/// Returns the number of a law of congestion control.
fn number_of(law: &str) -> Result<u32> {
    let at = Controller::NAMES.iter().position(|name| *name == law);
    Ok(u32::try_from(at.ok_or(EINVAL)?)?)
}

struct QueryDevice;

impl Handler<Device> for QueryDevice {
    fn handle(call: &Call<'_, Device>) -> Result {
        let dev = call.device()?;
        let planes = dev.endpoint.plane_masks();
        let reply = metaroce_dv_device {
            planes: planes.there.into(),
            planes_up: planes.up.into(),
            paths_per_plane: params::transport().paths_per_plane.into(),
            law: number_of(dev.endpoint.law().name())?,
            max_paths_per_plane: params::MAX_PATHS_PER_PLANE.into(),
            max_paths: MAX_PATHS.into(),
            laws: (1 << Controller::NAMES.len()) - 1,
            ordering: ORDERING,
            ifindex: planes.ifindex,
        };
        call.output(DEVICE_RESP, &reply)
    }
}

struct QueryQp;

impl Handler<Device> for QueryQp {
    /// Errors: `EOPNOTSUPP` if the queue pair has no connections.
    fn handle(call: &Call<'_, Device>) -> Result {
        let dev = call.device()?;
        let (wishes, conn) = call.qp(QP_HANDLE)?.connected()?.facts();
        let planes = dev.endpoint.plane_masks();
        let wanted = wishes.planes.unwrap_or(u8::MAX);
        let law = wishes.law.unwrap_or(dev.endpoint.law());
        let (mut usable, mut up) = (planes.there & wanted, planes.up & wanted);
        if conn.id != 0 {
            (usable, up) = (conn.planes, conn.planes_up);
        }
        let mut flags = 0;
        if conn.is_own {
            flags |= bindings::metaroce_dv_conn_flags_METAROCE_DV_QP_OWN_CONNECTION;
        }
        if conn.is_established {
            flags |= bindings::metaroce_dv_conn_flags_METAROCE_DV_QP_ESTABLISHED;
        }
        let own = wishes.paths_per_plane;
        let reply = metaroce_dv_qp {
            flags,
            connection: conn.id,
            planes: usable.into(),
            planes_up: up.into(),
            paths_per_plane: own.unwrap_or(params::transport().paths_per_plane).into(),
            paths: conn.paths.into(),
            law: number_of(conn.law.unwrap_or(law.name()))?,
            ordering: ORDERING,
        };
        call.output(QP_RESP, &reply)
    }
}

struct ModifyQp;

impl Handler<Device> for ModifyQp {
    /// Errors: as for [`checked`]; as for the data path's [`wish`](crate::datapath::qp::Qp::wish).
    fn handle(call: &Call<'_, Device>) -> Result {
        let wishes = checked(call.device()?, &call.input(MODIFY_REQ)?)?;
        call.qp(MODIFY_HANDLE)?.connected()?.wish(&wishes)
    }
}

/// Checks what is asked for.
///
/// Errors: `EOPNOTSUPP` for what is not known here, and for an order that is not guaranteed; `EINVAL`
/// for values that cannot be.
fn checked(dev: &rdma::Device<Device>, req: &metaroce_dv_modify_qp) -> Result<Wishes> {
    const PLANES: u32 = bindings::metaroce_dv_modify_qp_mask_METAROCE_DV_QP_PLANES;
    const PATHS: u32 = bindings::metaroce_dv_modify_qp_mask_METAROCE_DV_QP_PATHS_PER_PLANE;
    const LAW: u32 = bindings::metaroce_dv_modify_qp_mask_METAROCE_DV_QP_LAW;
    const ORDER: u32 = bindings::metaroce_dv_modify_qp_mask_METAROCE_DV_QP_ORDERING;

    if req.mask & !(PLANES | PATHS | LAW | ORDER) != 0 || req.reserved != 0 {
        return Err(EOPNOTSUPP);
    }
    let mut wishes = Wishes::default();
    if req.mask & PLANES != 0 {
        let planes = u8::try_from(req.planes)?;
        if planes == 0 || planes & !dev.endpoint.plane_masks().there != 0 {
            return Err(EINVAL);
        }
        wishes.planes = Some(planes);
    }
    if req.mask & PATHS != 0 {
        let paths = u8::try_from(req.paths_per_plane)?;
        if !(1..=params::MAX_PATHS_PER_PLANE).contains(&paths) {
            return Err(EINVAL);
        }
        wishes.paths_per_plane = Some(paths);
    }
    if req.mask & LAW != 0 {
        let name = Controller::NAMES.get(usize::try_from(req.law)?);
        wishes.law = Some(params::law(name.ok_or(EINVAL)?)?);
    }
    if req.mask & ORDER != 0 && req.ordering & !ORDERING != 0 {
        return Err(EOPNOTSUPP);
    }
    Ok(wishes)
}
