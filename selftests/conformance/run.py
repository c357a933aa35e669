#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Speaks Documentation/wire-protocol.rst to a real queue pair, packet by packet,
from UDP sockets, and holds it to what the document says. Each test is a peer
with an address of its own: the functions test_… of the modules t_…. Prints KTAP.

Usage: run.py DEVICE GID_INDEX TARGET TARGET ADDRESS... -- ADDRESS...
DEVICE is in another namespace and is reached under the TARGETs. The ADDRESSes
are the tester's own. Of either, there are those of the first plane and those of
the second.
"""

import os
import re
import sys
import traceback

import t_acks
import t_bad_packets
import t_encoding
import t_handshake
import t_naks
import t_planes
import t_reads
import t_receiving
import t_refusals
import t_reset
import t_sending
from env import Env
from peer import Failure
from qp import Device

SUBJECTS = (t_encoding, t_handshake, t_reset, t_receiving, t_acks, t_bad_packets, t_refusals,
            t_reads, t_sending, t_naks, t_planes)
TESTS = [fn for subject in SUBJECTS for name, fn in vars(subject).items()
         if name.startswith("test_")]


def main():
    device, gid_index, *targets = sys.argv[1:5]
    split = sys.argv.index("--")
    env = Env(Device(device, int(gid_index)), targets, sys.argv[5:split], sys.argv[split + 1:])
    only = os.environ.get("TEST_ONLY")
    tests = [fn for fn in TESTS if not only or re.search(only, fn.__name__)]
    print("TAP version 13\n1..%d" % len(tests), flush=True)
    failed = 0
    for number, fn in enumerate(tests, 1):
        name = fn.__name__.removeprefix("test_").replace("_", " ")
        try:
            fn(env)
            result = "ok"
        except Failure as reason:
            print("# FAIL: %s" % reason)
            result = "not ok"
        except Exception:
            print("# " + traceback.format_exc().rstrip().replace("\n", "\n# "))
            result = "not ok"
        env.close()
        failed += result != "ok"
        print("%s %d %s" % (result, number, name), flush=True)
    print("# Totals: pass:%d fail:%d xfail:0 xpass:0 skip:0 error:0" % (
        len(tests) - failed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
