#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Two RDS sockets of one host: datagrams from one to the other, checked.

RDS keeps them in order and loses none; so does this. Usage: rds.py ADDRESS COUNT
"""
import os
import random
import socket
import sys

address, count = sys.argv[1], int(sys.argv[2])
rng = random.Random(1)


def make(port):
    """Returns a socket that is bound to a port of the address."""
    sock = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET, 0)
    sock.settimeout(60)
    sock.bind((address, port))
    return sock


a, b = make(4000), make(4001)
sizes = [1, 4095, 4096, 4097, 65536, 100000]
total = 0
for i in range(count):
    size = sizes[i] if i < len(sizes) else rng.randrange(1, 50000)
    message = i.to_bytes(4, "big") + os.urandom(1) * size
    a.sendto(message, (address, 4001))
    got, sender = b.recvfrom(1 << 20)
    assert sender == (address, 4000), sender
    assert got == message, f"message {i}: {len(got)} of {len(message)} bytes"
    # And the other way, several at a time.
    for n in range(3):
        b.sendto(bytes([n]) * 1000, sender)
    for n in range(3):
        got = a.recv(1 << 20)
        assert got == bytes([n]) * 1000, f"answer {n} of message {i}"
    total += len(message) + 3000
print(f"{count} messages, {total} bytes")
