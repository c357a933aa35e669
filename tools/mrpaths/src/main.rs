// SPDX-License-Identifier: GPL-2.0

//! Shows what the connections, planes and paths of MetaRoCE devices are doing: a table that is
//! refreshed, or JSON. It reads the module's files in debugfs, which takes root.

mod sample;
mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sample::Sample;

#[derive(Parser)]
#[command(version, about, long_about = None)]
struct Options {
    /// Device to show; all without
    device: Option<String>,
    /// Print a line of JSON for each connection, plane and path, with the device's name
    #[arg(long)]
    json: bool,
    /// Seconds between refreshes
    #[arg(short, long, default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// How often to show; for ever without
    #[arg(short = 'n', long)]
    count: Option<u64>,
    /// Where the files are
    #[arg(long, default_value = "/sys/kernel/debug/metaroce", value_name = "DIR")]
    dir: PathBuf,
}

fn seconds(text: &str) -> Result<f64, String> {
    let secs: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if (0.01..=3600.0).contains(&secs) {
        Ok(secs)
    } else {
        Err("not between 0.01 and 3600".to_owned())
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has had enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("mrpaths: {}: {e}", options.dir.display());
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let mut before = None;
    let mut left = options.count;
    loop {
        let sample = Sample::take(&options.dir, options.device.as_deref())?;
        let text = if options.json {
            json(&sample)
        } else {
            table::render(&sample, before.as_ref())
        };
        show(&text, !options.json && options.count != Some(1))?;
        before = Some(sample);
        if let Some(n) = &mut left {
            *n = n.saturating_sub(1);
            if *n == 0 {
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_secs_f64(options.interval));
    }
}

/// Writes to the standard output, over what was there before if it is a terminal.
fn show(text: &str, refresh: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if refresh && io::IsTerminal::is_terminal(&out) {
        out.write_all(b"\x1b[H\x1b[2J")?;
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The lines, each with the name of its device.
fn json(sample: &Sample) -> String {
    let mut out = String::new();
    for (name, device) in &sample.devices {
        for line in &device.lines {
            let mut value = line.0.clone();
            if let Some(object) = value.as_object_mut() {
                object.insert("device".to_owned(), name.as_str().into());
            }
            out.push_str(&value.to_string());
            out.push('\n');
        }
    }
    out
}
