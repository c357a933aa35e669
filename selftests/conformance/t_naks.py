# SPDX-License-Identifier: GPL-2.0
"""NAKs of the peer: another epoch, or the end."""

import pyverbs.enums as e

import wire
from env import MTU, completion, no_completion, pattern
from peer import equal
from receiver import Receiver, whole


def send_nak(peer, request, code, timer=0):
    peer.put(peer.packet(wire.NAK, dst_qp=request.src_qp, src_qp=peer.number, msn=request.msn,
                         epoch=request.epoch, code=code, timer=timer,
                         flags=wire.CRC | wire.ACK_REQ))


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


def test_RNR_retries_are_counted(env):
    peer, qp = env.pair(rnr_retry=2)
    qp.send(1, 0, 10)
    for epoch in range(3):
        send_nak(peer, peer.expect_data(wire.SEND, epoch=epoch), wire.RNR, timer=1)
    completion(qp, peer, 1, e.IBV_WC_RNR_RETRY_EXC_ERR)
