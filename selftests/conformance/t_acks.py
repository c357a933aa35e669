# SPDX-License-Identifier: GPL-2.0
"""What an ACK says of the packets that arrived, and when it comes."""

import wire
from env import MTU, pattern
from peer import equal


def test_gaps_in_the_vectors_byte_for_byte(env):
    peer, qp = env.pair()
    first = peer.path().next
    arrived = (0, 1, 3, 5, 6, 34, 35, 100, 255)
    for n in arrived:
        peer.put(peer.packet(wire.WRITE, psn=first + n, msn=peer.msn, offset=n * MTU,
                             payload=pattern(MTU, n), address=qp.address, rkey=qp.rkey))
    peer.path().next = first + 256
    block = peer.probe()
    equal(block.cum, first + 2, "cumulative")
    # Bit i is cumulative + 1 + i.
    vector = bytearray(32)
    for n in arrived[2:]:
        i = n - 3
        vector[i // 32 * 4 + 3 - i % 32 // 8] |= 1 << i % 8
    equal(block.lengths, 8, "lengths of the vectors")
    equal(block.vector.hex(), vector.hex(), "vector")
    equal(block.marks, 0, "marks")
    for n in arrived:
        equal(qp.read(n * MTU, MTU), pattern(MTU, n), "packet %d" % n)
    equal(qp.read(2 * MTU, MTU), bytes(MTU), "a packet that was not sent")
    # Trailing zero words are left out: close all but one gap.
    for n in set(range(256)) - set(arrived) - {4}:
        peer.put(peer.packet(wire.WRITE, psn=first + n, msn=peer.msn, offset=n * MTU,
                             payload=pattern(MTU, n), address=qp.address, rkey=qp.rkey))
    block = peer.probe()
    equal((block.cum, block.acked), (first + 4, set(range(1, 252))), "all but one")
    peer.put(peer.packet(wire.VOID, psn=first + 4))
    block = peer.probe()
    equal((block.cum, block.lengths), (first + 256, 0), "all")


def test_a_gap_is_told_at_once(env):
    peer, qp = env.pair()
    first = peer.path().next
    peer.put(peer.packet(wire.VOID, psn=first + 1))
    ack = peer.expect("ACK without having been asked", lambda p: p.kind == wire.ACK)
    block = ack.blocks[0]
    equal((block.path, block.cum, block.acked, block.stamp), (0, first, {1}, peer.stamp), "ACK")
    # And so is its end.
    peer.put(peer.packet(wire.VOID, psn=first))
    ack = peer.expect("ACK", lambda p: p.kind == wire.ACK and p.blocks[0].stamp == peer.stamp)
    equal(ack.blocks[0].cum, first + 2, "cumulative")


def test_32_packets_bring_an_ACK(env):
    peer, qp = env.pair()
    for _ in range(32):
        peer.put(peer.packet(wire.VOID))
    peer.expect("ACK without having been asked", lambda p: p.kind == wire.ACK)


def test_ACK_REQ(env):
    peer, qp = env.pair()
    peer.put(peer.packet(wire.VOID, epoch_route=9, flags=wire.CRC | wire.ACK_REQ))
    ack = peer.expect("ACK", lambda p: p.kind == wire.ACK)
    equal((ack.blocks[0].stamp, ack.blocks[0].epoch_route), (peer.stamp, 9), "echo")
    equal(ack.blocks[0].cum, peer.path().next, "cumulative")


def test_numbers_outside_of_the_window(env):
    peer, qp = env.pair()
    first = peer.path().next
    write = dict(msn=peer.msn, address=qp.address, rkey=qp.rkey, payload=pattern(MTU))
    for n in (256, 257, 1000, 0x7FFFFFFF, -1, -300, -0x80000000):
        peer.put(peer.packet(wire.WRITE, psn=first + n, **write))
    block = peer.probe()
    equal((block.cum, block.lengths), (first, 0), "nothing arrived")
    equal(qp.read(0, MTU), bytes(MTU), "memory")
    peer.put(peer.packet(wire.WRITE, psn=first + 255, **write))
    equal(peer.probe().acked, {255}, "the last of the window")
    equal(qp.read(0, MTU), pattern(MTU), "memory")


def test_marks_are_counted_and_told_at_once(env):
    peer, qp = env.pair()
    for marks in range(1, 4):
        peer.put(peer.packet(wire.VOID), ecn=3)
        ack = peer.expect("ACK without having been asked", lambda p: p.kind == wire.ACK
                          and p.blocks[0].stamp == peer.stamp)
        equal(ack.blocks[0].marks, marks, "marks")
    for ecn in (0, 1, 2):
        peer.put(peer.packet(wire.VOID), ecn=ecn)
    equal(peer.probe().marks, 3, "marks")
    equal(peer.probe(1).marks, 0, "marks of another path")


def test_one_ACK_covers_all_paths(env):
    peer, qp = env.pair()
    stamps = {}
    for path in range(8):
        peer.put(peer.packet(wire.VOID, path=path))
        stamps[path] = peer.stamp
    peer.put(peer.packet(wire.VOID, path=2, flags=wire.CRC | wire.ACK_REQ))
    stamps[2] = peer.stamp
    ack = peer.expect("ACK", lambda p: p.kind == wire.ACK)
    equal({b.path: b.stamp for b in ack.blocks}, stamps, "paths and echoes")


def test_probes_count_with_their_own_stamps(env):
    peer, qp = env.pair()
    for path in (0, 3, 7):
        for epoch in (0, 1, 255):
            equal(peer.probe(path, epoch).cum, peer.path(path).next, "cumulative")
