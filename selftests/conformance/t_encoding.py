# SPDX-License-Identifier: GPL-2.0
"""The encoding: the codec of the tester against the vectors of the kernel's."""

import os
import re

import wire
from peer import Failure, check, equal


def test_vectors(env):
    """The codec of the tester and the vectors agree."""
    here = os.path.dirname(os.path.abspath(__file__))
    reasons = {"too_short": "too short", "bad_version": "version", "bad_type": "type"}
    good = bad = 0
    with open(os.path.join(here, "../proto/vectors/wire-v1.txt"), encoding="ascii") as f:
        text = "\n".join(line for line in f.read().split("\n") if not line.startswith("#"))
    for vector in text.split("\n\n"):
        fields = dict(re.findall(r"^(\w+): ?(.*)$", vector, re.M))
        if "hex" not in fields:
            continue
        raw = bytes.fromhex(fields["hex"]) + bytes.fromhex(fields.get("payload", ""))
        if "error" in fields:
            bad += 1
            try:
                wire.parse(raw)
            except wire.Malformed as reason:
                want = reasons.get(fields["error"])
                check(not want or want == str(reason) or want == "too short",
                      "%s: %s", fields["name"], reason)
            else:
                raise Failure("%s was taken" % fields["name"])
            continue
        good += 1
        p = wire.parse(raw)
        for name, ours in (("msn", "msn"), ("psn", "psn"), ("expected", "expected"),
                           ("path", "path"), ("rsn", "rsn"),
                           ("dst_conn", "dst_conn"), ("src_conn", "src_conn"),
                           ("offset", "offset"), ("epoch", "epoch"), ("paths", "paths"),
                           ("revision", "revision"), ("payload_mtu", "mtu")):
            if name in fields and hasattr(p, ours):
                equal(getattr(p, ours), int(fields[name], 0), fields["name"] + ": " + name)
    check(good > 10 and bad > 10, "%d good vectors, %d bad ones", good, bad)
