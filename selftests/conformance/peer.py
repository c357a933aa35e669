# SPDX-License-Identifier: GPL-2.0
"""An endpoint in user space that says nothing of its own accord but what it is
told to, one datagram at a time, on UDP sockets: the other end of the protocol."""

import random
import select
import socket
import time

import wire
from qp import PATIENCE

PORT = 24791


class Failure(Exception):
    """What the other side did is not what the document says."""


def check(condition, message, *args):
    if not condition:
        raise Failure(message % args if args else message)


def equal(got, want, what):
    check(got == want, "%s: %r instead of %r", what, got, want)


class Path:
    """The sending side of a path."""

    def __init__(self, first):
        self.first = self.next = first


class Peer:
    """One endpoint: a socket per plane, one connection, one queue pair."""

    def __init__(self, addresses, target, number=0x4321, seed=1):
        self.addresses = addresses
        self.gid = wire.gid_of(addresses[0])
        self.target = target        # (address, port) that packets go to
        self.number = number
        self.rng = random.Random(seed)
        self.conn = self.rng.randrange(1, 1 << 32)
        self.remote = 0             # the other side's connection id
        self.revision = 0
        self.features = wire.FEATURE_CRC
        self.mtu = 4096
        self.room = 8
        self.states = [1] * len(addresses)
        self.sockets = []
        for address in addresses:
            self.sockets.append(self._socket(address, PORT))
        self.senders = {}
        self.paths = {}
        self.stamp = self.rng.randrange(1 << 32)
        self.waiting = []           # packets received and not asked for yet
        self.handlers = []          # see "serve"
        self.log = []
        self.naks = set()           # those that were acted on
        self.check_crc = True

    @staticmethod
    def _socket(address, port):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        s.bind((address, port))
        return s

    def close(self):
        for s in self.sockets + list(self.senders.values()):
            s.close()

    # Sending

    def put(self, datagram, plane=0, source_port=PORT, ecn=0):
        """Sends from the plane, which is how it leaves, not where answers go."""
        if source_port == PORT:
            s = self.sockets[plane]
        else:
            key = plane, source_port
            if key not in self.senders:
                self.senders[key] = self._socket(self.addresses[plane], source_port)
            s = self.senders[key]
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ecn)
        s.sendto(datagram, self.target)

    def tick(self):
        self.stamp = self.stamp + 1 & 0xFFFFFFFF
        return self.stamp

    def path(self, number=0):
        if number not in self.paths:
            self.paths[number] = Path(wire.first_psn(self.remote, number))
        return self.paths[number]

    def psn(self, path=0):
        p = self.path(path)
        p.next = p.next + 1 & 0xFFFFFFFF
        return p.next - 1 & 0xFFFFFFFF

    def packet(self, opcode, *, path=0, psn=None, flags=wire.CRC, **fields):
        """A data packet to the queue pair, not sent yet."""
        if psn is None:
            psn = self.psn(path)
        fields.setdefault("dst_qp", self.qp.number)
        fields.setdefault("src_qp", self.number)
        return wire.data(self.remote, path, psn, self.tick(), opcode, flags=flags, **fields)

    def message(self, opcode, data, mtu, **fields):
        """The packets of a message."""
        packets = []
        for at in range(0, max(len(data), 1), mtu):
            last = at + mtu >= len(data)
            packets.append(self.packet(opcode, offset=at, payload=data[at:at + mtu],
                                       stream_flags=wire.LAST if last else 0, **fields))
        return packets

    def acknowledge(self, packet):
        """Acknowledges one packet of a path whose earlier ones are all acknowledged."""
        self.put(wire.ack(self.remote, [wire.block(packet.path, packet.psn + 1, packet.stamp,
                                                   epoch_route=packet.epoch_route)]))

    # Receiving

    def receive(self, seconds):
        """Takes in what comes for a while, or until something has come."""
        ready, _, _ = select.select(self.sockets, [], [], seconds)
        for s in ready:
            raw, control, _, source = s.recvmsg(65536, 64)
            try:
                packet = wire.parse(raw)
            except wire.Malformed as reason:
                raise Failure("a malformed packet, %s: %s" % (reason, raw.hex())) from None
            packet.plane = self.sockets.index(s)
            packet.source = source[0]
            packet.ecn = next(value[0] & 3 for _, kind, value in control
                              if kind == socket.IP_TOS)
            self.log.append(packet)
            self.check_packet(packet)
            self.waiting.append(packet)
        return bool(ready)

    def check_packet(self, packet):
        """What holds for every packet of a conforming sender."""
        kind = packet.kind
        if kind in (wire.INIT, wire.INIT_ACK, wire.RESET):
            check(packet.flags & wire.CRC, "a handshake packet without a CRC: %r", packet)
        elif self.remote:
            equal(packet.dst_conn, self.conn, "connection id")
            # The planes look like links, and nothing else is said but by one test.
            if self.check_crc:
                check(packet.flags & wire.CRC, "no CRC: %r", packet)
            if packet.kind == wire.PROBE:
                equal(packet.src_conn, self.remote, "connection id of the sender")
            if packet.kind == wire.ACK:
                check(not packet.flags & wire.LOCAL, "LOCAL though it came by a link")

    def serve(self, seconds):
        """Receives, and lets the handlers have what they want."""
        while self.receive(seconds) and len(self.waiting) < 64:
            seconds = 0
        for handler in self.handlers:
            self.waiting = [p for p in self.waiting if not handler(p)]

    def expect(self, what, wanted, patience=None):
        """The first packet that "wanted" says yes to, leaving others for later."""
        end = time.monotonic() + (PATIENCE if patience is None else patience)
        while True:
            for i, packet in enumerate(self.waiting):
                if wanted(packet):
                    return self.waiting.pop(i)
            if not self.receive(max(0.0, end - time.monotonic())):
                if time.monotonic() >= end:
                    seen = ", ".join(repr(p) for p in self.waiting[-8:])
                    raise Failure("no %s; instead: %s" % (what, seen or "nothing"))

    def expect_data(self, opcode, **fields):
        def wanted(p):
            return (p.kind == wire.DATA and p.opcode == opcode
                    and all(getattr(p, name) == value for name, value in fields.items()))
        return self.expect("data packet of opcode %d %r" % (opcode, fields), wanted)

    def forget(self):
        self.waiting = []

    # Handshake

    def planes(self):
        return [(wire.gid_of(address), 10000, number, self.states[number])
                for number, address in enumerate(self.addresses)]

    def init(self, kind=wire.INIT, **change):
        fields = dict(dst_conn=self.remote if kind == wire.INIT_ACK else 0, src_conn=self.conn,
                      revision=self.revision, src_qp=self.number, dst_qp=self.qp.number,
                      src_gid=self.gid, dst_gid=self.qp.device.gid, features=self.features,
                      mtu=self.mtu, paths=self.room, planes=self.planes(),
                      psn=self.qp.rq_psn if kind == wire.INIT else 0)
        fields.update(change)
        return wire.init(kind, **fields)

    def connect(self, qp):
        """Waits for the queue pair's INIT and answers it."""
        self.qp = qp
        init = self.expect("INIT", lambda p: p.kind == wire.INIT)
        self.remote = init.src_conn
        self.put(self.init(wire.INIT_ACK))
        # The answer might be lost on a full socket, and INITs are repeated: so an answer to a
        # probe tells that the other side is there.
        self.probe()
        self.forget()
        return init

    def on_init(self, packet):
        """Answers INITs that come again."""
        if packet.kind == wire.INIT and self.remote == packet.src_conn:
            self.put(self.init(wire.INIT_ACK))
            return True
        return False

    def probe(self, path=0, epoch_route=0):
        """Asks for an ACK of a path; returns the block of it that answers the probe."""
        for _ in range(20):
            stamp = self.tick()
            self.put(wire.probe(self.remote, path, stamp, self.path(path).next, self.conn,
                                epoch_route))
            answer = lambda p: p.kind == wire.ACK and any(
                b.path == path and b.stamp == stamp for b in p.blocks)
            try:
                ack = self.expect("ACK", answer, PATIENCE / 20)
            except Failure:
                for packet in [p for p in self.waiting if self.on_init(p)]:
                    self.waiting.remove(packet)
                continue
            block = next(b for b in ack.blocks if b.path == path and b.stamp == stamp)
            equal(block.epoch_route, epoch_route, "route epoch of the echo")
            return block
        raise Failure("no answer to 20 probes")
