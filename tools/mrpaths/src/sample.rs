// SPDX-License-Identifier: GPL-2.0

//! What the module's files say at one time.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

/// Lines of one device, by what they are about.
#[derive(Clone, Debug, Default)]
pub struct Device {
    /// The law of congestion control of new connections.
    pub cc: String,
    /// Inbound capacity of each plane that was set, Mbit/s; 0 is the link's speed.
    pub inbound: String,
    /// The lines, as they came.
    pub lines: Vec<Line>,
}

/// One line of the file `paths`.
#[derive(Clone, Debug)]
pub struct Line(pub Value);

/// What a line is about: the same line in two samples has the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `connection`, `plane` or `path`.
    pub kind: String,
    /// The connection.
    pub id: u64,
    /// Number of the plane or path.
    pub index: u64,
}

impl Line {
    /// What it is about; `None` if the line has no type or no id.
    pub fn key(&self) -> Option<Key> {
        let kind = self.0.get("type")?.as_str()?.to_owned();
        let index = match kind.as_str() {
            "plane" | "path" => self.number(&kind),
            _ => 0,
        };
        Some(Key {
            id: self.0.get("id")?.as_u64()?,
            kind,
            index,
        })
    }

    /// A number; 0 if the line does not have it, as an older module's may not.
    pub fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// A text, or nothing.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or("")
    }
}

/// Parses the file `paths`. A line that is not JSON is an error: it would be the module's.
pub fn parse(text: &str) -> io::Result<Vec<Line>> {
    let lines = text.lines().filter(|l| !l.trim().is_empty());
    let parse = |l: &str| serde_json::from_str(l).map(Line).map_err(io::Error::other);
    lines.map(parse).collect()
}

/// All devices at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// By the name of their directory.
    pub devices: BTreeMap<String, Device>,
}

impl Sample {
    /// Reads the files below `dir`, of all devices or of those with this name.
    pub fn take(dir: &Path, name: Option<&str>) -> io::Result<Self> {
        let mut devices = BTreeMap::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let device = entry.file_name().to_string_lossy().into_owned();
            // A device of another network namespace has its number behind the name.
            let plain = device.split('.').next().unwrap_or(&device);
            if name.is_some_and(|n| n != device && n != plain) {
                continue;
            }
            let read = |file| std::fs::read_to_string(entry.path().join(file));
            let text = match read("paths") {
                // It has just gone.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                text => text?,
            };
            let one = |file| read(file).map(|s| s.trim().to_owned()).unwrap_or_default();
            let state = Device {
                cc: one("cc"),
                inbound: one("inbound"),
                lines: parse(&text)?,
            };
            devices.insert(device, state);
        }
        Ok(Sample {
            at: Instant::now(),
            devices,
        })
    }

    /// How much a counter grew since an earlier sample, for each second; `None` if that did not
    /// have the line.
    pub fn rate(&self, before: &Sample, device: &str, line: &Line, counter: &str) -> Option<f64> {
        let key = line.key()?;
        let old = before.devices.get(device)?;
        let old = old.lines.iter().find(|l| l.key().as_ref() == Some(&key))?;
        let grown = line.number(counter).checked_sub(old.number(counter))?;
        let secs = self.at.duration_since(before.at).as_secs_f64();
        (secs > 0.0).then(|| grown as f64 / secs)
    }
}
