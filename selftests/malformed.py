#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Sends datagrams to a MetaRoCE port that no MetaRoCE sender would send.

random:  random bytes of random length
headers: every type with a plausible base header, the rest random
datagrams: messages for datagram queue pairs, right but for what is random in
         them: general services get management datagrams that nobody sent
damage:  real packets, captured from a netdev, cut or with bytes changed
forge:   the same, with a correct CRC afterwards: what only somebody who can
         listen could send

Prints how many it has sent. All is repeatable from the seed but the capture.
"""

import argparse
import os
import random
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "conformance"))
from wire import crc32c  # noqa: E402

PORT = 24791
VERSION = 1
TYPES = range(1, 8)
FLAG_CRC = 2
ETH_P_ALL = 3


def with_crc(data):
    """Puts the CRC where it belongs: over everything, its own place as 0."""
    data = bytearray(data)
    if len(data) < 12:
        return bytes(data)
    data[2] |= FLAG_CRC
    data[8:12] = bytes(4)
    data[8:12] = struct.pack("!I", crc32c(data))
    return bytes(data)


def random_datagram(rng):
    return rng.randbytes(rng.choice((0, 1, 4, 11, 12, 44, rng.randrange(2000))))


def header_datagram(rng):
    kind = rng.choice(TYPES)
    words = rng.choice((3, 4, 5, 7, 11, 14, rng.randrange(256)))
    head = struct.pack(
        "!BBBBII",
        VERSION,
        kind,
        rng.choice((0, 1, 2, 3, 0xFF)),
        words,
        rng.getrandbits(32),
        0,
    )
    data = head + rng.randbytes(rng.choice((0, 4, words * 4, rng.randrange(300))))
    return with_crc(data) if rng.random() < 0.7 else data


def gid(address):
    """The GID of an address: IPv4 is mapped into IPv6."""
    if ":" in address:
        return socket.inet_pton(socket.AF_INET6, address)
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def management_datagram(rng):
    """256 bytes with a common header that ib_mad believes, or nearly so."""
    head = struct.pack(
        "!BBBBHHQHHI",
        1,
        rng.choice((0x07, 0x07, 0x01, 0x03, 0x04, rng.randrange(256))),
        rng.choice((1, 2, rng.randrange(256))),
        rng.choice((1, 2, 3, 0x81, 0x92, rng.randrange(256))),
        0,
        0,
        rng.getrandbits(64),
        rng.choice((*range(0x10, 0x1A), rng.getrandbits(16))),
        0,
        rng.getrandbits(32),
    )
    data = (head + rng.randbytes(232))[:256]
    return data[: rng.choice((256, 256, 256, 0, 23, 24, 255, 200))]


def datagram(rng, target):
    source = bytes(rng.choice((gid(target)[:15], rng.randbytes(15)))) + rng.randbytes(1)
    to_services = rng.random() < 0.6
    data = struct.pack(
        "!BBBBIIIIII16s16s",
        VERSION,
        7,
        FLAG_CRC,
        15,
        rng.choice((0, rng.getrandbits(32))),
        0,
        rng.choice((0, 1, 2, 3, 4, 0x80)) << 24 | (1 if to_services else rng.getrandbits(24)),
        rng.choice((1, rng.getrandbits(24))),
        0x80010000 if to_services else rng.getrandbits(32),
        rng.getrandbits(32),
        source,
        rng.choice((gid(target), gid(target), rng.randbytes(16))),
    )
    payload = management_datagram(rng)
    if rng.random() < 0.1:
        payload += rng.randbytes(rng.randrange(8000))
    return with_crc(data + payload)


def udp_payload(frame):
    """The payload if this Ethernet frame goes to our port, else None."""
    kind = struct.unpack_from("!H", frame, 12)[0]
    if kind == 0x0800:
        offset = 14 + (frame[14] & 15) * 4
        if frame[23] != socket.IPPROTO_UDP:
            return None
    elif kind == 0x86DD:
        offset = 14 + 40
        if frame[20] != socket.IPPROTO_UDP:
            return None
    else:
        return None
    if struct.unpack_from("!H", frame, offset + 2)[0] != PORT:
        return None
    # A burst of the sender's is one frame here: its first packet will do.
    return frame[offset + 8 :]


def capture(netdev, count, seconds):
    """Real packets, the newest last, each of the lengths of its kind."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sock.bind((netdev, 0))
    sock.settimeout(1)
    packets = []
    end = time.monotonic() + seconds
    while len(packets) < count and time.monotonic() < end:
        try:
            payload = udp_payload(sock.recv(70000))
        except TimeoutError:
            continue
        if payload and len(payload) >= 12:
            packets.append(payload[:1200])
    return packets


def damaged(rng, packet):
    data = bytearray(packet)
    how = rng.randrange(4)
    if how == 0:
        return bytes(data[: rng.randrange(len(data))])
    if how == 1:
        return bytes(data) + rng.randbytes(rng.randrange(1, 50))
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(min(len(data), 80))
        data[at] ^= 1 << rng.randrange(8) if how == 2 else rng.randrange(1, 256)
    return bytes(data)


def forged(rng, packet):
    data = bytearray(damaged(rng, packet))
    if len(data) >= 12 and rng.random() < 0.7:
        # Right version and connection: only what is behind them differs.
        data[0] = packet[0]
        data[4:8] = packet[4:8]
        if rng.random() < 0.5:
            data[1:4] = packet[1:4]
    return with_crc(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=("random", "headers", "datagrams", "damage", "forge"))
    parser.add_argument("target", help="address")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--source", default="", help="address to send from")
    parser.add_argument("--netdev", help="where to capture, for damage and forge")
    args = parser.parse_args()

    rng = random.Random(args.seed)
    packets = []
    if args.mode in ("damage", "forge"):
        packets = capture(args.netdev, 200, 30)
        if not packets:
            sys.exit("no packet captured")
    family = socket.AF_INET6 if ":" in args.target else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.bind((args.source, 0))
    sent = 0
    for i in range(args.count):
        if args.mode == "random":
            data = random_datagram(rng)
        elif args.mode == "headers":
            data = header_datagram(rng)
        elif args.mode == "datagrams":
            data = datagram(rng, args.target)
        elif args.mode == "damage":
            data = damaged(rng, rng.choice(packets))
        else:
            data = forged(rng, rng.choice(packets))
        sock.sendto(data, (args.target, PORT))
        sent += 1
        # Not so fast that the receiver's socket buffer drops them unseen.
        if i % 16 == 15:
            time.sleep(0.005)
    print(sent)


if __name__ == "__main__":
    main()
