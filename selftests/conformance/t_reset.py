# SPDX-License-Identifier: GPL-2.0
"""The end of a connection: RESETs that count, that do not, and that are sent."""

import pyverbs.enums as e

import wire
from env import completion
from peer import Failure, check, equal


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


def test_RESET_closing(env):
    peer, qp = env.pair()
    qp.recv(1, 0, 64)
    peer.put(wire.reset(peer.remote, peer.conn, wire.CLOSED))
    completion(qp, peer, 1, e.IBV_WC_WR_FLUSH_ERR)


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


def test_the_last_queue_pair_closes(env):
    peer, qp = env.pair()
    env.open.remove(qp)
    qp.close()
    reset = peer.expect("RESET", lambda p: p.kind == wire.RESET)
    equal((reset.dst_conn, reset.conn, reset.reason), (peer.conn, peer.remote, wire.CLOSED),
          "RESET")
