# SPDX-License-Identifier: GPL-2.0
"""What is measured. Each scenario is a function that yields rows."""

import time
from dataclasses import dataclass

from fabric import HEADERS, PAYLOAD, THRESHOLD, Fabric
from programs import Devices, Perftest, Progress, perftest, tcp

RATE = 100
# What the headers leave of the rate for payload, Mbit/s.
IDEAL = RATE * PAYLOAD / (PAYLOAD + HEADERS)
SECONDS = 4
# For differences below a percent: messages complete in dozens after a loss.
LONG = 24


@dataclass
class Row:
    """A line of the table: figures of the three, and what is asked of the first."""

    what: str
    metaroce: object
    target: str = ""
    reached: bool | None = None
    rxe: object = ""
    tcp: object = ""


def against(what, value, base, least, rxe="", tcp_=""):
    """A row for a rate that should be at least `least` of `base`."""
    if value is None:
        return Row(what, "failed", f">= {least}", False, rxe, tcp_)
    ratio = value / base if base else 0
    return Row(what, f"{value:.1f} ({ratio:.3f})", f">= {least}", ratio >= least, rxe, tcp_)


def show(value):
    return "failed" if value is None else f"{value:.1f}"


def others(fabric, seconds=SECONDS):
    """The same link with rxe and TCP."""
    with Devices(fabric, "rxe") as rxe:
        theirs = show(perftest(rxe, seconds=seconds))
    return theirs, show(tcp(fabric, seconds))


def measure(devices, **options):
    options.setdefault("seconds", SECONDS)
    return perftest(devices, **options)


def lossless():
    with Fabric(planes=1) as fabric:
        rxe, tcp_ = others(fabric)
        with Devices(fabric, "metaroce") as devices:
            for program in "ib_write_bw", "ib_send_bw":
                for size in 65536, 1 << 20:
                    got = measure(devices, program=program, size=size)
                    yield against(f"no loss, one plane: {program}, {size >> 10} KiB", got,
                                  IDEAL, 0.95, rxe, tcp_)
                    rxe = tcp_ = ""


# Loss in percent, and the least share of the lossless rate.
LOSSES = ((0.1, 0.995), (1, 0.97), (2, 0.95), (5, 0.92), (10, 0.85))


def loss():
    """To the server on all planes; then on one of two planes; then on acks only."""
    with Fabric(planes=2) as fabric, Devices(fabric, "metaroce") as devices:
        base = measure(devices, seconds=LONG)
        yield Row("two planes, no loss", show(base))

        def rate(percent):
            return measure(devices, seconds=SECONDS if percent >= 1 else LONG)

        for percent, least in LOSSES:
            fabric.change(lambda h, p: h == 0, loss=percent)
            yield against(f"loss {percent} % on both planes", rate(percent), base, least)
        fabric.change(lambda h, p: h == 0, loss=0)
        for percent, least in LOSSES:
            fabric.change(lambda h, p: h == 0 and p == 1, loss=percent)
            yield against(f"loss {percent} % on one plane", rate(percent), base, least)
        fabric.change(lambda h, p: h == 0, loss=0)
        for percent, least in LOSSES:
            fabric.change(lambda h, p: h == 1, loss=percent)
            yield against(f"loss {percent} % of acks", rate(percent), base, least)
        fabric.change(lambda h, p: True, loss=20)
        got = measure(devices)
        yield Row("loss 20 % both ways", show(got), "no error", got is not None)


def loss_others():
    """What loss does to rxe and TCP, on one plane, beside metaroce on the same."""
    with Fabric(planes=1) as fabric:
        base = None
        for percent, least in ((0, 0.95), *LOSSES):
            fabric.change(lambda h, p: h == 0, loss=percent)
            rxe, tcp_ = others(fabric)
            with Devices(fabric, "metaroce") as devices:
                got = measure(devices)
            base = base or got
            yield against(f"loss {percent} %, one plane", got, base, least, rxe, tcp_)


def planes():
    one = None
    for n in 1, 2, 4, 8:
        rate = 25
        with Fabric(planes=n, rate=rate) as fabric, Devices(fabric, "metaroce") as devices:
            got = measure(devices)
        one = one or got
        yield against(f"{n} planes of {rate} Mbit/s", got, one * n, 0.95)


def unequal():
    with Fabric(planes=2, rates=(100, 10)) as fabric, Devices(fabric, "metaroce") as devices:
        got = measure(devices, seconds=6)
        yield against("planes of 100 and 10 Mbit/s", got, IDEAL * 1.1, 0.9)


def failure():
    """One of four planes fails in four ways in turn and comes back."""
    ways = (
        ("link down", lambda f: f.set_port(0, 3, "down"), lambda f: f.set_port(0, 3, "up")),
        ("blackholed", lambda f: f.blackhole(3, True), lambda f: f.blackhole(3, False)),
        (
            "30 % loss",
            lambda f: f.change(lambda h, p: p == 3, loss=30),
            lambda f: f.change(lambda h, p: p == 3, loss=0),
        ),
    )
    for name, fail, mend in ways:
        with Fabric(planes=4, rate=40) as fabric, Devices(fabric, "metaroce") as devices:
            run = Perftest(devices, seconds=16)
            progress = Progress(devices, 0)
            time.sleep(3.5)
            failed = time.monotonic()
            fail(fabric)
            time.sleep(4)
            mended = time.monotonic()
            mend(fabric)
            time.sleep(1)
            counted = time.monotonic()
            before = devices.counter(1, "plane3_tx_packets")
            total = devices.counters(1, r"plane\d_tx_packets")
            time.sleep(2)
            share = (devices.counter(1, "plane3_tx_packets") - before) / max(
                1, devices.counters(1, r"plane\d_tx_packets") - total)
            back = time.monotonic()
            if not run.going():
                raise RuntimeError("the program has ended before all was measured")
            got = run.result()
            progress.stop()
            base = progress.rate(failed - 1.5, failed - 0.1)
            rest = progress.rate(failed + 1, mended)
            gap = progress.longest_gap(failed - 0.01, mended) * 1000
            yield Row(f"plane of four: {name}", show(got), "no error", got is not None)
            yield Row("  longest gap, ms", f"{gap:.0f}", "<= 50", gap <= 50)
            yield against("  then, of what remains", rest, base * 3 / 4, 0.95)
            yield against("  restored, of all", progress.rate(counted, back), base, 0.95)
            yield Row("  its share a second later", f"{share:.3f}", ">= 0.2", share >= 0.2)


def outage():
    """All planes are gone for a while. ibv QPs of perftest: timeout 14 (67 ms), 7 retries."""
    for seconds, survives in (0.3, True), (4, False):
        with Fabric(planes=2) as fabric, Devices(fabric, "metaroce") as devices:
            run = Perftest(devices, seconds=8, options=("-u", "14"))
            time.sleep(3.5)
            for p in range(2):
                fabric.blackhole(p, True)
            began = time.monotonic()
            time.sleep(seconds)
            for p in range(2):
                fabric.blackhole(p, False)
            got = run.result(patience=20)
            took = time.monotonic() - began
            if survives:
                yield Row(f"all planes away for {seconds} s", show(got), "resumes",
                          got is not None)
            else:
                yield Row(f"all planes away for {seconds} s",
                          "retry exceeded" if got is None else show(got),
                          "retry exceeded", got is None)
                yield Row("  the program ended after, s", f"{took:.1f}")


def reordering():
    with Fabric(planes=2) as fabric, Devices(fabric, "metaroce") as devices:
        base = measure(devices)
        fabric.change(lambda h, p: h == 0, reorder=25, jitter_us=1000, delay_us=1000)
        yield against("reordering 25 %, jitter 1 ms", measure(devices), base, 0.9)
        sent = devices.counter(1, "tx_packets")
        yield Row("  spurious retransmissions, of all packets",
                  f"{devices.counter(1, 'retransmits_spurious') / sent:.4f}")


def marking():
    with Fabric(planes=1) as fabric, Devices(fabric, "metaroce") as devices:
        fabric.change(lambda h, p: h == 0, mark=True)
        run = Perftest(devices, seconds=6)
        time.sleep(3)
        backlogs = []
        for _ in range(60):
            backlogs.append(fabric.queue(0, 0)["backlog"])
            time.sleep(0.03)
        got = run.result()
        queue = fabric.queue(0, 0)
        yield against("link that marks (ECN)", got, IDEAL, 0.95)
        # The queue also drops what knows no ECN, such as the program's TCP.
        # What came twice had not been lost.
        lost = (devices.counters(1, "retransmits_(gap|probe|timeout)")
                - devices.counter(0, "rx_duplicates"))
        yield Row("  packets lost", lost, "0", lost == 0)
        yield Row("  packets marked", queue["marks"], "> 0", queue["marks"] > 0)
        backlogs.sort()
        median = backlogs[len(backlogs) // 2]
        yield Row(f"  queue, median, bytes (marks from {THRESHOLD})", median,
                  f"<= {2 * THRESHOLD}", median <= 2 * THRESHOLD)


def incast():
    n = 8
    for told in False, True:
        with Fabric(hosts=n + 1, planes=1) as fabric, Devices(fabric, "metaroce") as devices:
            if told:
                devices.tell_inbound(0)
            runs = [Perftest(devices, seconds=8, client=h, server=0, port=18515 + h)
                    for h in range(1, n + 1)]
            rates = [run.result() for run in runs]
        yield Row("incast 8 to 1" + (", receiver knows its rate" if told else ""),
                  " ".join("-" if r is None else f"{r:.1f}" for r in rates),
                  "no error", None not in rates)
        if None in rates:
            continue
        total = sum(rates)
        jain = total ** 2 / (n * sum(r * r for r in rates))
        yield against("  sum", total, IDEAL, 0.95)
        if told:
            yield Row("  Jain's index", f"{jain:.3f}", ">= 0.98", jain >= 0.98)
        else:
            yield Row("  Jain's index", f"{jain:.3f}")


def long_link():
    with Fabric(planes=1, delay_us=20_000) as fabric, Devices(fabric, "metaroce") as devices:
        got = measure(devices, seconds=8, options=("-t", "128"))
        yield against("round trip of 40 ms", got, IDEAL, 0.9)
        spurious = devices.counter(1, "retransmits_spurious")
        yield Row("  spurious retransmissions", spurious, "0", spurious == 0)


ALL = (lossless, loss, loss_others, planes, unequal, failure, outage, reordering, marking,
       incast, long_link)
