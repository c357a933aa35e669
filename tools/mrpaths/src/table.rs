// SPDX-License-Identifier: GPL-2.0

//! The table for humans.

use std::fmt::Write;

use crate::sample::{Device, Line, Sample};

/// The table of all devices; rates are those since `before`.
pub fn render(sample: &Sample, before: Option<&Sample>) -> String {
    let mut out = String::new();
    if sample.devices.is_empty() {
        out.push_str("no device\n");
    }
    for (name, device) in &sample.devices {
        render_device(&mut out, name, device, &|line, counter| {
            sample.rate(before?, name, line, counter)
        });
    }
    out
}

type Rate<'a> = &'a dyn Fn(&Line, &str) -> Option<f64>;

fn render_device(out: &mut String, name: &str, device: &Device, rate: Rate<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{name}  cc {}  inbound {}", device.cc, device.inbound);
    for line in &device.lines {
        let _ = match line.text("type") {
            "connection" => connection(out, line),
            "plane" => plane(out, line, rate),
            "path" => path(out, line, rate),
            _ => Ok(()),
        };
    }
}

fn connection(out: &mut String, l: &Line) -> std::fmt::Result {
    writeln!(
        out,
        "\n{} -> {}  {}  cc {}  window {}  in flight {}  hint {}  allotted {}  left {}  back {}",
        l.text("local"),
        l.text("remote"),
        l.text("state"),
        l.text("cc"),
        milli(l.number("window_milli")),
        l.number("in_flight"),
        mbps(l.number("hint_kbps") / 1000),
        mbps(l.number("allotted_kbps") / 1000),
        l.number("planes_left"),
        l.number("returns"),
    )
}

fn plane(out: &mut String, l: &Line, rate: Rate<'_>) -> std::fmt::Result {
    let up = l.0.get("up").and_then(serde_json::Value::as_bool) == Some(true);
    writeln!(
        out,
        "  plane {} {:4}  {:>2} paths  {:>9} Mbit/s out  {:>9} in  least rtt {:>9}  rtx {}",
        l.number("plane"),
        if up { "up" } else { "down" },
        l.number("paths"),
        per_second(rate(l, "bytes").map(|b| b * 8.0 / 1e6)),
        mbps(l.number("inbound_kbps") / 1000),
        time(l.number("rtt_min_ns")),
        l.number("retransmits"),
    )
}

fn path(out: &mut String, l: &Line, rate: Rate<'_>) -> std::fmt::Result {
    if l.number("path") == 0 {
        writeln!(
            out,
            "  {:>4} {:>3} {:>5} {:6} {:>8} {:>6} {:>9} {:>9} {:>5} {:>5}  {:>7} {:>7} {:>7} {:>8} {:>6}",
            "path", "pl", "port", "state", "window", "flight", "srtt", "pkt/s", "loss‰", "mark‰",
            "gap", "probe", "timeout", "spurious", "routes"
        )?;
    }
    writeln!(
        out,
        "  {:>4} {:>3} {:>5} {:6} {:>8} {:>6} {:>9} {:>9} {:>5} {:>5}  {:>7} {:>7} {:>7} {:>8} {:>6}",
        l.number("path"),
        l.number("plane"),
        l.number("src_port"),
        l.text("state"),
        milli(l.number("window_milli")),
        l.number("in_flight"),
        time(l.number("srtt_ns")),
        per_second(rate(l, "packets")),
        l.number("loss_permille"),
        l.number("marked_permille"),
        l.number("retransmits_gap"),
        l.number("retransmits_probe"),
        l.number("retransmits_timeout"),
        l.number("spurious"),
        l.number("route_changes"),
    )
}

/// Thousandths, with two digits.
fn milli(n: u64) -> String {
    format!("{}.{:02}", n / 1000, n % 1000 / 10)
}

fn mbps(n: u64) -> String {
    match n {
        0 => "-".to_owned(),
        n => n.to_string(),
    }
}

fn per_second(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |r| format!("{r:.0}"))
}

/// Nanoseconds in a unit that fits.
fn time(ns: u64) -> String {
    match ns {
        0 => "-".to_owned(),
        n if n < 1_000_000 => format!("{:.1} us", n as f64 / 1e3),
        n => format!("{:.2} ms", n as f64 / 1e6),
    }
}
