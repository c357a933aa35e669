#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes Documentation/pyverbs.rst from the results of suite.py.

Usage: table.py METAROCE_RESULTS RXE_RESULTS VERSION >pyverbs.rst

Fails if a test passes with rxe and not with metaroce.
"""

import sys


def read(path):
    results = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            name, result, reason = line.rstrip("\n").split("\t")
            results[name] = (result, reason)
    return results


def totals(results):
    count = {}
    for result, _ in results.values():
        count[result] = count.get(result, 0) + 1
    return ", ".join(f"{n} {result}" for result, n in sorted(count.items()))


def clean(text):
    """A reason as it can stand in a table: no markup, not long."""
    text = text.split(" Errno")[0]
    for mark in "\\`*|_":
        text = text.replace(mark, " ")
    return " ".join(text.split())[:70]


def main(ours_path, rxe_path, version):
    ours, rxe = read(ours_path), read(rxe_path)
    print(f"""\
.. SPDX-License-Identifier: GPL-2.0

============================
rdma-core's tests (pyverbs)
============================

rdma-core {version} comes with tests of the verbs. ``make pyverbs`` runs all but those of one
vendor's verbs against a MetaRoCE device, and against Soft-RoCE on the same kernel, in
the same VM, and writes this page. A test that says *skip* asks for something that the
device says it does not have; the reason is the test's own.

MetaRoCE
  {totals(ours)}
Soft-RoCE
  {totals(rxe)}
""")
    worse = [name for name in ours if rxe.get(name, ("",))[0] == "pass" and ours[name][0] != "pass"]
    worse += [name for name in rxe if name not in ours and rxe[name][0] == "pass"]
    rows = []
    for name in sorted(ours | rxe):
        mine, reason = ours.get(name, ("-", ""))
        theirs = rxe.get(name, ("-", ""))[0]
        rows.append((name.removeprefix("test_"), mine, theirs, clean(reason)))
    heads = ("Test", "MetaRoCE", "Soft-RoCE", "Reason of MetaRoCE")
    widths = [max(len(row[i]) for row in [heads] + rows) for i in range(4)]
    rule = "  ".join("=" * width for width in widths)
    print(rule)
    for row in [heads]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(rule)
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print(rule)
    for name in worse:
        print(f"worse than Soft-RoCE: {name}: {ours.get(name)}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
