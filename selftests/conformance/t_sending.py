# SPDX-License-Identifier: GPL-2.0
"""What the queue pair sends, how much of it at once, and what again."""

import sys
import time

import pyverbs.enums as e

import wire
from env import MTU, completion, no_completion, pattern
from peer import check, equal
from qp import PATIENCE
from receiver import Receiver, whole


def test_a_send(env):
    peer, qp = env.pair()
    take = Receiver(peer)
    data = pattern(9 * MTU + 1)
    qp.write(0, data)
    qp.send(1, 0, len(data))
    completion(qp, peer, 1)
    equal(whole(take.packets, len(data)), data, "message")
    for p in take.packets:
        equal((p.opcode, p.msn, p.epoch, p.rsn), (wire.SEND, 0x123, 0, 0), "packet")
        equal((p.dst_qp, p.src_qp), (peer.number, qp.number), "queue pairs")
    # At least the last packet of a path's burst asks for an ACK.
    check(any(p.flags & wire.ACK_REQ for p in take.packets), "no ACK was asked for")
    equal({p.ecn for p in take.packets}, {2}, "ECN")


def test_numbers_of_messages_and_receives(env):
    peer, qp = env.pair(sq_psn=0xFFFFFF)
    take = Receiver(peer)
    ops = ((e.IBV_WR_SEND, wire.SEND, 0), (e.IBV_WR_RDMA_WRITE, wire.WRITE, None),
           (e.IBV_WR_SEND_WITH_IMM, wire.SEND_IMM, 1),
           (e.IBV_WR_RDMA_WRITE_WITH_IMM, wire.WRITE_IMM, 2), (e.IBV_WR_SEND, wire.SEND, 3))
    for i, (op, _, _) in enumerate(ops):
        qp.send(i, 0, 10, op, remote=0x123456789ABCD000, rkey=0x55AA, imm=5)
    for i in range(len(ops)):
        completion(qp, peer, i)
    packets = sorted(take.packets, key=lambda p: p.msn - 0xFFFFFF)
    for i, (p, (_, opcode, rsn)) in enumerate(zip(packets, ops)):
        equal((p.opcode, p.msn), (opcode, 0xFFFFFF + i & 0xFFFFFFFF), "packet %d" % i)
        equal(getattr(p, "rsn", None), rsn, "RSN of %d" % i)
        if opcode in (wire.WRITE, wire.WRITE_IMM):
            equal((p.address, p.rkey), (0x123456789ABCD000, 0x55AA), "address and key")


def test_a_lost_packet_is_sent_again_and_nothing_else(env):
    peer, qp = env.pair()
    take = Receiver(peer, deaf=(3,))
    data = pattern(20 * MTU)
    qp.write(0, data)
    qp.send(1, 0, len(data))
    completion(qp, peer, 1)
    equal(whole(take.packets, len(data)), data, "message")
    sent = [p for p in peer.log if p.kind == wire.DATA]
    again = [p for p in sent if (p.path, p.psn) == (take.lost.path, take.lost.psn)]
    check(len(again) >= 2, "the lost packet came %d times", len(again))
    first, second = again[:2]
    equal(second.payload, first.payload, "content")
    check((second.stamp - first.stamp & 0xFFFFFFFF) < 1 << 31 and second.stamp != first.stamp,
          "stamps %#x, %#x", first.stamp, second.stamp)
    check(second.flags & wire.ACK_REQ, "a retransmission that asks for no ACK")


def test_stamps_grow_on_each_path(env):
    peer, qp = env.pair()
    take = Receiver(peer, deaf=(2, 9, 11))
    qp.send(1, 0, 60 * MTU)
    completion(qp, peer, 1)
    last = {}
    for p in peer.log:
        if p.kind not in (wire.DATA, wire.PROBE):
            continue
        if p.path in last:
            check(0 < (p.stamp - last[p.path] & 0xFFFFFFFF) < 1 << 31,
                  "path %d: stamp %#x after %#x", p.path, p.stamp, last[p.path])
        last[p.path] = p.stamp


def test_the_window_is_kept(env):
    peer, qp = env.pair()
    # Nothing is acknowledged; what comes of new data must stay within the span, less the
    # places for NAKs.
    qp.send(1, 0, 640 * MTU)
    highest = {}
    for path in range(8):
        peer.expect("PROBE", lambda p: p.kind == wire.PROBE and p.path == path)
    for p in peer.log:
        if p.kind == wire.DATA:
            distance = p.psn - wire.first_psn(peer.conn, p.path) & 0xFFFFFFFF
            highest[p.path] = max(highest.get(p.path, 0), distance)
    equal(sorted(highest), list(range(8)), "paths in use")
    check(max(highest.values()) < 240, "%d packets ahead", max(highest.values()) + 1)
    Receiver(peer)
    completion(qp, peer, 1)


def test_128_messages_at_most_are_outstanding(env):
    peer, qp = env.pair(depth=200)
    for i in range(200):
        qp.send(i, 0, 8)
    # One PROBE of a path comes when nothing new has been sent on it for a while.
    peer.expect("PROBE", lambda p: p.kind == wire.PROBE)
    last = max(p.msn for p in peer.log if p.kind == wire.DATA)
    check(last < 0x123 + 128, "message %d", last - 0x123)
    take = Receiver(peer)
    for i in range(200):
        completion(qp, peer, i)
    equal({p.msn for p in take.packets}, set(range(0x123, 0x123 + 200)), "messages")
    for p in take.packets:
        equal(p.rsn, p.msn - 0x123, "RSN")


def test_the_CRC_is_left_out_where_the_peer_says_so(env):
    peer, qp = env.pair()
    peer.check_crc = False
    take = Receiver(peer)
    # An ACK tells it of the one path; timers that run out on a slow machine end it, so not
    # every packet need be without.
    told, bare, number = set(), [], 0
    take.flags = wire.CRC | wire.LOCAL
    end = time.monotonic() + PATIENCE
    while not bare:
        check(time.monotonic() < end, "all %d packets had a CRC", number)
        qp.send(number, 0, 8)
        completion(qp, peer, number)
        p = take.packets[number]
        if not p.flags & wire.CRC:
            check(p.path in told, "no CRC on path %d", p.path)
            bare.append(p)
        told.add(p.path)
        number += 1
    take.flags = wire.CRC
    told = set()
    for number in range(number, number + 24):
        qp.send(number, 0, 8)
        completion(qp, peer, number)
        p = take.packets[number]
        check(p.flags & wire.CRC or p.path not in told, "still no CRC on path %d", p.path)
        told.add(p.path)


def test_a_read_of_the_peer(env):
    peer, qp = env.pair()
    data = pattern(4 * MTU + 9)
    qp.send(1, 0, len(data), e.IBV_WR_RDMA_READ, remote=0xABC000, rkey=0x77)
    request = peer.expect_data(wire.READ_REQUEST)
    equal((request.address, request.rkey, request.length), (0xABC000, 0x77, len(data)),
          "request")
    take = Receiver(peer)
    peer.waiting.append(request)
    packets = []
    for at in range(0, len(data), MTU):
        packets.append(peer.packet(
            wire.READ_RESPONSE, msn=request.msn, epoch=request.epoch, offset=at,
            payload=data[at:at + MTU],
            stream_flags=wire.LAST if at + MTU >= len(data) else 0))
    for packet in reversed(packets[1:]):
        peer.put(packet)
    peer.probe()
    no_completion(qp)
    peer.put(packets[0])
    completion(qp, peer, 1)
    equal(qp.read(0, len(data)), data, "memory")
    peer.serve(0)
    equal([p.psn for p in take.packets], [request.psn], "what was sent")


def test_an_atomic_of_the_peer(env):
    peer, qp = env.pair()
    Receiver(peer)
    qp.atomic(1, 64, e.IBV_WR_ATOMIC_CMP_AND_SWP, 0xABC008, 0x77, 5, 6)
    end = time.monotonic() + 60
    request = None
    while request is None:
        check(time.monotonic() < end, "no request")
        peer.serve(0.05)
        found = [p for p in peer.log if p.kind == wire.DATA and p.opcode == wire.CMP_SWAP]
        request = found[0] if found else None
    equal((request.address, request.rkey, request.compare, request.swap),
          (0xABC008, 0x77, 5, 6), "request")
    peer.put(peer.packet(wire.ATOMIC_RESPONSE, msn=request.msn, epoch=request.epoch,
                         before=0x0102030405060708, stream_flags=wire.LAST))
    completion(qp, peer, 1)
    equal(int.from_bytes(qp.read(64, 8), sys.byteorder), 0x0102030405060708, "memory")


def test_silence_brings_probes(env):
    peer, qp = env.pair()
    qp.send(1, 0, 10)
    request = peer.expect_data(wire.SEND)
    probe = peer.expect("PROBE", lambda p: p.kind == wire.PROBE and p.path == request.path)
    equal(probe.next_psn, request.psn + 1, "one past the highest PSN")
    # Its answer proves the packet lost, which comes at once, and again.
    Receiver(peer)
    peer.waiting.append(probe)
    completion(qp, peer, 1)
