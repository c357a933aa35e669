# SPDX-License-Identifier: GPL-2.0
"""Who is answered how: INIT, INIT_ACK, and the terms both agree on."""

import wire
from env import MTU, completion
from peer import check, equal
from receiver import Receiver, whole


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


def test_a_peer_that_may_not_send_yet(env):
    peer = env.peer()
    peer.qp = qp = env.qp(peer)
    peer.put(peer.init(psn=qp.sq_psn, expected=1))
    peer.expect("INIT_ACK", lambda p: p.kind == wire.INIT_ACK)


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
