# SPDX-License-Identifier: GPL-2.0
"""NAKs of the queue pair: what is refused is held until the NAK has arrived."""

import time

import pyverbs.enums as e

import wire
from env import MTU, completion, no_completion, pattern
from peer import check, equal


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
