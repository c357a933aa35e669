#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs rdma-core's own tests (pyverbs) against one device, one result a line.

Usage: suite.py TESTS DEVICE GID_INDEX RESULTS [PART_OF_NAME]

TESTS is the folder "tests" of rdma-core's source. Tests of one vendor's verbs
are left out. RESULTS gets "name<tab>result<tab>reason" lines; results are
pass, fail, error, skip and timeout. Each file of tests runs in a process of its
own; one that hangs is killed, and the tests behind it run in another.
"""

import glob
import json
import os
import select
import subprocess
import sys
import time

VENDORS = ("test_mlx5", "test_efa", "test_cuda")
# For one test, in an emulated machine.
PATIENCE = 90


def child(folder, module, done):
    """Runs the tests of a module but those done; tells of each begin and end."""
    import unittest
    from importlib.machinery import SourceFileLoader

    sys.path.insert(0, folder)
    from args_parser import parser

    SourceFileLoader("tests", os.path.join(folder, "__init__.py")).load_module()
    parser.parse_args()

    def tell(*what):
        print("\n@" + json.dumps(what), flush=True)

    class Result(unittest.TestResult):
        def startTest(self, test):
            super().startTest(test)
            self.ended = False
            tell("begin", test.id())

        def end(self, test, result, reason=""):
            # A failure in a subtest or in tearDown is told once.
            if not self.ended:
                self.ended = True
                tell("end", test.id(), result, " ".join(str(reason).split())[:300])

        def addSuccess(self, test):
            self.end(test, "pass")

        def addFailure(self, test, err):
            self.end(test, "fail", err[1])

        def addError(self, test, err):
            self.end(test, "error", err[1])

        def addSkip(self, test, reason):
            self.end(test, "skip", reason)

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.end(test, "fail", err[1])

    def each(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from each(test)
            else:
                yield test

    loader = unittest.defaultTestLoader
    tests = [t for t in each(loader.loadTestsFromName("tests." + module)) if t.id() not in done]
    unittest.TestSuite(tests).run(Result())
    tell("all")


def run_module(folder, module, args, done):
    """Yields the results of a module's tests that are not done, until one hangs."""
    command = [sys.executable, "-u", __file__, "--child", folder, module, json.dumps(done)]
    running = subprocess.Popen(command + args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               cwd=os.path.dirname(folder))
    current, text, stop = None, b"", time.monotonic() + PATIENCE
    while True:
        left = stop - time.monotonic()
        ready = select.select([running.stdout], [], [], max(left, 0))[0]
        data = os.read(running.stdout.fileno(), 65536) if ready else None
        if not data:
            running.kill()
            running.wait()
            if current:
                yield current, "timeout" if data is None else "error", "the process ended"
            return
        text += data
        *lines, text = text.split(b"\n")
        for line in lines:
            if not line.startswith(b"@"):
                if line:
                    print("#", line.decode(errors="replace"), flush=True)
                continue
            what = json.loads(line[1:])
            stop = time.monotonic() + PATIENCE
            if what[0] == "begin":
                current = what[1]
            elif what[0] == "end":
                yield tuple(what[1:])
            elif what[0] == "all":
                current = None


def main(folder, device, gid, path, part=""):
    folder = os.path.abspath(folder)
    args = ["--dev", device, "--port", "1", "--gid", gid]
    modules = sorted(os.path.basename(p)[:-3] for p in glob.glob(folder + "/test_*.py"))
    with open(path, "w", encoding="utf-8") as results:
        for module in modules:
            if module.startswith(VENDORS) or part not in module:
                continue
            done = []
            while True:
                before = len(done)
                hung = False
                for name, result, reason in run_module(folder, module, args, done):
                    done.append(name)
                    hung = result in ("timeout", "error") and reason == "the process ended"
                    line = "\t".join((name.removeprefix("tests."), result, reason))
                    print(line, flush=True)
                    print(line, file=results, flush=True)
                if not hung or len(done) == before:
                    break


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        folder_, module_, done_ = sys.argv[2:5]
        sys.argv[1:] = sys.argv[5:]
        child(folder_, module_, set(json.loads(done_)))
    else:
        main(*sys.argv[1:])
