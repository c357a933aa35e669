# SPDX-License-Identifier: GPL-2.0
"""The receiving side of a peer, and messages put together of packets."""

import wire
from env import MTU
from peer import check, equal


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
