# SPDX-License-Identifier: GPL-2.0
"""What the tests share: the device, peers that are closed after a test, content,
completions."""

import random

import pyverbs.enums as e

from peer import PORT, Peer, check, equal
from qp import QueuePair

MTU = 256


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
