# SPDX-License-Identifier: GPL-2.0
"""The encoding of Documentation/wire-protocol.rst, written from that document
alone: nothing here comes from rust/proto."""

import struct

VERSION = 1
DATA, ACK, INIT, INIT_ACK, RESET, PROBE, DATAGRAM = range(1, 8)
ACK_REQ, CRC, LOCAL = 1, 2, 4
LAST, SOLICITED, START = 1, 2, 4
(VOID, SEND, SEND_IMM, SEND_INV, WRITE, WRITE_IMM, READ_REQUEST, READ_RESPONSE,
 CMP_SWAP, FETCH_ADD, ATOMIC_RESPONSE, NAK,
 ATOMIC_WRITE, FLUSH) = range(14)
RNR, NOT_READY, INVALID_REQUEST, ACCESS_ERROR, OPERATIONAL_ERROR = range(1, 6)
UNKNOWN_ID, CLOSED = 1, 2
FEATURE_CRC = 1
SPAN = 256
STAMP_NS = 64


class Malformed(Exception):
    """What a receiver has to drop."""


def _table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return table


_TABLE = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def seal(kind, dst_conn, rest, payload=b"", flags=CRC):
    """A whole datagram: base header, the rest of the headers, payload."""
    words = (12 + len(rest)) // 4
    head = struct.pack("!BBBBI", VERSION, kind, flags, words, dst_conn)
    crc = crc32c(head + bytes(4) + rest + payload) if flags & CRC else 0
    return head + struct.pack("!I", crc) + rest + payload


class Packet:
    """A datagram that was taken apart; the fields are attributes."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return "Packet(%s)" % ", ".join(
            "%s=%r" % item for item in self.__dict__.items() if item[0] != "raw"
        )


# Fields of the extension by opcode: struct format and names, "x" for reserved.
EXTENSIONS = {
    VOID: ("", ()),
    SEND: ("I", ("rsn",)),
    SEND_IMM: ("II", ("rsn", "imm")),
    SEND_INV: ("II", ("rsn", "inv_rkey")),
    WRITE: ("QI", ("address", "rkey")),
    WRITE_IMM: ("QIII", ("address", "rkey", "rsn", "imm")),
    READ_REQUEST: ("QII", ("address", "rkey", "length")),
    READ_RESPONSE: ("", ()),
    CMP_SWAP: ("QI4xQQ", ("address", "rkey", "compare", "swap")),
    FETCH_ADD: ("QI4xQ8x", ("address", "rkey", "addend")),
    ATOMIC_RESPONSE: ("Q", ("before",)),
    NAK: ("BB2x", ("code", "timer")),
    ATOMIC_WRITE: ("QI4xQ", ("address", "rkey", "value")),
    FLUSH: ("QIIBB2x", ("address", "rkey", "length", "placement", "selectivity")),
}
WITH_PAYLOAD = (SEND, SEND_IMM, SEND_INV, WRITE, WRITE_IMM, READ_RESPONSE)


def data(dst_conn, path, psn, stamp, opcode, *, epoch_route=0, stream_flags=0, dst_qp=0,
         src_qp=0, msn=0, epoch=0, offset=0, payload=b"", flags=CRC, **extension):
    rest = struct.pack("!HBBIIIIIHHI", path, epoch_route, opcode, psn & 0xFFFFFFFF,
                       stamp & 0xFFFFFFFF, stream_flags << 24 | dst_qp, src_qp,
                       msn & 0xFFFFFFFF, epoch, 0, offset)
    form, names = EXTENSIONS[opcode]
    rest += struct.pack("!" + form, *(extension[name] for name in names))
    return seal(DATA, dst_conn, rest, payload, flags)


def probe(dst_conn, path, stamp, next_psn, src_conn, epoch_route=0, flags=CRC):
    rest = struct.pack("!HBBIII", path, epoch_route, 0, stamp & 0xFFFFFFFF,
                       next_psn & 0xFFFFFFFF, src_conn)
    return seal(PROBE, dst_conn, rest, flags=flags)


def block(path, cum, stamp, *, epoch_route=0, acked=(), held=(), marks=0, hold=0):
    """A block of an ACK; "acked" and "held" are distances from "cum"."""
    vector = words(n - 1 for n in acked)
    holds = words(held)
    return struct.pack("!HBBIIII", path, epoch_route, len(vector) | len(holds) << 4,
                       cum & 0xFFFFFFFF, marks, stamp & 0xFFFFFFFF, hold) + struct.pack(
                           "!%dI" % len(vector + holds), *vector, *holds)


def words(bits):
    """Bit numbers as a vector of words without trailing zero words."""
    vector = []
    for bit in bits:
        vector += [0] * (bit // 32 + 1 - len(vector))
        vector[bit // 32] |= 1 << bit % 32
    return vector


def bits(vector):
    return {32 * w + i for w, word in enumerate(vector) for i in range(32) if word >> i & 1}


def ack(dst_conn, blocks, rate=0, flags=CRC):
    return seal(ACK, dst_conn, struct.pack("!HHI", len(blocks), 0, rate) + b"".join(blocks),
                flags=flags)


def init(kind, dst_conn, src_conn, revision, src_qp, dst_qp, src_gid, dst_gid, features, mtu,
         paths, planes, psn, expected=0):
    rest = struct.pack("!III16s16sIHBBI", src_conn, revision << 24 | src_qp, dst_qp, src_gid,
                       dst_gid, features, mtu, paths, len(planes), expected << 24 | psn)
    for gid, speed, number, up in planes:
        rest += struct.pack("!16sIBBH", gid, speed, number, up, 0)
    return seal(kind, dst_conn, rest)


def reset(dst_conn, conn, reason):
    return seal(RESET, dst_conn, struct.pack("!II", conn, reason))


def parse(raw):
    """Takes a datagram apart; raises Malformed where the document says "dropped"."""
    if len(raw) < 12:
        raise Malformed("too short")
    version, kind, flags, length, dst_conn, crc = struct.unpack_from("!BBBBII", raw)
    length *= 4
    if version != VERSION:
        raise Malformed("version")
    if not DATA <= kind <= DATAGRAM:
        raise Malformed("type")
    if flags & ~(ACK_REQ | CRC | (LOCAL if kind == ACK else 0)):
        raise Malformed("flags")
    if length < 12 or length > len(raw):
        raise Malformed("length")
    if flags & CRC and crc != crc32c(raw[:8] + bytes(4) + raw[12:]):
        raise Malformed("crc")
    p = Packet(raw=raw, kind=kind, flags=flags, dst_conn=dst_conn, payload=raw[length:])
    rest = raw[12:length]
    try:
        used = _PARSERS[kind](p, rest)
    except (struct.error, IndexError):
        raise Malformed("length") from None
    if used != len(rest):
        raise Malformed("length")
    if p.payload and not (kind == DATAGRAM or kind == DATA and p.opcode in WITH_PAYLOAD):
        raise Malformed("payload")
    return p


def _parse_data(p, rest):
    (p.path, p.epoch_route, p.opcode, p.psn, p.stamp, dst, src, p.msn, p.epoch, _,
     p.offset) = struct.unpack_from("!HBBIIIIIHHI", rest)
    p.stream_flags, p.dst_qp, p.src_qp = dst >> 24, dst & 0xFFFFFF, src & 0xFFFFFF
    if p.opcode not in EXTENSIONS:
        raise Malformed("opcode")
    if p.stream_flags & ~(LAST | SOLICITED | START):
        raise Malformed("flags")
    form, names = EXTENSIONS[p.opcode]
    p.__dict__.update(zip(names, struct.unpack_from("!" + form, rest, 32)))
    if p.opcode == NAK and not RNR <= p.code <= OPERATIONAL_ERROR:
        raise Malformed("NAK code")
    return 32 + struct.calcsize("!" + form)


def _parse_probe(p, rest):
    p.path, p.epoch_route, _, p.stamp, p.next_psn, p.src_conn = struct.unpack_from(
        "!HBBIII", rest)
    return 16


def _parse_ack(p, rest):
    n, _, p.rate = struct.unpack_from("!HHI", rest)
    if n > 16:
        raise Malformed("blocks")
    p.blocks, at = [], 8
    for _ in range(n):
        path, epoch_route, lengths, cum, marks, stamp, hold = struct.unpack_from(
            "!HBBIIII", rest, at)
        acked, held = lengths & 15, lengths >> 4
        if acked > 8 or held > 8:
            raise Malformed("vector")
        vector = struct.unpack_from("!%dI" % (acked + held), rest, at + 20)
        p.blocks.append(
            Packet(path=path, epoch_route=epoch_route, cum=cum, marks=marks, stamp=stamp,
                   hold=hold, acked={n + 1 for n in bits(vector[:acked])},
                   held=bits(vector[acked:]), lengths=lengths,
                   vector=rest[at + 20:at + 20 + 4 * (acked + held)]))
        at += 20 + 4 * (acked + held)
    return at


def _parse_init(p, rest):
    (p.src_conn, src, p.dst_qp, p.src_gid, p.dst_gid, p.features, p.mtu, p.paths,
     n, psn) = struct.unpack_from("!III16s16sIHBBI", rest)
    p.revision, p.src_qp, p.dst_qp = src >> 24, src & 0xFFFFFF, p.dst_qp & 0xFFFFFF
    p.psn, p.expected = psn & 0xFFFFFF, psn >> 24 & 1
    if not 1 <= n <= 8:
        raise Malformed("planes")
    p.planes = [struct.unpack_from("!16sIBBH", rest, 56 + 24 * i)[:4] for i in range(n)]
    return 56 + 24 * n


def _parse_reset(p, rest):
    p.conn, p.reason = struct.unpack_from("!II", rest)
    return 8


def _parse_datagram(p, rest):
    dst, src, p.q_key, p.imm, p.src_gid, p.dst_gid = struct.unpack_from("!IIII16s16s", rest)
    p.datagram_flags, p.dst_qp, p.src_qp = dst >> 24, dst & 0xFFFFFF, src & 0xFFFFFF
    if p.datagram_flags & ~3:
        raise Malformed("flags")
    return 48


_PARSERS = {DATA: _parse_data, ACK: _parse_ack, INIT: _parse_init, INIT_ACK: _parse_init,
            RESET: _parse_reset, PROBE: _parse_probe, DATAGRAM: _parse_datagram}


def gid_of(address):
    """The GID of an IPv4 address."""
    return bytes(10) + b"\xff\xff" + bytes(int(part) for part in address.split("."))


def address_of(gid):
    return ".".join(str(byte) for byte in gid[12:])


def first_psn(dst_conn, path):
    return dst_conn ^ (path * 0x9E3779B9 & 0xFFFFFFFF)
