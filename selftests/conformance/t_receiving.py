# SPDX-License-Identifier: GPL-2.0
"""Receiving data: in any order, on all paths, each packet once."""

import random
import sys

import wire
from env import MTU, completion, no_completion, pattern
from peer import equal


def test_data_in_any_order(env):
    peer, qp = env.pair()
    data = pattern(40 * MTU + 17)
    packets = peer.message(wire.WRITE, data, MTU, address=qp.address, rkey=qp.rkey,
                           msn=peer.msn)
    random.Random(2).shuffle(packets)
    for packet in packets:
        peer.put(packet)
    block = peer.probe()
    equal(block.cum, peer.path().next, "cumulative")
    equal(qp.read(0, len(data)), data, "memory")
    equal(qp.read(len(data), 64), bytes(64), "memory behind it")
    no_completion(qp)


def test_data_on_all_paths(env):
    peer, qp = env.pair()
    data = pattern(64 * MTU)
    packets = []
    for i in range(64):
        packets.append(peer.packet(
            wire.WRITE, path=i % 8, msn=peer.msn, offset=i * MTU,
            payload=data[i * MTU:(i + 1) * MTU], address=qp.address, rkey=qp.rkey,
            stream_flags=wire.LAST if i == 63 else 0))
    random.Random(3).shuffle(packets)
    for packet in packets:
        peer.put(packet, source_port=50000 + peer.rng.randrange(4))
    for path in range(8):
        equal(peer.probe(path).cum, peer.path(path).next, "cumulative of path %d" % path)
    equal(qp.read(0, len(data)), data, "memory")


def test_receives_complete_in_order(env):
    peer, qp = env.pair()
    for i in range(3):
        qp.recv(10 + i, i * 4096, 4096)
    data = [pattern(n, n) for n in (3 * MTU, 0, MTU + 1)]
    messages = [
        peer.message(wire.SEND, data[0], MTU, msn=peer.msn, rsn=0),
        peer.message(wire.SEND_IMM, data[1], MTU, msn=peer.msn + 1, rsn=1, imm=0xCAFEF00D),
        peer.message(wire.SEND, data[2], MTU, msn=peer.msn + 2, rsn=2),
    ]
    # The last message is there first, and the first all but one packet.
    for packet in messages[2] + messages[1] + messages[0][1:]:
        peer.put(packet)
    equal(len(peer.probe().acked), 5, "packets acknowledged")
    no_completion(qp)
    equal(qp.read(8192, MTU + 1), data[2], "the last message's place")
    peer.put(messages[0][0])
    for i, length in enumerate((3 * MTU, 0, MTU + 1)):
        wc = completion(qp, peer, 10 + i)
        equal(wc.byte_len, length, "length")
        equal(qp.read(i * 4096, length), data[i], "message %d" % i)


def test_write_with_immediate(env):
    peer, qp = env.pair()
    qp.recv(7, 65536, 16)
    data = pattern(2 * MTU)
    for packet in reversed(peer.message(
            wire.WRITE_IMM, data, MTU, msn=peer.msn, rsn=0, address=qp.address, rkey=qp.rkey,
            imm=0x01020304)):
        peer.put(packet)
    wc = completion(qp, peer, 7)
    equal(wc.imm_data.to_bytes(4, sys.byteorder), bytes((1, 2, 3, 4)), "immediate")
    equal(qp.read(0, len(data)), data, "memory")


def test_duplicates_are_not_taken_again(env):
    peer, qp = env.pair()
    write = dict(msn=peer.msn, address=qp.address, rkey=qp.rkey, stream_flags=wire.LAST)
    psn = peer.psn()
    peer.put(peer.packet(wire.WRITE, psn=psn, payload=pattern(100), **write))
    equal(peer.probe().cum, psn + 1, "cumulative")
    # The same number again, with other content and later stamp.
    peer.forget()
    peer.put(peer.packet(wire.WRITE, psn=psn, payload=bytes(100), **write))
    # It is answered, by itself: the ACK may have been lost.
    ack = peer.expect("ACK", lambda p: p.kind == wire.ACK and p.blocks[0].stamp == peer.stamp)
    equal(ack.blocks[0].cum, psn + 1, "cumulative")
    peer.probe()
    equal(qp.read(0, 100), pattern(100), "memory")
