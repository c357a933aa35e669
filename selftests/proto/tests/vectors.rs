// SPDX-License-Identifier: GPL-2.0

//! Holds parser and emitter to the vectors in `vectors/wire-v1.txt`.

use std::collections::HashMap;
use std::fmt::Write;

use proto::bits::Bits256;
use proto::packet::{DataFields, NakCode, Opcode, PathId, Qpn, StreamFlags};
use proto::psn::{Msn, Psn, Rsn};
use proto::time::Stamp;
use proto::wire::{
    self, crc, AckBlock, Body, DataHeader, DatagramHeader, Features, Gid, Header, InitHeader,
    PacketFlags, Plane, PlaneList, ProbeHeader, ResetHeader, ResetReason, Token, WireError,
};

const VECTORS: &str = include_str!("../vectors/wire-v1.txt");

/// One vector: its lines as (key, value), comments left out.
struct Vector(Vec<(String, String)>);

impl Vector {
    fn all() -> Vec<Vector> {
        let stanzas = VECTORS.split("\n\n").map(|s| {
            let lines = s.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
            Vector(
                lines
                    .map(|l| l.split_once(':').expect("key: value"))
                    .map(|(k, v)| (k.to_string(), v.trim().to_string()))
                    .collect(),
            )
        });
        stanzas.filter(|v| !v.0.is_empty()).collect()
    }

    fn get(&self, key: &str) -> Option<&str> {
        let line = self.0.iter().find(|(k, _)| k == key);
        line.map(|(_, v)| v.as_str())
    }

    fn num(&self, key: &str) -> u64 {
        self.get(key).map_or(0, number)
    }

    fn bytes(&self, key: &str) -> Vec<u8> {
        hex(self.get(key).unwrap_or(""))
    }
}

fn number(v: &str) -> u64 {
    match v.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).expect("a hexadecimal number"),
        None => v.parse().expect("a number"),
    }
}

fn hex(v: &str) -> Vec<u8> {
    (0..v.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&v[i..i + 2], 16).expect("hexadecimal bytes"))
        .collect()
}

fn gid(v: &str) -> Gid {
    Gid(hex(v).try_into().expect("16 bytes"))
}

fn to_hex(b: &[u8]) -> String {
    b.iter().fold(String::new(), |mut s, b| {
        write!(s, "{b:02x}").expect("a string takes all");
        s
    })
}

/// The members of "a=1 b=2".
fn members(v: &str) -> HashMap<&str, &str> {
    v.split(' ')
        .map(|m| m.split_once('=').expect("member=value"))
        .collect()
}

fn words(v: &str) -> Bits256 {
    let mut words = [0; 8];
    let given = v.split(',').filter(|w| !w.is_empty());
    for (w, v) in words.iter_mut().zip(given) {
        *w = u32::from_str_radix(v, 16).expect("a hexadecimal word");
    }
    Bits256::from_words(words)
}

fn to_words(b: &Bits256) -> String {
    let n = usize::from(b.significant_words());
    let words: Vec<_> = b.words()[..n].iter().map(|w| format!("{w:08x}")).collect();
    words.join(",")
}

/// All there are.
fn opcodes() -> impl Iterator<Item = Opcode> {
    (0..=u8::MAX).filter_map(Opcode::from_code)
}

/// What the file should say about a parsed packet, in its order.
fn describe(h: &Header<'_>) -> Vec<(&'static str, String)> {
    let hex32 = |v: u32| format!("0x{v:08x}");
    let hex24 = |v: u32| format!("0x{v:06x}");
    let hex64 = |v: u64| format!("0x{v:016x}");
    let kind = match h.body {
        Body::Data(_) => "DATA",
        Body::Ack(_) => "ACK",
        Body::Init(_) => "INIT",
        Body::InitAck(_) => "INIT_ACK",
        Body::Reset(_) => "RESET",
        Body::Probe(_) => "PROBE",
        Body::Datagram(_) => "DATAGRAM",
    };
    let mut d = vec![
        ("type", kind.to_string()),
        ("flags", h.base.flags.0.to_string()),
        ("dst_conn", hex32(h.base.dst_conn)),
        ("crc", hex32(h.base.crc)),
    ];
    match &h.body {
        Body::Data(p) => {
            let f = &p.fields;
            d.extend([
                ("path", p.path.0.to_string()),
                ("route_epoch", p.route_epoch.to_string()),
                ("opcode", format!("{:?}", f.opcode)),
                ("psn", hex32(p.psn.0)),
                ("stamp", hex32(p.stamp.0)),
                ("stream_flags", f.flags.0.to_string()),
                ("dst_qpn", hex24(f.dst_qpn.0)),
                ("src_qpn", hex24(f.src_qpn.0)),
                ("msn", hex32(f.msn.0)),
                ("epoch", f.epoch.to_string()),
                ("offset", f.offset.to_string()),
            ]);
            let va = ("va", hex64(f.va));
            let rkey = ("rkey", hex32(f.rkey));
            let rsn = ("rsn", hex32(f.rsn.0));
            let imm = ("imm", hex32(f.imm));
            let compare_add = ("compare_add", hex64(f.compare_add));
            d.extend(match f.opcode {
                Opcode::Void | Opcode::ReadResponse => vec![],
                Opcode::Send => vec![rsn],
                Opcode::SendImm => vec![rsn, imm],
                Opcode::SendInv => vec![rsn, rkey],
                Opcode::Write => vec![va, rkey],
                Opcode::WriteImm => vec![va, rkey, rsn, imm],
                Opcode::ReadRequest => vec![va, rkey, ("length", f.length.to_string())],
                Opcode::CmpSwap => vec![va, rkey, compare_add, ("swap", hex64(f.swap))],
                Opcode::FetchAdd => vec![va, rkey, compare_add],
                Opcode::AtomicWrite => vec![va, rkey, ("swap", hex64(f.swap))],
                Opcode::Flush => vec![va, rkey, ("length", f.length.to_string()), imm],
                Opcode::AtomicResponse => vec![("original", hex64(f.original))],
                Opcode::Nak => vec![
                    ("code", (f.code as u8).to_string()),
                    ("rnr_timer", f.rnr_timer.to_string()),
                ],
            });
        }
        Body::Probe(p) => d.extend([
            ("path", p.path.0.to_string()),
            ("route_epoch", p.route_epoch.to_string()),
            ("stamp", hex32(p.stamp.0)),
            ("next_psn", hex32(p.next_psn.0)),
            ("src_conn", hex32(p.src_conn)),
        ]),
        Body::Datagram(p) => {
            d.extend([
                ("dst_qpn", hex24(p.dst_qpn.0)),
                ("src_qpn", hex24(p.src_qpn.0)),
                ("q_key", hex32(p.q_key)),
            ]);
            d.extend(p.imm.map(|imm| ("imm", hex32(imm))));
            d.extend([
                ("solicited", u8::from(p.solicited).to_string()),
                ("src_gid", to_hex(&p.src_gid.0)),
                ("dst_gid", to_hex(&p.dst_gid.0)),
            ]);
        }
        Body::Reset(p) => {
            let reason = match p.reason {
                ResetReason::UnknownId => 1,
                ResetReason::Closing => 2,
                ResetReason::Other(n) => n,
            };
            d.extend([("conn", hex32(p.conn)), ("reason", reason.to_string())]);
        }
        Body::Ack(p) => {
            d.push(("rate_hint", p.rate_hint.to_string()));
            d.push(("n_blocks", p.blocks().count().to_string()));
            d.extend(p.blocks().map(|b| {
                let v = format!(
                    "path={} route_epoch={} cum=0x{:08x} ce_count={} stamp=0x{:08x} hold={} \
                     acked={} held={}",
                    b.path.0,
                    b.route_epoch,
                    b.cum.0,
                    b.ce_count,
                    b.stamp.0,
                    b.hold,
                    to_words(&b.acked),
                    to_words(&b.held)
                );
                ("block", v)
            }));
        }
        Body::Init(p) | Body::InitAck(p) => {
            d.extend([
                ("src_conn", hex32(p.src_conn)),
                ("src_qpn", hex24(p.src_qpn.0)),
                ("dst_qpn", hex24(p.dst_qpn.0)),
                ("psn", hex24(p.token.psn)),
                ("expected", u8::from(p.token.expected).to_string()),
                ("src_gid", to_hex(&p.src_gid.0)),
                ("dst_gid", to_hex(&p.dst_gid.0)),
                ("features", p.features.0.to_string()),
                ("payload_mtu", p.payload_mtu.to_string()),
                ("paths", p.paths.to_string()),
                ("revision", p.revision.to_string()),
            ]);
            d.extend(p.planes.as_slice().iter().map(|p| {
                let v = format!(
                    "gid={} speed={} id={} up={}",
                    to_hex(&p.gid.0),
                    p.speed,
                    p.id,
                    u8::from(p.up)
                );
                ("plane", v)
            }));
        }
    }
    d
}

/// Writes the packet that the fields of a vector describe.
fn build(v: &Vector) -> Vec<u8> {
    let n32 = |key: &str| v.num(key) as u32;
    let mut buf = vec![0xa5; wire::MAX_HEADER_LEN];
    let flags = PacketFlags(v.num("flags") as u8);
    let dst = n32("dst_conn");
    let path = PathId(v.num("path") as u16);
    let route_epoch = v.num("route_epoch") as u8;
    let len = match v.get("type").expect("a type") {
        "DATA" => {
            let name = v.get("opcode").expect("an opcode");
            let named = opcodes().find(|o| format!("{o:?}") == name);
            let fields = DataFields {
                opcode: named.expect("a known opcode"),
                flags: StreamFlags(v.num("stream_flags") as u8),
                dst_qpn: Qpn(n32("dst_qpn")),
                src_qpn: Qpn(n32("src_qpn")),
                msn: Msn(n32("msn")),
                epoch: v.num("epoch") as u16,
                offset: n32("offset"),
                va: v.num("va"),
                rkey: n32("rkey"),
                rsn: Rsn(n32("rsn")),
                imm: n32("imm"),
                length: n32("length"),
                compare_add: v.num("compare_add"),
                swap: v.num("swap"),
                original: v.num("original"),
                code: NakCode::from_code(v.num("code") as u8).unwrap_or_default(),
                rnr_timer: v.num("rnr_timer") as u8,
            };
            let h = DataHeader {
                path,
                route_epoch,
                psn: Psn(n32("psn")),
                stamp: Stamp(n32("stamp")),
                fields,
            };
            let n = h.emit(dst, flags, &mut buf).expect("room");
            assert_eq!(n, h.header_len());
            // The two-step way gives the same.
            let mut two = vec![0; n];
            let blank = DataHeader {
                fields,
                ..DataHeader::default()
            };
            blank.emit(dst, flags, &mut two).expect("room");
            let ack_req = flags.has(PacketFlags::ACK_REQ);
            wire::patch(&mut two, path, route_epoch, h.psn, h.stamp, ack_req).expect("room");
            assert_eq!(two, buf[..n]);
            Some(n)
        }
        "PROBE" => ProbeHeader {
            path,
            route_epoch,
            stamp: Stamp(n32("stamp")),
            next_psn: Psn(n32("next_psn")),
            src_conn: n32("src_conn"),
        }
        .emit(dst, flags, &mut buf),
        "DATAGRAM" => DatagramHeader {
            dst_qpn: Qpn(n32("dst_qpn")),
            src_qpn: Qpn(n32("src_qpn")),
            q_key: n32("q_key"),
            imm: v.get("imm").map(|_| n32("imm")),
            solicited: v.num("solicited") == 1,
            src_gid: gid(v.get("src_gid").expect("a GID")),
            dst_gid: gid(v.get("dst_gid").expect("a GID")),
        }
        .emit(&mut buf),
        "RESET" => ResetHeader {
            conn: n32("conn"),
            reason: match v.num("reason") {
                1 => ResetReason::UnknownId,
                2 => ResetReason::Closing,
                n => ResetReason::Other(n as u32),
            },
        }
        .emit(dst, flags, &mut buf),
        "ACK" => {
            let lines = v.0.iter().filter(|(k, _)| k == "block");
            let blocks: Vec<_> = lines
                .map(|(_, v)| {
                    let m = members(v);
                    let n = |key: &str| number(m[key]) as u32;
                    AckBlock {
                        path: PathId(n("path") as u16),
                        route_epoch: n("route_epoch") as u8,
                        cum: Psn(n("cum")),
                        ce_count: n("ce_count"),
                        stamp: Stamp(n("stamp")),
                        hold: n("hold"),
                        acked: words(m["acked"]),
                        held: words(m["held"]),
                    }
                })
                .collect();
            wire::emit_ack(dst, flags, n32("rate_hint"), &blocks, &mut buf)
        }
        kind @ ("INIT" | "INIT_ACK") => {
            let mut planes = PlaneList::new();
            for (_, v) in v.0.iter().filter(|(k, _)| k == "plane") {
                let m = members(v);
                let plane = Plane {
                    gid: gid(m["gid"]),
                    speed: number(m["speed"]) as u32,
                    id: number(m["id"]) as u8,
                    up: m["up"] == "1",
                };
                planes.push(plane).expect("few enough");
            }
            InitHeader {
                src_conn: n32("src_conn"),
                src_qpn: Qpn(n32("src_qpn")),
                dst_qpn: Qpn(n32("dst_qpn")),
                token: Token {
                    psn: n32("psn"),
                    expected: v.num("expected") == 1,
                },
                src_gid: gid(v.get("src_gid").expect("a GID")),
                dst_gid: gid(v.get("dst_gid").expect("a GID")),
                features: Features(n32("features")),
                payload_mtu: v.num("payload_mtu") as u16,
                paths: v.num("paths") as u8,
                revision: v.num("revision") as u8,
                planes,
            }
            .emit(kind == "INIT_ACK", dst, flags, &mut buf)
        }
        kind => panic!("unknown type {kind}"),
    };
    buf.truncate(len.expect("room"));
    let payload = v.bytes("payload");
    if flags.has(PacketFlags::CRC) {
        let crc = crc::packet_crc(&buf, &[&payload]).expect("a header");
        crc::set_crc(&mut buf, crc).expect("a header");
    }
    buf
}

#[test]
fn the_vectors_are_complete() {
    let all = Vector::all();
    for opcode in opcodes() {
        let name = format!("{opcode:?}");
        assert!(all.iter().any(|v| v.get("opcode") == Some(&name)), "{name}");
    }
    for kind in [
        "DATA", "ACK", "INIT", "INIT_ACK", "RESET", "PROBE", "DATAGRAM",
    ] {
        assert!(all.iter().any(|v| v.get("type") == Some(kind)), "{kind}");
    }
    for error in WireError::NAMES {
        assert!(all.iter().any(|v| v.get("error") == Some(error)), "{error}");
    }
}

#[test]
fn the_parser_reads_the_vectors() {
    for v in Vector::all() {
        let name = v.get("name").expect("a name");
        let (header, payload) = (v.bytes("hex"), v.bytes("payload"));
        let whole = [&header[..], &payload[..]].concat();
        let parsed = wire::parse(&whole).and_then(|(h, n)| {
            h.check_payload(whole.len() - n)?;
            Ok((h, n))
        });
        match (v.get("error"), parsed) {
            (Some(error), Err(e)) => assert_eq!(WireError::NAMES[e.index()], error, "{name}"),
            (Some(_), Ok(_)) => panic!("{name} was taken"),
            (None, Err(e)) => panic!("{name}: {e:?}"),
            (None, Ok((h, n))) => {
                assert_eq!(n, header.len(), "{name}");
                let said: Vec<_> =
                    v.0.iter()
                        .filter(|(k, _)| !["name", "hex", "payload"].contains(&k.as_str()))
                        .map(|(k, v)| (k.as_str(), v.clone()))
                        .collect();
                assert_eq!(describe(&h), said, "{name}");
                if h.base.flags.has(PacketFlags::CRC) {
                    let crc = crc::packet_crc(&header, &[&payload]);
                    assert_eq!(crc, Some(h.base.crc), "{name}");
                }
                // The header alone is enough, and less is not.
                assert!(wire::parse(&header).is_ok(), "{name}");
                for short in 0..header.len() {
                    let e = wire::parse(&header[..short]).err();
                    assert_eq!(e, Some(WireError::TooShort), "{name} {short}");
                }
            }
        }
    }
}

#[test]
fn the_emitter_writes_the_vectors() {
    for v in Vector::all() {
        if v.get("error").is_none() {
            let name = v.get("name").expect("a name");
            assert_eq!(to_hex(&build(&v)), v.get("hex").expect("bytes"), "{name}");
        }
    }
}

/// RFC 3720 appendix B.4.
#[test]
fn crc_is_that_of_iscsi() {
    let crc = |b: &[u8]| crc::finish(crc::crc32c(crc::CRC_SEED, b));
    assert_eq!(crc(&[0; 32]), 0x8a91_36aa);
    assert_eq!(crc(&[0xff; 32]), 0x62a8_ab43);
    assert_eq!(crc(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
    assert_eq!(crc(b"123456789"), 0xe306_9283);
}
