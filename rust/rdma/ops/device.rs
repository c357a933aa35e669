// SPDX-License-Identifier: GPL-2.0

//! Operations on a device and its port.

use kernel::prelude::*;

use super::{
    super::device::Device,
    call::{
        check_port,
        status, //
    },
    Operations,
    VTable, //
};

impl<T: Operations> VTable<T> {
    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T`; `udata` may be null.
    pub(super) unsafe extern "C" fn query_device(
        dev: *mut bindings::ib_device,
        attr: *mut bindings::ib_device_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        status(|| {
            // SAFETY: By the requirements of this function.
            unsafe { Self::no_udata(udata) }?;
            // SAFETY: By the requirements of this function.
            let dev = unsafe { Device::<T>::from_raw(dev) };
            let device_attr = T::query_device(dev)?;
            // SAFETY: ib_core passes a structure of its own, zeroed.
            device_attr.fill(unsafe { &mut *attr });
            Ok(())
        })
    }

    /// Changes the description of the device, which is all that can be changed of one.
    ///
    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T` and what it is to be.
    pub(super) unsafe extern "C" fn modify_device(
        dev: *mut bindings::ib_device,
        mask: c_int,
        modify: *mut bindings::ib_device_modify,
    ) -> c_int {
        status(|| {
            // CAST: The bits of a mask.
            let mask = mask as u32;
            if mask & !bindings::ib_device_modify_flags_IB_DEVICE_MODIFY_NODE_DESC != 0 {
                return Err(EOPNOTSUPP);
            }
            if mask != 0 {
                // SAFETY: By the requirements of this function. It is text of a fixed size, which
                // ib_core reads without a lock whatever the driver: a reader may find it changed in part.
                unsafe { (*dev).node_desc = (*modify).node_desc };
            }
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T`.
    pub(super) unsafe extern "C" fn query_port(
        dev: *mut bindings::ib_device,
        port: u32,
        attr: *mut bindings::ib_port_attr,
    ) -> c_int {
        status(|| {
            check_port(port)?;
            // SAFETY: By the requirements of this function.
            let dev = unsafe { Device::<T>::from_raw(dev) };
            let port_attr = T::query_port(dev)?;
            // SAFETY: ib_core passes a structure of its own, zeroed.
            port_attr.fill(unsafe { &mut *attr });
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T`.
    pub(super) unsafe extern "C" fn get_port_immutable(
        dev: *mut bindings::ib_device,
        port: u32,
        immutable: *mut bindings::ib_port_immutable,
    ) -> c_int {
        status(|| {
            check_port(port)?;
            // SAFETY: By the requirements of this function.
            let dev = unsafe { Device::<T>::from_raw(dev) };
            let attr = T::query_port(dev)?;
            // SAFETY: ib_core passes a structure of its own.
            let immutable = unsafe { &mut *immutable };
            // Management datagrams, and with them the connection manager, as RoCE v2 has them.
            immutable.core_cap_flags = bindings::RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
            immutable.max_mad_size = bindings::IB_MGMT_MAD_SIZE;
            immutable.pkey_tbl_len = c_int::from(attr.pkey_tbl_len);
            immutable.gid_tbl_len = c_int::from(attr.gid_tbl_len);
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    pub(super) unsafe extern "C" fn get_link_layer(
        _dev: *mut bindings::ib_device,
        port: u32,
    ) -> bindings::rdma_link_layer {
        match check_port(port) {
            Ok(()) => bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET,
            Err(_) => bindings::rdma_link_layer_IB_LINK_LAYER_UNSPECIFIED,
        }
    }

    /// # Safety
    ///
    /// To be called by ib_core with a place for the key.
    pub(super) unsafe extern "C" fn query_pkey(
        _dev: *mut bindings::ib_device,
        port: u32,
        index: u16,
        pkey: *mut u16,
    ) -> c_int {
        status(|| {
            check_port(port)?;
            if index != 0 {
                return Err(EINVAL);
            }
            // SAFETY: By the requirements of this function.
            unsafe { *pkey = bindings::IB_DEFAULT_PKEY_FULL as u16 };
            Ok(())
        })
    }

    /// # Safety
    ///
    /// To be called by ib_core with a live device of `T` and `IB_FW_VERSION_NAME_MAX` bytes.
    pub(super) unsafe extern "C" fn get_dev_fw_str(dev: *mut bindings::ib_device, to: *mut c_char) {
        // SAFETY: By the requirements of this function.
        let dev = unsafe { Device::<T>::from_raw(dev) };
        let from = T::fw_str(dev).to_bytes();
        // CAST: A small constant.
        let n = from
            .len()
            .min(bindings::IB_FW_VERSION_NAME_MAX as usize - 1);
        // SAFETY: `n` bytes and a terminator fit, and `from` has that many.
        unsafe {
            core::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), n);
            *to.add(n) = 0;
        }
    }

    /// # Safety
    ///
    /// To be called by ib_core.
    pub(super) unsafe extern "C" fn report_port_event(
        _dev: *mut bindings::ib_device,
        _ndev: *mut bindings::net_device,
        _event: c_ulong,
    ) {
        // The driver does it.
    }

    /// # Safety
    ///
    /// To be called by ib_core once, with a device of `T` that nobody uses any more.
    pub(super) unsafe extern "C" fn dealloc_driver(dev: *mut bindings::ib_device) {
        // SAFETY: By the requirements of this function; the operations were set after the data
        // was initialised.
        unsafe { Device::<T>::deinit(dev) };
    }
}
