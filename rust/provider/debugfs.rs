// SPDX-License-Identifier: GPL-2.0

//! The files of a device in debugfs; see the user guide for what is in them.

use crate::{
    datapath::endpoint::Endpoint,
    offload::{
        policy::Policy,
        Site, //
    },
    params, //
};
use kernel::{
    debugfs::{
        Dir,
        File, //
    },
    fmt,
    prelude::*,
    sync::Arc,
    uaccess::UserSliceReader, //
};

/// Longest text that is written to a file.
const MAX_TEXT: usize = 32;

/// The files of a device, there as long as this is.
#[pin_data]
pub(super) struct Files {
    #[pin]
    paths: File<Arc<Endpoint>>,
    #[pin]
    cc: File<Arc<Endpoint>>,
    #[pin]
    inbound: File<Arc<Endpoint>>,
    #[pin]
    paths_per_plane: File<Arc<Endpoint>>,
    #[pin]
    planes: File<Arc<Site>>,
    #[pin]
    offload: File<Arc<Site>>,
}

impl Files {
    /// Makes the files of a device in `dir`, its directory. Process context.
    pub(super) fn new(
        dir: &Dir,
        endpoint: Arc<Endpoint>,
        site: Arc<Site>,
    ) -> impl PinInit<Self, Error> + '_ {
        let (to_paths, to_cc, to_number) = (endpoint.clone(), endpoint.clone(), endpoint.clone());
        let to_planes = site.clone();
        try_pin_init!(Self {
            paths <- dir.read_callback_file(c"paths", to_paths, &show_paths),
            cc <- dir.read_write_callback_file(c"cc", to_cc, &show_cc, &store_cc),
            inbound <- dir.read_write_callback_file(
                c"inbound",
                endpoint,
                &show_inbound,
                &store_inbound,
            ),
            paths_per_plane <- dir.read_write_callback_file(
                c"paths_per_plane",
                to_number,
                &show_number,
                &store_number,
            ),
            planes <- dir.read_write_callback_file(
                c"planes",
                to_planes,
                &show_planes,
                &store_planes,
            ),
            offload <- dir.read_write_callback_file(
                c"offload",
                site,
                &show_offload,
                &store_offload,
            ),
        })
    }
}

fn show_paths(endpoint: &Arc<Endpoint>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    endpoint.describe(f)
}

fn show_cc(endpoint: &Arc<Endpoint>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}", endpoint.law().name())
}

fn store_cc(endpoint: &Arc<Endpoint>, reader: &mut UserSliceReader) -> Result {
    with_text(reader, |text| {
        endpoint.set_law(params::law(text)?);
        Ok(())
    })
}

fn show_inbound(endpoint: &Arc<Endpoint>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}", endpoint.inbound())
}

fn store_inbound(endpoint: &Arc<Endpoint>, reader: &mut UserSliceReader) -> Result {
    with_text(reader, |text| {
        endpoint.set_inbound(text.parse().map_err(|_| EINVAL)?);
        Ok(())
    })
}

fn show_number(endpoint: &Arc<Endpoint>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}", endpoint.defaults().transport.paths_per_plane)
}

fn store_number(endpoint: &Arc<Endpoint>, reader: &mut UserSliceReader) -> Result {
    with_text(reader, |text| {
        let paths = text.parse().map_err(|_| EINVAL)?;
        endpoint.set_paths_per_plane(params::check_paths_per_plane(paths)?);
        Ok(())
    })
}

/// By number, separated by spaces; `all` is also those that there are not yet.
fn show_planes(site: &Arc<Site>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let used = site.endpoint().used_planes();
    if used == u8::MAX {
        return writeln!(f, "all");
    }
    let mut numbers = (0..u8::BITS).filter(|i| used & 1 << i != 0);
    if let Some(first) = numbers.next() {
        write!(f, "{first}")?;
    }
    numbers.try_for_each(|i| write!(f, " {i}"))?;
    writeln!(f)
}

fn store_planes(site: &Arc<Site>, reader: &mut UserSliceReader) -> Result {
    with_text(reader, |text| {
        let mut used = 0;
        for number in text.split_ascii_whitespace() {
            used |= match (number, number.parse()) {
                ("all", _) => u8::MAX,
                (_, Ok(i @ 0..u8::BITS)) => 1 << i,
                _ => return Err(EINVAL),
            };
        }
        site.use_planes(used)
    })
}

fn show_offload(site: &Arc<Site>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}", site.policy().name())?;
    let mut written = Ok(());
    site.for_each_policy(|qpn, policy| {
        written = written.and_then(|()| writeln!(f, "{qpn} {}", policy.name()));
    });
    written
}

fn store_offload(site: &Arc<Site>, reader: &mut UserSliceReader) -> Result {
    with_text(reader, |text| {
        let Some((qpn, name)) = text.split_once(' ') else {
            site.set_policy(Policy::by_name(text).ok_or(EINVAL)?);
            return Ok(());
        };
        let policy = match name {
            "default" => None,
            name => Some(Policy::by_name(name).ok_or(EINVAL)?),
        };
        site.set_policy_of(qpn.parse().map_err(|_| EINVAL)?, policy)
    })
}

/// Calls `f` with what was written, without the newline.
///
/// Errors: `EINVAL` if it is longer than anything that is expected, or no text.
fn with_text(reader: &mut UserSliceReader, f: impl FnOnce(&str) -> Result) -> Result {
    let mut buf = [0; MAX_TEXT];
    let n = reader.len();
    let buf = buf.get_mut(..n).ok_or(EINVAL)?;
    reader.read_slice(buf)?;
    f(core::str::from_utf8(buf).map_err(|_| EINVAL)?.trim_ascii())
}
