# SPDX-License-Identifier: GPL-2.0
"""Packets that leave no trace, and fields that nobody looks at."""

import wire
from env import MTU, pattern
from peer import check, equal


def test_paths_that_there_are_not(env):
    peer, qp = env.pair()
    peer.put(wire.data(peer.remote, 8, wire.first_psn(peer.remote, 8), peer.tick(), wire.WRITE,
                       dst_qp=qp.number, src_qp=peer.number, msn=peer.msn, payload=b"x" * 8,
                       address=qp.address, rkey=qp.rkey, stream_flags=wire.LAST))
    peer.put(wire.probe(peer.remote, 9, peer.tick(), 0, peer.conn))
    peer.put(wire.ack(peer.remote, [wire.block(60000, 1, 2)]))
    peer.probe()
    check(not any(p.kind == wire.ACK and any(b.path > 7 for b in p.blocks) for p in peer.log),
          "an ACK of a path that there is not")
    equal(qp.read(0, 8), bytes(8), "memory")


def test_wrong_CRCs_and_ids(env):
    peer, qp = env.pair()
    write = dict(msn=peer.msn, address=qp.address, rkey=qp.rkey, payload=pattern(MTU),
                 psn=peer.path().next, stream_flags=wire.LAST)
    good = peer.packet(wire.WRITE, **write)
    for at in (8, 13, 17, 45, len(good) - 1):
        bad = bytearray(good)
        bad[at] ^= 0x10
        peer.put(bytes(bad))
    # Without a CRC, though one was agreed on; without and with a wrong one.
    peer.put(peer.packet(wire.WRITE, flags=0, **write))
    bare = bytearray(peer.packet(wire.WRITE, flags=0, **write))
    bare[8] = 1
    peer.put(bytes(bare))
    # For another connection: that brings a RESET at most.
    known, peer.remote = peer.remote, peer.remote ^ 0x80
    peer.put(peer.packet(wire.WRITE, **write))
    peer.remote = known
    block = peer.probe()
    equal((block.cum, block.lengths), (write["psn"], 0), "nothing arrived")
    equal(qp.read(0, MTU), bytes(MTU), "memory")
    peer.put(good)
    equal(peer.probe().cum, write["psn"] + 1, "cumulative")
    equal(qp.read(0, MTU), pattern(MTU), "memory")


def test_packets_that_no_parser_takes(env):
    peer, qp = env.pair()
    psn = peer.path().next
    fields = dict(msn=peer.msn, address=qp.address, rkey=qp.rkey, psn=psn,
                  stream_flags=wire.LAST)
    good = peer.packet(wire.WRITE, payload=pattern(8), **fields)

    def changed(at, value, cut=None, more=b""):
        raw = bytearray(good[:cut] + more)
        raw[at] = value
        raw[8:12] = bytes(4)
        raw[8:12] = wire.crc32c(raw).to_bytes(4, "big")
        return bytes(raw)

    for bad in (changed(0, 2), changed(1, 0), changed(1, 8), changed(2, 2 | 4),
                changed(3, 13), changed(3, 15), changed(3, 2), changed(3, 255),
                changed(15, 14), changed(15, 255), changed(24, 0x08 | 1),
                changed(0, 1, cut=40), good[:11], good[:12], b""):
        peer.put(bad)
    # Payload where there must be none.
    peer.put(peer.packet(wire.READ_REQUEST, length=8, payload=b"abcd", **fields))
    peer.put(wire.probe(peer.remote, 0, peer.tick(), psn, peer.conn) + b"abcd")
    block = peer.probe()
    equal((block.cum, block.lengths), (psn, 0), "nothing arrived")
    peer.put(good)
    equal(peer.probe().cum, psn + 1, "cumulative")
    equal(qp.read(0, 8), pattern(8), "memory")


def test_reserved_fields_are_ignored(env):
    peer, qp = env.pair()
    good = peer.packet(wire.WRITE, payload=pattern(8), msn=peer.msn, address=qp.address,
                       rkey=qp.rkey, stream_flags=wire.LAST)
    raw = bytearray(good)
    raw[28] = 0xFF
    raw[38:40] = b"\xff\xff"
    raw[8:12] = bytes(4)
    raw[8:12] = wire.crc32c(raw).to_bytes(4, "big")
    peer.put(bytes(raw))
    equal(peer.probe().cum, peer.path().next, "cumulative")
    equal(qp.read(0, 8), pattern(8), "memory")
