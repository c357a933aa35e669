// SPDX-License-Identifier: GPL-2.0

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::sample::{parse, Sample};
use crate::{json, table, Options};

const LINES: &str = concat!(
    "{\"type\":\"connection\",\"id\":7,\"local\":\"10.0.0.1\",\"remote\":\"10.0.0.2\",",
    "\"state\":\"established\",\"cc\":\"ecn\",\"hint_kbps\":0,\"window_milli\":16500,",
    "\"in_flight\":3}\n",
    "{\"type\":\"plane\",\"id\":7,\"plane\":0,\"up\":true,\"paths\":8,\"bytes\":1000,",
    "\"rtt_min_ns\":51200}\n",
    "{\"type\":\"path\",\"id\":7,\"path\":0,\"plane\":0,\"src_port\":49152,\"state\":\"up\",",
    "\"srtt_ns\":2500000,\"packets\":100,\"retransmits_gap\":4}\n",
);

/// A folder as the module makes it, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("mrpaths-{}-{test}", std::process::id()));
        for device in ["mr0", "mr1.42"] {
            fs::create_dir_all(dir.join(device)).unwrap();
            fs::write(dir.join(device).join("paths"), LINES).unwrap();
            fs::write(dir.join(device).join("cc"), "ecn\n").unwrap();
            fs::write(dir.join(device).join("inbound"), "0\n").unwrap();
        }
        Folder(dir)
    }

    fn sample(&self, name: Option<&str>) -> Sample {
        Sample::take(&self.0, name).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn devices_go_by_name_with_or_without_their_namespace() {
    let f = Folder::new("names");
    let names = |name| f.sample(name).devices.into_keys().collect::<Vec<_>>();
    assert_eq!(names(None), ["mr0", "mr1.42"]);
    assert_eq!(names(Some("mr0")), ["mr0"]);
    assert_eq!(names(Some("mr1")), ["mr1.42"]);
    assert_eq!(names(Some("mr1.42")), ["mr1.42"]);
    assert!(names(Some("mr")).is_empty());
}

#[test]
fn rates_are_what_grew_between_two_samples() {
    let f = Folder::new("rates");
    let before = f.sample(None);
    let grown = LINES
        .replace("\"packets\":100", "\"packets\":350")
        .replace("\"bytes\":1000", "\"bytes\":2501000");
    fs::write(f.0.join("mr0/paths"), grown).unwrap();
    let mut after = f.sample(None);
    after.at = before.at + Duration::from_millis(500);
    let line = |i: usize| &after.devices["mr0"].lines[i];
    let rate = |i, counter| after.rate(&before, "mr0", line(i), counter);
    assert_eq!(rate(2, "packets"), Some(500.0));
    assert_eq!(rate(1, "bytes"), Some(5e6));
    // A path of the same number in another connection is another path.
    let other = parse(&LINES.replace("\"id\":7", "\"id\":8")).unwrap();
    assert_eq!(after.rate(&before, "mr0", &other[2], "packets"), None);
    // Counters of a connection that began anew do not go backwards.
    assert_eq!(
        before.rate(&after, "mr0", &before.devices["mr0"].lines[2], "packets"),
        None
    );
    let text = table::render(&after, Some(&before));
    assert!(text.contains("40 Mbit/s out"), "{text}");
    assert!(text.contains("16.50"), "{text}");
    assert!(text.contains("2.50 ms"), "{text}");
    assert!(text.contains("51.2 us"), "{text}");
    let path = text.lines().find(|l| l.contains("49152")).unwrap();
    assert!(path.contains(" 500 "), "{path}");
}

#[test]
fn json_has_each_line_with_its_device() {
    let f = Folder::new("json");
    let text = json(&f.sample(Some("mr1")));
    let lines = parse(&text).unwrap();
    assert_eq!(lines.len(), 3);
    for (line, old) in lines.iter().zip(parse(LINES).unwrap()) {
        assert_eq!(line.text("device"), "mr1.42");
        assert_eq!(line.key(), old.key());
    }
}

#[test]
fn what_is_no_json_is_an_error_and_no_device_is_said() {
    assert!(parse("{\"type\":\"path\"").is_err());
    assert!(parse("\n").unwrap().is_empty());
    // What a newer module says beside is no trouble.
    let odd = parse("{\"type\":\"weather\",\"id\":1}\n{\"no\":\"type\"}").unwrap();
    assert!(odd[1].key().is_none());
    let f = Folder::new("odd");
    fs::write(f.0.join("mr0/paths"), "{\"type\":\"weather\",\"id\":1}\n").unwrap();
    assert!(table::render(&f.sample(Some("mr0")), None).contains("mr0"));
    assert_eq!(table::render(&f.sample(Some("none")), None), "no device\n");
}

#[test]
fn the_command_line_is_checked() {
    let parse = |args: &[&str]| Options::try_parse_from([&["mrpaths"], args].concat());
    assert!(parse(&["--json", "-n", "2", "-i", "0.5", "mr0"]).is_ok());
    assert!(parse(&["-i", "0"]).is_err());
    assert!(parse(&["-i", "nan"]).is_err());
    assert!(parse(&["--frob"]).is_err());
}
