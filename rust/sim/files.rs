// SPDX-License-Identifier: GPL-2.0

//! The files in debugfs, below `metaroce_sim`; see `Documentation/offload.rst`.

use super::{
    caps,
    device::Device,
    knobs::Op,
    registry::Registry, //
};
use crate::net::netdev::{
    NetDevice,
    NetDeviceRef, //
};
use kernel::{
    debugfs::{
        Dir,
        File, //
    },
    fmt,
    prelude::*,
    str::CString,
    sync::Arc,
    uaccess::UserSliceReader, //
};

/// Longest text that is written to a file.
const MAX_TEXT: usize = 64;

/// The files of the module, there as long as this is.
#[pin_data]
pub(crate) struct Root {
    #[pin]
    register: File<(Dir, Arc<Registry>)>,
    #[pin]
    unregister: File<Arc<Registry>>,
}

impl Root {
    /// Makes the files. Process context.
    pub(crate) fn new(registry: Arc<Registry>) -> impl PinInit<Self, Error> {
        let dir = Dir::new(c"metaroce_sim");
        pin_init::pin_init_scope(move || {
            let below = dir.clone();
            let to_register = registry.clone();
            Ok(try_pin_init!(Self {
                register <- dir.read_write_callback_file(
                    c"register",
                    (below, to_register),
                    &show_devices,
                    &register,
                ),
                unregister <- dir.write_callback_file(c"unregister", registry, &unregister),
            }? Error))
        })
    }
}

/// The files of a device.
#[pin_data]
pub(crate) struct Files {
    #[pin]
    caps: File<Arc<Device>>,
    #[pin]
    fail: File<Arc<Device>>,
    #[pin]
    delay: File<Arc<Device>>,
    #[pin]
    fault: File<Arc<Device>>,
    #[pin]
    reregister: File<Arc<Device>>,
    #[pin]
    ops: File<Arc<Device>>,
    #[pin]
    paths: File<Arc<Device>>,
}

impl Files {
    /// Makes the files of a device in `dir`. Process context.
    pub(crate) fn new(dir: &Dir, device: Arc<Device>) -> impl PinInit<Self, Error> + '_ {
        let d = [(); 6].map(|()| device.clone());
        let [to_fail, to_delay, to_fault, to_reregister, to_ops, to_paths] = d;
        try_pin_init!(Self {
            caps <- dir.read_write_callback_file(c"caps", device, &show_caps, &store_caps),
            fail <- dir.read_write_callback_file(c"fail", to_fail, &show_fail, &store_fail),
            delay <- dir.read_write_callback_file(c"delay", to_delay, &show_delay, &store_delay),
            fault <- dir.write_callback_file(c"fault", to_fault, &fault),
            reregister <- dir.write_callback_file(c"reregister", to_reregister, &reregister),
            ops <- dir.read_callback_file(c"ops", to_ops, &show_ops),
            paths <- dir.read_callback_file(c"paths", to_paths, &show_paths),
        })
    }
}

/// Finds a network device by name, in the namespace of the process.
fn find(name: &str) -> Result<NetDeviceRef> {
    let name = CString::try_from_fmt(fmt!("{name}"))?;
    NetDevice::by_name(&name).ok_or(ENODEV)
}

fn show_devices((_, registry): &(Dir, Arc<Registry>), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    registry.list(f)
}

/// `NETDEV NAME` makes a device.
fn register((dir, registry): &(Dir, Arc<Registry>), reader: &mut UserSliceReader) -> Result {
    with_words(reader, |netdev, name| {
        // It becomes the name of a directory.
        let known = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if name.is_empty() || !name.bytes().all(known) {
            return Err(EINVAL);
        }
        let ndev = find(netdev)?;
        registry.add(dir, CString::try_from_fmt(fmt!("{name}"))?, &ndev)
    })
}

fn unregister(registry: &Arc<Registry>, reader: &mut UserSliceReader) -> Result {
    with_words(reader, |name, _| registry.remove(name.as_bytes()))
}

fn show_caps(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let caps = device.knobs.caps();
    let list = caps::list(&caps);
    list.iter()
        .try_for_each(|(name, n)| writeln!(f, "{name} {n}"))
}

/// `NAME VALUE` sets a capability for the next registration.
fn store_caps(device: &Arc<Device>, reader: &mut UserSliceReader) -> Result {
    with_words(reader, |name, value| {
        device
            .knobs
            .set_cap(name, value.parse().map_err(|_| EINVAL)?)
    })
}

fn show_fail(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match device.knobs.failure() {
        Some((op, error)) => writeln!(f, "{} {}", op.name(), -error.to_errno()),
        None => Ok(()),
    }
}

/// `OPERATION ERRNO` makes the next call fail.
fn store_fail(device: &Arc<Device>, reader: &mut UserSliceReader) -> Result {
    with_words(reader, |op, errno| {
        device
            .knobs
            .set_failure(op, errno.parse().map_err(|_| EINVAL)?)
    })
}

fn show_delay(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}", device.knobs.delay())
}

fn store_delay(device: &Arc<Device>, reader: &mut UserSliceReader) -> Result {
    with_words(reader, |micros, _| {
        device.knobs.set_delay(micros.parse().map_err(|_| EINVAL)?)
    })
}

/// Any word is the reason.
fn fault(device: &Arc<Device>, reader: &mut UserSliceReader) -> Result {
    with_words(reader, |why, _| {
        device.fault(&CString::try_from_fmt(fmt!("{why}"))?)
    })
}

/// `NETDEV` registers anew, with the capabilities that were set.
fn reregister(device: &Arc<Device>, reader: &mut UserSliceReader) -> Result {
    with_words(reader, |netdev, _| device.register(&*find(netdev)?))
}

fn show_ops(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for op in Op::ALL {
        writeln!(f, "{} {}", op.name(), device.knobs.calls(op))?;
    }
    Ok(())
}

fn show_paths(device: &Arc<Device>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    device.describe(f)
}

/// Calls `f` with the two words that were written, the second empty if there is one only.
///
/// Errors: `EINVAL` if there is no word, or more, or no text.
fn with_words(reader: &mut UserSliceReader, f: impl FnOnce(&str, &str) -> Result) -> Result {
    let mut buf = [0; MAX_TEXT];
    let n = reader.len();
    let buf = buf.get_mut(..n).ok_or(EINVAL)?;
    reader.read_slice(buf)?;
    let text = core::str::from_utf8(buf).map_err(|_| EINVAL)?;
    let mut words = text.split_ascii_whitespace();
    let first = words.next().ok_or(EINVAL)?;
    let second = words.next().unwrap_or("");
    match words.next() {
        None => f(first, second),
        Some(_) => Err(EINVAL),
    }
}
