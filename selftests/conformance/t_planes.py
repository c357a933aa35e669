# SPDX-License-Identifier: GPL-2.0
"""Planes of the peer: told of, tried out, left."""

import wire
from env import MTU, completion
from peer import Failure, check, equal
from receiver import Receiver


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
