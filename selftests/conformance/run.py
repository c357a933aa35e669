#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Speaks Documentation/wire-protocol.rst to a real queue pair, packet by packet,
from UDP sockets, and holds it to what the document says. Each test is a peer
with an address of its own. Prints KTAP.

Usage: run.py DEVICE GID_INDEX TARGET TARGET ADDRESS... -- ADDRESS...
DEVICE is in another namespace and is reached under the TARGETs. The ADDRESSes
are the tester's own. Of either, there are those of the first plane and those of
the second.
"""

import os
import random
import re
import sys
import time
import traceback

import pyverbs.enums as e

import wire
from peer import PORT, Failure, Peer, check, equal
from qp import PATIENCE, Device, QueuePair

MTU = 256
TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


class Env:
    """What a test gets: the device, and peers that are closed after it."""

    def __init__(self, device, targets, addresses, second):
        self.device, (self.target, self.second_target) = device, targets
        self.addresses = list(zip(addresses, second))
        self.open = []

    def peer(self, planes=1):
        own = list(self.addresses.pop(0))[:planes]
        peer = Peer(own, (self.target, PORT), seed=len(self.addresses))
        self.open.append(peer)
        return peer

    def qp(self, peer, **options):
        options = dict(sq_psn=0x123, rq_psn=0xFFFFF0, mtu=MTU) | options
        qp = QueuePair(self.device, peer.gid, peer.number, **options)
        self.open.append(qp)
        return qp

    def pair(self, planes=1, **options):
        """A peer and a queue pair that are connected; "msn" is the peer's first."""
        peer = self.peer(planes)
        qp = self.qp(peer, **options)
        peer.connect(qp)
        peer.msn = 0xFFFFF0
        return peer, qp

    def close(self):
        for thing in reversed(self.open):
            thing.close()
        self.open = []


def pattern(length, seed=1):
    return random.Random(seed).randbytes(length)


def completion(qp, peer, wr_id, status=e.IBV_WC_SUCCESS):
    wc = qp.completion(peer)
    check(wc is not None, "no completion")
    equal((wc.wr_id, wc.status), (wr_id, status), "completion")
    return wc


def no_completion(qp):
    """Used after an answer that would have come after the completion."""
    n, _ = qp.cq.poll()
    equal(n, 0, "completions")


# The encoding


@test
def test_vectors(env):
    """The codec of the tester and the vectors agree."""
    here = os.path.dirname(os.path.abspath(__file__))
    reasons = {"too_short": "too short", "bad_version": "version", "bad_type": "type"}
    good = bad = 0
    with open(os.path.join(here, "../proto/vectors/wire-v1.txt"), encoding="ascii") as f:
        text = "\n".join(line for line in f.read().split("\n") if not line.startswith("#"))
    for vector in text.split("\n\n"):
        fields = dict(re.findall(r"^(\w+): ?(.*)$", vector, re.M))
        if "hex" not in fields:
            continue
        raw = bytes.fromhex(fields["hex"]) + bytes.fromhex(fields.get("payload", ""))
        if "error" in fields:
            bad += 1
            try:
                wire.parse(raw)
            except wire.Malformed as reason:
                want = reasons.get(fields["error"])
                check(not want or want == str(reason) or want == "too short",
                      "%s: %s", fields["name"], reason)
            else:
                raise Failure("%s was taken" % fields["name"])
            continue
        good += 1
        p = wire.parse(raw)
        for name, ours in (("msn", "msn"), ("psn", "psn"), ("expected", "expected"),
                           ("path", "path"), ("rsn", "rsn"),
                           ("dst_conn", "dst_conn"), ("src_conn", "src_conn"),
                           ("offset", "offset"), ("epoch", "epoch"), ("paths", "paths"),
                           ("revision", "revision"), ("payload_mtu", "mtu")):
            if name in fields and hasattr(p, ours):
                equal(getattr(p, ours), int(fields[name], 0), fields["name"] + ": " + name)
    check(good > 10 and bad > 10, "%d good vectors, %d bad ones", good, bad)


# Handshake


@test
def test_INIT_of_the_queue_pair(env):
    peer = env.peer()
    qp = env.qp(peer)
    peer.qp = qp
    init = peer.expect("INIT", lambda p: p.kind == wire.INIT)
    equal(init.dst_conn, 0, "receiver's connection id")
    check(init.src_conn != 0, "connection id 0")
    equal((init.src_qp, init.dst_qp), (qp.number, peer.number), "queue pairs")
    equal(init.psn, qp.rq_psn if init.expected else qp.sq_psn, "PSN")
    equal((init.src_gid, init.dst_gid), (env.device.gid, peer.gid), "GIDs")
    equal(init.features & wire.FEATURE_CRC, wire.FEATURE_CRC, "features")
    equal(len(init.planes), 2, "planes")
    equal([plane[3] for plane in init.planes], [1, 1], "states of the planes")
    equal(init.planes[0][0], env.device.gid, "first plane")
    check(init.mtu >= MTU, "payload of %d bytes at most", init.mtu)
    check(1 <= init.paths <= 64, "%d paths", init.paths)
    equal(len(init.raw), 68 + 24 * 2, "length")
    # It is repeated until it is answered.
    again = peer.expect("another INIT", lambda p: p.kind == wire.INIT)
    equal(again.src_conn, init.src_conn, "connection id of the second INIT")


@test
def test_INIT_is_answered(env):
    peer = env.peer()
    peer.qp = qp = env.qp(peer)
    peer.put(peer.init())
    ack = peer.expect("INIT_ACK", lambda p: p.kind == wire.INIT_ACK)
    equal(ack.dst_conn, peer.conn, "receiver's connection id")
    equal((ack.src_qp, ack.dst_qp), (qp.number, peer.number), "queue pairs")
    peer.remote = ack.src_conn
    # Each one is.
    peer.forget()
    peer.put(peer.init())
    peer.expect("INIT_ACK", lambda p: p.kind == wire.INIT_ACK)
    peer.probe()


@test
def test_INIT_goes_by_every_plane(env):
    peer = env.peer()
    peer.qp = env.qp(peer)
    sources = {env.target, env.second_target}
    while sources:
        init = peer.expect("INIT from %s" % sources, lambda p: p.kind == wire.INIT)
        sources.discard(init.source)
    # Whichever it came from.
    peer.remote = init.src_conn
    peer.put(peer.init(wire.INIT_ACK))
    peer.probe()


@test
def test_terms_are_the_smaller_of_both(env):
    peer = env.peer()
    peer.room, peer.features = 3, 0
    qp = env.qp(peer)
    peer.connect(qp)
    take = Receiver(peer)
    # A CRC, though only one side asked for it, see "check_packet".
    qp.send(1, 0, 300 * MTU)
    completion(qp, peer, 1)
    equal({p.path for p in take.packets}, {0, 1, 2}, "paths")
    whole(take.packets, 300 * MTU)


@test
def test_strangers_are_not_answered(env):
    peer = env.peer()
    peer.qp = qp = env.qp(peer)
    for change in (dict(src_qp=peer.number + 1), dict(dst_qp=0xABCDEF),
                   dict(psn=qp.rq_psn ^ 1), dict(psn=0), dict(psn=qp.sq_psn),
                   dict(expected=1), dict(psn=qp.sq_psn ^ 1, expected=1),
                   dict(src_gid=wire.gid_of("192.0.2.1")), dict(dst_gid=peer.gid)):
        peer.put(peer.init(**change))
    # Nor is an INIT without a CRC, or with a wrong one.
    plain = bytearray(peer.init())
    plain[2] = 0
    peer.put(bytes(plain[:8]) + bytes(4) + bytes(plain[12:]))
    plain = bytearray(peer.init())
    plain[12] ^= 1
    peer.put(bytes(plain))
    # They stay in order; so what answers the last of them answers it alone.
    peer.conn ^= 1
    peer.put(peer.init())
    ack = peer.expect("INIT_ACK", lambda p: p.kind == wire.INIT_ACK)
    equal(ack.dst_conn, peer.conn, "who is answered")
    peer.remote = ack.src_conn
    peer.probe()
    check(not any(p.kind == wire.INIT_ACK and p.dst_conn != peer.conn for p in peer.log),
          "a stranger was answered")
    equal(qp.in_error(), False, "error state")


@test
def test_a_queue_pair_that_may_not_send_yet(env):
    peer = env.peer()
    peer.qp = qp = env.qp(peer, sends=False)
    init = peer.expect("INIT", lambda p: p.kind == wire.INIT)
    equal((init.psn, init.expected), (qp.rq_psn, 1), "PSN")
    # It does not know yet what it will number its requests from.
    for psn in (0, qp.sq_psn, qp.rq_psn):
        peer.put(peer.init(psn=psn, expected=1))
    peer.conn ^= 1
    peer.put(peer.init())
    ack = peer.expect("INIT_ACK", lambda p: p.kind == wire.INIT_ACK)
    equal(ack.dst_conn, peer.conn, "who is answered")


@test
def test_a_peer_that_may_not_send_yet(env):
    peer = env.peer()
    peer.qp = qp = env.qp(peer)
    peer.put(peer.init(psn=qp.sq_psn, expected=1))
    peer.expect("INIT_ACK", lambda p: p.kind == wire.INIT_ACK)


@test
def test_another_id_only_brings_a_probe(env):
    peer, qp = env.pair()
    peer.put(peer.init(src_conn=peer.conn ^ 0x5555))
    challenge = peer.expect("PROBE", lambda p: p.kind == wire.PROBE)
    equal(challenge.dst_conn, peer.conn, "the id that is known")
    block = wire.block(challenge.path, challenge.next_psn, challenge.stamp,
                       epoch_route=challenge.epoch_route)
    peer.put(wire.ack(peer.remote, [block]))
    peer.probe()
    equal(qp.in_error(), False, "error state")


@test
def test_RESET_of_a_restarted_peer(env):
    peer, qp = env.pair()
    # Whoever knows only one of the two ids, or none.
    peer.put(wire.reset(peer.remote, peer.conn ^ 1, wire.UNKNOWN_ID))
    peer.put(wire.reset(peer.remote, peer.conn ^ 1, wire.CLOSED))
    peer.put(wire.reset(peer.remote ^ 1, peer.conn, wire.UNKNOWN_ID))
    peer.put(wire.reset(0, peer.conn, wire.UNKNOWN_ID))
    peer.probe()
    equal(qp.in_error(), False, "error state")
    qp.recv(1, 0, 64)
    peer.put(wire.reset(peer.remote, peer.conn, wire.UNKNOWN_ID))
    completion(qp, peer, 1, e.IBV_WC_WR_FLUSH_ERR)
    equal(qp.in_error(), True, "error state")


@test
def test_RESET_closing(env):
    peer, qp = env.pair()
    qp.recv(1, 0, 64)
    peer.put(wire.reset(peer.remote, peer.conn, wire.CLOSED))
    completion(qp, peer, 1, e.IBV_WC_WR_FLUSH_ERR)


@test
def test_unknown_ids_are_answered_with_RESET(env):
    peer = env.peer()
    peer.qp = env.qp(peer)
    unknown = 0x0BADCAFE
    # Of these nobody knows whom to tell.
    peer.put(wire.data(unknown, 0, 0, peer.tick(), wire.VOID))
    peer.put(wire.ack(unknown, []))
    for _ in range(600):
        peer.put(wire.probe(unknown, 0, peer.tick(), 0, peer.conn))
        try:
            reset = peer.expect("RESET", lambda p: p.kind == wire.RESET, 0.1)
            break
        except Failure:
            # The rate of answers is limited.
            continue
    else:
        raise Failure("no RESET")
    equal((reset.dst_conn, reset.conn, reset.reason), (peer.conn, unknown, wire.UNKNOWN_ID),
          "RESET")
    check(all(p.dst_conn == peer.conn for p in peer.log if p.kind == wire.RESET), "others")


@test
def test_the_last_queue_pair_closes(env):
    peer, qp = env.pair()
    env.open.remove(qp)
    qp.close()
    reset = peer.expect("RESET", lambda p: p.kind == wire.RESET)
    equal((reset.dst_conn, reset.conn, reset.reason), (peer.conn, peer.remote, wire.CLOSED),
          "RESET")


# Receiving data


@test
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


@test
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


@test
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


@test
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


@test
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


@test
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


@test
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


@test
def test_32_packets_bring_an_ACK(env):
    peer, qp = env.pair()
    for _ in range(32):
        peer.put(peer.packet(wire.VOID))
    peer.expect("ACK without having been asked", lambda p: p.kind == wire.ACK)


@test
def test_ACK_REQ(env):
    peer, qp = env.pair()
    peer.put(peer.packet(wire.VOID, epoch_route=9, flags=wire.CRC | wire.ACK_REQ))
    ack = peer.expect("ACK", lambda p: p.kind == wire.ACK)
    equal((ack.blocks[0].stamp, ack.blocks[0].epoch_route), (peer.stamp, 9), "echo")
    equal(ack.blocks[0].cum, peer.path().next, "cumulative")


@test
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


@test
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


@test
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


@test
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


@test
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


@test
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


@test
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


@test
def test_probes_count_with_their_own_stamps(env):
    peer, qp = env.pair()
    for path in (0, 3, 7):
        for epoch in (0, 1, 255):
            equal(peer.probe(path, epoch).cum, peer.path(path).next, "cumulative")


# Refusals


def refused(peer, psn, code, msn, epoch):
    """Waits for the NAK; checks that the packet is held, and releases it."""
    # Others may have been sent again before they were acknowledged.
    nak = peer.expect("NAK", lambda p: p.kind == wire.DATA and p.opcode == wire.NAK
                      and (p.path, p.psn) not in peer.naks)
    peer.naks.add((nak.path, nak.psn))
    equal((nak.code, nak.msn, nak.epoch), (code, msn, epoch), "NAK")
    equal(nak.dst_qp, peer.number, "queue pair of the NAK")
    check(nak.flags & wire.ACK_REQ, "a NAK that asks for no ACK")
    block = peer.probe()
    check(psn - block.cum & 0xFFFFFFFF in block.held, "not held: %r", block)
    check(psn - block.cum & 0xFFFFFFFF not in block.acked, "acknowledged: %r", block)
    peer.acknowledge(nak)
    # Released by the ACK: acknowledged from now on.
    for _ in range(50):
        block = peer.probe()
        if not block.held:
            break
        time.sleep(0.05)
    equal(block.held, set(), "held")
    equal(block.cum, peer.path().next, "cumulative")
    return nak


@test
def test_receiver_not_ready(env):
    peer, qp = env.pair(rnr_timer=14)
    psn = peer.path().next
    data = pattern(2 * MTU + 5)
    whole_message = dict(msn=peer.msn, rsn=0)
    peer.put(peer.packet(wire.SEND, payload=data[:MTU], **whole_message))
    nak = refused(peer, psn, wire.RNR, peer.msn, 0)
    equal(nak.timer, 14, "RNR timer")
    # What is late of the epoch that was refused is thrown away, though it could be taken now.
    qp.recv(5, 0, 4096)
    peer.put(peer.packet(wire.SEND, offset=MTU, payload=bytes(MTU), **whole_message))
    peer.put(peer.packet(wire.SEND, offset=2 * MTU, payload=bytes(5), stream_flags=wire.LAST,
                         **whole_message))
    equal(peer.probe().cum, peer.path().next, "cumulative")
    # But for what was refused itself.
    psn = peer.path().next
    peer.put(peer.packet(wire.SEND, payload=bytes(MTU), **whole_message))
    refused(peer, psn, wire.RNR, peer.msn, 0)
    no_completion(qp)
    equal(qp.read(0, len(data)), bytes(len(data)), "memory")
    for packet in peer.message(wire.SEND, data, MTU, epoch=1, **whole_message):
        peer.put(packet)
    equal(completion(qp, peer, 5).byte_len, len(data), "length")
    equal(qp.read(0, len(data)), data, "memory")


@test
def test_the_first_refused_packet_is_held_alone(env):
    peer, qp = env.pair()
    first = peer.path().next
    for i in range(4):
        peer.put(peer.packet(wire.SEND, msn=peer.msn + i, rsn=i, payload=b"abc",
                             stream_flags=wire.LAST))
    nak = peer.expect_data(wire.NAK)
    equal((nak.code, nak.msn), (wire.RNR, peer.msn), "NAK")
    block = peer.probe()
    equal((block.cum, block.held, block.acked), (first, {0}, {1, 2, 3}), "held and acknowledged")
    equal(block.lengths, 0x11, "lengths of the vectors")
    # Its release is told without having been asked.
    peer.forget()
    peer.acknowledge(nak)
    peer.expect("ACK", lambda p: p.kind == wire.ACK and p.blocks[0].cum == first + 4)


@test
def test_remote_access_error(env):
    for change in (dict(rkey=1), dict(address=1 << 20), dict(address=-64)):
        peer, qp = env.pair()
        fields = dict(address=qp.address, rkey=qp.rkey)
        if "rkey" in change:
            fields["rkey"] ^= change["rkey"]
        else:
            fields["address"] += change["address"]
        psn = peer.path().next
        peer.put(peer.packet(wire.WRITE, msn=peer.msn, payload=b"x" * 32,
                             stream_flags=wire.LAST, **fields))
        refused(peer, psn, wire.ACCESS_ERROR, peer.msn, 0)


@test
def test_not_ready(env):
    peer, qp = env.pair()
    psn = peer.path().next
    peer.put(peer.packet(wire.WRITE, msn=peer.msn, payload=b"x", dst_qp=qp.number ^ 0x400,
                         address=qp.address, rkey=qp.rkey, stream_flags=wire.LAST))
    refused(peer, psn, wire.NOT_READY, peer.msn, 0)
    # The queue pair there is goes on.
    peer.put(peer.packet(wire.WRITE, msn=peer.msn, payload=b"x", address=qp.address,
                         rkey=qp.rkey, stream_flags=wire.LAST))
    equal(peer.probe().cum, peer.path().next, "cumulative")
    equal(qp.read(0, 1), b"x", "memory")


@test
def test_a_message_too_long_for_its_receive(env):
    peer, qp = env.pair()
    qp.recv(3, 0, 10)
    psn = peer.path().next
    peer.put(peer.packet(wire.SEND, msn=peer.msn, rsn=0, payload=bytes(11),
                         stream_flags=wire.LAST))
    refused(peer, psn, wire.INVALID_REQUEST, peer.msn, 0)
    wc = qp.completion(peer)
    check(wc is not None and wc.wr_id == 3 and wc.status == e.IBV_WC_LOC_LEN_ERR,
          "completion: %r", wc and (wc.wr_id, wc.status))


# Reads and atomics


@test
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


@test
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


@test
def test_read_of_what_may_not_be_read(env):
    peer, qp = env.pair()
    peer.put(peer.packet(wire.READ_REQUEST, msn=peer.msn, address=qp.address, rkey=qp.rkey ^ 1,
                         length=64, stream_flags=wire.LAST))
    nak = peer.expect_data(wire.NAK)
    equal((nak.code, nak.msn), (wire.ACCESS_ERROR, peer.msn), "NAK")


@test
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


# Sending


class Receiver:
    """Takes and acknowledges what the queue pair sends, each packet number once."""

    def __init__(self, peer, deaf=()):
        self.peer, self.deaf = peer, set(deaf)
        self.packets = []
        self.seen = {}              # by path: distances from its first PSN
        self.cum = {}
        self.flags = wire.CRC       # of the ACKs
        peer.handlers.append(self)

    def __call__(self, p):
        peer = self.peer
        if p.kind == wire.INIT:
            return peer.on_init(p)
        if p.kind == wire.PROBE:
            first = wire.first_psn(peer.conn, p.path)
            self.answer(p.path, p, first)
            return True
        if p.kind != wire.DATA:
            return False
        first = wire.first_psn(peer.conn, p.path)
        seen = self.seen.setdefault(p.path, set())
        check((p.psn - first & 0xFFFFFFFF) < 1 << 20, "PSN %#x of path %d", p.psn, p.path)
        distance = p.psn - first & 0xFFFFFFFF
        if len(self.packets) in self.deaf:
            self.deaf.remove(len(self.packets))
            self.lost = p
            return True
        if distance not in seen:
            seen.add(distance)
            self.packets.append(p)
        self.answer(p.path, p, first)
        return True

    def answer(self, path, p, first):
        seen = self.seen.setdefault(path, set())
        cum = self.cum.get(path, 0)
        while cum in seen:
            cum += 1
        self.cum[path] = cum
        acked = [n - cum for n in range(cum + 1, cum + wire.SPAN) if n in seen]
        block = wire.block(path, first + cum, p.stamp, epoch_route=p.epoch_route, acked=acked)
        self.peer.put(wire.ack(self.peer.remote, [block], flags=self.flags))


def whole(packets, length):
    """Puts a message together and checks its packets."""
    count = max(1, -(-length // MTU))
    by_offset = {p.offset: p for p in packets}
    equal(sorted(by_offset), [i * MTU for i in range(count)], "offsets")
    for p in packets:
        equal(bool(p.stream_flags & wire.LAST), p.offset == (count - 1) * MTU, "LAST")
        equal(len(p.payload), min(MTU, length - p.offset), "length of the payload")
    return b"".join(by_offset[at].payload for at in sorted(by_offset))


@test
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


@test
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


@test
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


@test
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


@test
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


@test
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


@test
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


def send_nak(peer, request, code, timer=0):
    peer.put(peer.packet(wire.NAK, dst_qp=request.src_qp, src_qp=peer.number, msn=request.msn,
                         epoch=request.epoch, code=code, timer=timer,
                         flags=wire.CRC | wire.ACK_REQ))


@test
def test_RNR_NAK_brings_another_epoch(env):
    peer, qp = env.pair()
    data = pattern(3 * MTU)
    qp.write(0, data)
    qp.send(1, 0, len(data))
    request = peer.expect_data(wire.SEND)
    send_nak(peer, request, wire.RNR, timer=1)
    take = Receiver(peer)
    completion(qp, peer, 1)
    again = [p for p in take.packets if p.opcode == wire.SEND and p.epoch == 1]
    equal(whole(again, len(data)), data, "message")
    equal({(p.msn, p.rsn) for p in again}, {(0x123, 0)}, "numbers")


@test
def test_acknowledged_packets_of_an_old_epoch_complete_nothing(env):
    peer, qp = env.pair()
    qp.send(1, 0, 100)
    request = peer.expect_data(wire.SEND)
    send_nak(peer, request, wire.RNR, timer=1)
    peer.acknowledge(request)
    again = peer.expect_data(wire.SEND, epoch=1)
    # The NAK was acted on, and the acknowledgement came after it.
    no_completion(qp)
    equal((again.msn, again.payload), (request.msn, request.payload), "message")
    take = Receiver(peer)
    first = wire.first_psn(peer.conn, request.path)
    take.seen[request.path] = {request.psn - first & 0xFFFFFFFF}
    peer.waiting.append(again)
    completion(qp, peer, 1)


@test
def test_fatal_NAKs(env):
    for code, status in ((wire.ACCESS_ERROR, e.IBV_WC_REM_ACCESS_ERR),
                         (wire.INVALID_REQUEST, e.IBV_WC_REM_INV_REQ_ERR),
                         (wire.OPERATIONAL_ERROR, e.IBV_WC_REM_OP_ERR)):
        peer, qp = env.pair()
        qp.send(1, 0, 10, e.IBV_WR_RDMA_WRITE, remote=0, rkey=0)
        qp.send(2, 0, 10)
        request = peer.expect_data(wire.WRITE)
        send_nak(peer, request, code)
        completion(qp, peer, 1, status)
        completion(qp, peer, 2, e.IBV_WC_WR_FLUSH_ERR)
        equal(qp.in_error(), True, "error state")


@test
def test_RNR_retries_are_counted(env):
    peer, qp = env.pair(rnr_retry=2)
    qp.send(1, 0, 10)
    for epoch in range(3):
        send_nak(peer, peer.expect_data(wire.SEND, epoch=epoch), wire.RNR, timer=1)
    completion(qp, peer, 1, e.IBV_WC_RNR_RETRY_EXC_ERR)


@test
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


@test
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


@test
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


# Planes


@test
def test_a_plane_that_comes_later_is_tried_out(env):
    peer = env.peer(2)
    both = peer.addresses
    peer.addresses = both[:1]
    qp = env.qp(peer)
    peer.connect(qp)
    peer.addresses = both
    peer.revision = 1
    # Told under the connection's id; the queue pairs that it names do not matter.
    peer.put(peer.init(dst_conn=peer.remote, src_qp=0xFFFFFF, dst_qp=0xFFFFFE, psn=0))
    peer.expect("INIT_ACK", lambda p: p.kind == wire.INIT_ACK)
    probe = peer.expect("PROBE on the new plane", lambda p: p.kind == wire.PROBE and p.plane == 1)
    equal(probe.path % 2, 1, "path, modulo 2")
    # Answered, it is used.
    Receiver(peer)
    peer.waiting.append(probe)
    qp.send(1, 0, 200 * MTU)
    completion(qp, peer, 1)
    moved = [p for p in peer.log if p.kind == wire.DATA and p.plane == 1]
    check(any(p.path % 2 for p in moved), "no data on the new plane, or of others' paths only")


@test
def test_ACKs_that_get_lost_try_another_plane(env):
    peer = env.peer(2)
    qp = env.qp(peer)
    peer.connect(qp)
    peer.forget()
    for _ in range(8):
        peer.put(wire.probe(peer.remote, 0, peer.tick(), peer.path().next, peer.conn))
        ack = peer.expect("ACK", lambda p: p.kind == wire.ACK and p.blocks[0].stamp == peer.stamp)
        if ack.plane == 1:
            return
    raise Failure("all ACKs came by the same plane")


@test
def test_old_news_of_planes(env):
    peer = env.peer(2)
    qp = env.qp(peer)
    peer.revision = 5
    peer.connect(qp)
    take = Receiver(peer)
    # Late, from before: says that the first plane is down.
    peer.revision, peer.states = 4, [0, 1]
    peer.put(peer.init(dst_conn=peer.remote))
    peer.expect("INIT_ACK", lambda p: p.kind == wire.INIT_ACK)
    peer.revision, peer.states = 5, [1, 1]
    qp.send(1, 0, 50 * MTU)
    completion(qp, peer, 1)
    equal({p.plane for p in take.packets}, {0, 1}, "planes in use")
    # News.
    peer.revision, peer.states = 6, [0, 1]
    peer.put(peer.init(dst_conn=peer.remote))
    peer.expect("INIT_ACK", lambda p: p.kind == wire.INIT_ACK)
    take.packets = []
    qp.send(2, 0, 50 * MTU)
    completion(qp, peer, 2)
    equal({p.plane for p in take.packets}, {1}, "planes in use")


def main():
    device, gid_index, *targets = sys.argv[1:5]
    split = sys.argv.index("--")
    env = Env(Device(device, int(gid_index)), targets, sys.argv[5:split], sys.argv[split + 1:])
    only = os.environ.get("TEST_ONLY")
    tests = [fn for fn in TESTS if not only or re.search(only, fn.__name__)]
    print("TAP version 13\n1..%d" % len(tests), flush=True)
    failed = 0
    for number, fn in enumerate(tests, 1):
        name = fn.__name__.removeprefix("test_").replace("_", " ")
        try:
            fn(env)
            result = "ok"
        except Failure as reason:
            print("# FAIL: %s" % reason)
            result = "not ok"
        except Exception:
            print("# " + traceback.format_exc().rstrip().replace("\n", "\n# "))
            result = "not ok"
        env.close()
        failed += result != "ok"
        print("%s %d %s" % (result, number, name), flush=True)
    print("# Totals: pass:%d fail:%d xfail:0 xpass:0 skip:0 error:0" % (
        len(tests) - failed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
