#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""How the transport stands loss, congestion and dying planes: a table.

Runs in the VM, as root ("make bench-transport"). Links are limited to a rate that
the VM's CPU can fill. All figures are Mbit/s of payload unless they say otherwise,
in brackets the ratio that the target is for.
"""

import argparse
import json
import sys
from dataclasses import asdict

import programs
import scenarios
from fabric import sh


def main():
    names = [s.__name__ for s in scenarios.ALL]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="*", help=f"of {', '.join(names)}; all if none")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row")
    parser.add_argument("--counters", action="store_true",
                        help="tell after each run what counters and queues say")
    args = parser.parse_args()
    programs.VERBOSE = args.counters
    unknown = set(args.scenario) - set(names)
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))}")

    for module in "metaroce", "rdma_rxe", "sch_netem":
        sh("modprobe", module)
    form = "{:<48} {:>16} {:>16} {:>5} {:>8} {:>8}"
    if not args.json:
        print(form.format("", "metaroce", "target", "", "rxe", "TCP"))
    missed = 0
    for scenario in scenarios.ALL:
        if args.scenario and scenario.__name__ not in args.scenario:
            continue
        for row in scenario():
            missed += row.reached is False
            if args.json:
                print(json.dumps(asdict(row)), flush=True)
                continue
            mark = {True: "ok", False: "MISS", None: ""}[row.reached]
            print(form.format(row.what, str(row.metaroce), row.target, mark, row.rxe, row.tcp),
                  flush=True)
    if not args.json:
        print(f"{missed} targets missed" if missed else "all targets reached")


if __name__ == "__main__":
    sys.exit(main())
