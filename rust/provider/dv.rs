// SPDX-License-Identifier: GPL-2.0

//! Direct verbs: what is not in verbs of connections with many paths over several planes.
//!
//! Verbs work without them. `metaroce_dv(7)` is their manual, [`include/uapi/rdma/metaroce-abi.h`]
//! their ABI.

mod value;

use super::Device;
use crate::{
    datapath::wishes::Wishes,
    offload::{
        policy::Policy,
        Carrier, //
    },
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
    metaroce_dv_modify_device,
    metaroce_dv_modify_qp,
    metaroce_dv_qp, //
};
use kernel::prelude::*;
use proto::{
    connection::MAX_PATHS,
    wire::MAX_PLANES, //
};

const _: () = assert!(bindings::METAROCE_DV_PLANES as usize == MAX_PLANES);

// CAST: The numbers of methods and attributes have 16 bits.
const DEVICE_RESP: u16 =
    bindings::metaroce_query_device_attrs_METAROCE_ATTR_QUERY_DEVICE_RESP as u16;
const QP_HANDLE: u16 = bindings::metaroce_query_qp_attrs_METAROCE_ATTR_QUERY_QP_HANDLE as u16;
const QP_RESP: u16 = bindings::metaroce_query_qp_attrs_METAROCE_ATTR_QUERY_QP_RESP as u16;
const MODIFY_HANDLE: u16 = bindings::metaroce_modify_qp_attrs_METAROCE_ATTR_MODIFY_QP_HANDLE as u16;
const MODIFY_REQ: u16 = bindings::metaroce_modify_qp_attrs_METAROCE_ATTR_MODIFY_QP_REQ as u16;
const MODIFY_DEVICE_REQ: u16 =
    bindings::metaroce_modify_device_attrs_METAROCE_ATTR_MODIFY_DEVICE_REQ as u16;
const OBJECT: u16 = bindings::metaroce_objects_METAROCE_OBJECT_DV as u16;

static DEVICE_ATTRS: [Attr; 1] = [Attr::output::<metaroce_dv_device>(
    DEVICE_RESP,
    bindings::METAROCE_DV_DEVICE_MIN as usize,
)];
static QP_ATTRS: [Attr; 2] = [
    Attr::qp(QP_HANDLE, Access::Shared),
    Attr::output::<metaroce_dv_qp>(QP_RESP, bindings::METAROCE_DV_QP_MIN as usize),
];
static MODIFY_ATTRS: [Attr; 2] = [
    Attr::qp(MODIFY_HANDLE, Access::Exclusive),
    Attr::input::<metaroce_dv_modify_qp>(MODIFY_REQ),
];
static MODIFY_DEVICE_ATTRS: [Attr; 1] =
    [Attr::input::<metaroce_dv_modify_device>(MODIFY_DEVICE_REQ)];

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
static MODIFY_DEVICE: Method<Device> = Method::new::<ModifyDevice, 1>(
    bindings::metaroce_dv_methods_METAROCE_METHOD_MODIFY_DEVICE as u16,
    &[&MODIFY_DEVICE_ATTRS[0]],
);

static METHODS: MethodObject<Device> = MethodObject::new(
    OBJECT,
    &[&QUERY_DEVICE, &QUERY_QP, &MODIFY_QP, &MODIFY_DEVICE],
);

/// All of it.
pub(super) static DEFINITIONS: Definitions<Device> = Definitions::new(&METHODS);

struct QueryDevice;

impl Handler<Device> for QueryDevice {
    fn handle(call: &Call<'_, Device>) -> Result {
        let dev = call.device()?;
        let planes = dev.endpoint.plane_masks();
        let defaults = dev.endpoint.defaults();
        let reply = metaroce_dv_device {
            planes: planes.there.into(),
            planes_up: planes.up.into(),
            paths_per_plane: defaults.transport.paths_per_plane.into(),
            law: value::of_law(defaults.law.name())?,
            max_paths_per_plane: params::MAX_PATHS_PER_PLANE.into(),
            max_paths: MAX_PATHS.into(),
            laws: value::LAWS,
            ordering: value::ORDER_OF_ALL,
            ifindex: planes.ifindex,
            used_planes: defaults.planes.into(),
            orderings: value::ORDERS,
            offload: value::of_policy(Some(dev.offload.policy())),
            reserved: 0,
        };
        call.output(DEVICE_RESP, &reply)
    }
}

struct QueryQp;

impl Handler<Device> for QueryQp {
    /// Errors: `EOPNOTSUPP` if the queue pair has no connections.
    fn handle(call: &Call<'_, Device>) -> Result {
        let dev = call.device()?;
        let front = call.qp(QP_HANDLE)?.connected()?;
        let (wishes, conn) = front.facts();
        let planes = dev.endpoint.plane_masks();
        let defaults = dev.endpoint.defaults();
        let wanted = wishes.planes.unwrap_or(defaults.planes);
        let law = wishes.law.unwrap_or(defaults.law);
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
        if matches!(front.carrier(), Carrier::Device(_)) {
            flags |= bindings::metaroce_dv_conn_flags_METAROCE_DV_QP_OFFLOADED;
        }
        let own = wishes.paths_per_plane;
        let reply = metaroce_dv_qp {
            flags,
            connection: conn.id,
            planes: usable.into(),
            planes_up: up.into(),
            paths_per_plane: own.unwrap_or(defaults.transport.paths_per_plane).into(),
            paths: conn.paths.into(),
            law: value::of_law(conn.law.unwrap_or(law.name()))?,
            ordering: value::of_order(wishes.last_byte == Some(true)),
            offload: value::of_policy(front.own_policy()),
            reserved: 0,
        };
        call.output(QP_RESP, &reply)
    }
}

struct ModifyQp;

impl Handler<Device> for ModifyQp {
    /// Errors: as for [`wishes_of`] and [`policy_of`]; as for the data path's
    /// [`wish`](crate::datapath::qp::Qp::wish).
    fn handle(call: &Call<'_, Device>) -> Result {
        let dev = call.device()?;
        let req = call.input(MODIFY_REQ)?;
        let wishes = wishes_of(dev, &req)?;
        let policy = policy_of(dev, &req)?;
        let front = call.qp(MODIFY_HANDLE)?.connected()?;
        front.wish(&wishes)?;
        if let Some(policy) = policy {
            front.set_policy(policy);
        }
        Ok(())
    }
}

/// Checks what a queue pair is to be like.
///
/// Errors: `EOPNOTSUPP` for what is not known here; `EINVAL` for values that cannot be.
fn wishes_of(dev: &rdma::Device<Device>, req: &metaroce_dv_modify_qp) -> Result<Wishes> {
    const PLANES: u32 = bindings::metaroce_dv_modify_qp_mask_METAROCE_DV_QP_PLANES;
    const PATHS: u32 = bindings::metaroce_dv_modify_qp_mask_METAROCE_DV_QP_PATHS_PER_PLANE;
    const LAW: u32 = bindings::metaroce_dv_modify_qp_mask_METAROCE_DV_QP_LAW;
    const ORDER: u32 = bindings::metaroce_dv_modify_qp_mask_METAROCE_DV_QP_ORDERING;

    if req.mask & !(PLANES | PATHS | LAW | ORDER | QP_OFFLOAD) != 0 {
        return Err(EOPNOTSUPP);
    }
    let mask = req.mask;
    let there = dev.endpoint.plane_masks().there;
    let planes = given(mask, PLANES, || value::to_planes(req.planes))?;
    if planes.is_some_and(|planes| planes & !there != 0) {
        return Err(EINVAL);
    }
    Ok(Wishes {
        planes,
        paths_per_plane: given(mask, PATHS, || value::to_paths(req.paths_per_plane))?,
        law: given(mask, LAW, || value::to_law(req.law))?,
        last_byte: given(mask, ORDER, || value::to_last_byte(req.ordering))?,
    })
}

const QP_OFFLOAD: u32 = bindings::metaroce_dv_modify_qp_mask_METAROCE_DV_QP_OFFLOAD;

/// Checks the policy of its own that a queue pair is to have, if it is to get one, or lose it.
///
/// *Prefer* leaves it to queue pairs; otherwise the device's policy is its administrator's word.
///
/// Errors: `EINVAL` if there is no such policy, `EPERM` if it may not be another one than the
/// device's.
fn policy_of(
    dev: &rdma::Device<Device>,
    req: &metaroce_dv_modify_qp,
) -> Result<Option<Option<Policy>>> {
    if req.mask & QP_OFFLOAD == 0 {
        return Ok(None);
    }
    let policy = value::to_policy(req.offload)?;
    let all = dev.offload.policy();
    if all != Policy::Prefer && policy.is_some_and(|own| own != all) && !may_administrate(dev) {
        return Err(EPERM);
    }
    Ok(Some(policy))
}

/// Whether the caller may administrate the namespace that the device's planes are in.
fn may_administrate(dev: &rdma::Device<Device>) -> bool {
    let net = dev.netdev().and_then(|netdev| netdev.net());
    net.is_some_and(|net| net.is_administrator())
}

/// Returns the value of a member that `mask` has the bit of.
fn given<T>(mask: u32, bit: u32, value: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
    (mask & bit != 0).then(value).transpose()
}

struct ModifyDevice;

impl Handler<Device> for ModifyDevice {
    /// Errors: `EPERM`; `EOPNOTSUPP` for what is not known here; `EINVAL` for values that cannot be.
    fn handle(call: &Call<'_, Device>) -> Result {
        const PLANES: u32 = bindings::metaroce_dv_modify_device_mask_METAROCE_DV_DEVICE_PLANES;
        const PATHS: u32 =
            bindings::metaroce_dv_modify_device_mask_METAROCE_DV_DEVICE_PATHS_PER_PLANE;
        const LAW: u32 = bindings::metaroce_dv_modify_device_mask_METAROCE_DV_DEVICE_LAW;
        const OFFLOAD: u32 = bindings::metaroce_dv_modify_device_mask_METAROCE_DV_DEVICE_OFFLOAD;

        let dev = call.device()?;
        if !may_administrate(dev) {
            return Err(EPERM);
        }
        let req: metaroce_dv_modify_device = call.input(MODIFY_DEVICE_REQ)?;
        if req.mask & !(PLANES | PATHS | LAW | OFFLOAD) != 0 || req.reserved != 0 {
            return Err(EOPNOTSUPP);
        }
        // All is looked at before anything is changed.
        let mask = req.mask;
        let planes = given(mask, PLANES, || value::to_planes(req.planes))?;
        let paths = given(mask, PATHS, || value::to_paths(req.paths_per_plane))?;
        let law = given(mask, LAW, || value::to_law(req.law))?;
        // That of the device is what the others refer to.
        let policy = given(mask, OFFLOAD, || {
            value::to_policy(req.offload)?.ok_or(EINVAL)
        })?;
        // The only one that can fail yet.
        if let Some(planes) = planes {
            dev.offload.use_planes(planes)?;
        }
        if let Some(paths) = paths {
            dev.endpoint.set_paths_per_plane(paths);
        }
        if let Some(law) = law {
            dev.endpoint.set_law(law);
        }
        if let Some(policy) = policy {
            dev.offload.set_policy(policy);
        }
        Ok(())
    }
}
