# SPDX-License-Identifier: GPL-2.0
"""Reads and atomics of the peer, as they are answered."""

import sys

import wire
from env import MTU, pattern
from peer import check, equal


def test_read(env):
    peer, qp = env.pair()
    data = pattern(5 * MTU + 3)
    qp.write(1000, data)
    peer.put(peer.packet(wire.READ_REQUEST, msn=peer.msn, address=qp.address + 1000,
                         rkey=qp.rkey, length=len(data), stream_flags=wire.LAST))
    parts = {}
    while len(parts) < 6:
        p = peer.expect_data(wire.READ_RESPONSE)
        equal((p.msn, p.epoch, p.dst_qp), (peer.msn, 0, peer.number), "response")
        equal(bool(p.stream_flags & wire.LAST), p.offset == 5 * MTU, "LAST")
        parts[p.offset] = p.payload
    equal(b"".join(parts[at] for at in sorted(parts)), data, "what was read")
    equal(peer.probe().cum, peer.path().next, "cumulative")


def test_read_waits_for_earlier_messages(env):
    peer, qp = env.pair()
    data = pattern(64)
    write = peer.packet(wire.WRITE, msn=peer.msn, address=qp.address, rkey=qp.rkey, payload=data,
                        stream_flags=wire.LAST)
    peer.put(peer.packet(wire.READ_REQUEST, msn=peer.msn + 1, address=qp.address, rkey=qp.rkey,
                         length=64, stream_flags=wire.LAST))
    equal(peer.probe().acked, {1}, "the request is taken")
    check(not any(p.kind == wire.DATA for p in peer.waiting), "an answer before its turn")
    peer.put(write)
    equal(peer.expect_data(wire.READ_RESPONSE).payload, data, "what was read")


def test_read_of_what_may_not_be_read(env):
    peer, qp = env.pair()
    peer.put(peer.packet(wire.READ_REQUEST, msn=peer.msn, address=qp.address, rkey=qp.rkey ^ 1,
                         length=64, stream_flags=wire.LAST))
    nak = peer.expect_data(wire.NAK)
    equal((nak.code, nak.msn), (wire.ACCESS_ERROR, peer.msn), "NAK")


def test_atomics(env):
    peer, qp = env.pair()
    value = 0x1122334455667788
    qp.write(0, value.to_bytes(8, sys.byteorder))
    where = dict(address=qp.address, rkey=qp.rkey, stream_flags=wire.LAST)
    for i, (opcode, fields, before, after) in enumerate((
            (wire.FETCH_ADD, dict(addend=2), value, value + 2),
            (wire.CMP_SWAP, dict(compare=1, swap=9), value + 2, value + 2),
            (wire.CMP_SWAP, dict(compare=value + 2, swap=9), value + 2, 9),
            (wire.FETCH_ADD, dict(addend=0xFFFFFFFFFFFFFFFF), 9, 8))):
        peer.put(peer.packet(opcode, msn=peer.msn + i, **where, **fields))
        p = peer.expect_data(wire.ATOMIC_RESPONSE)
        equal((p.msn, p.before), (peer.msn + i, before), "answer")
        equal(int.from_bytes(qp.read(0, 8), sys.byteorder), after, "memory")
        peer.acknowledge(p)
