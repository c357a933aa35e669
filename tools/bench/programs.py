# SPDX-License-Identifier: GPL-2.0
"""The programs whose speed is compared: perftest over metaroce and rxe, iperf3."""

import json
import re
import threading
import time
from pathlib import Path

from fabric import PAYLOAD, address, sh, start, wait_for

PORT = 18515


class Devices:
    """An RDMA device of one kind on every host; used as a context."""

    def __init__(self, fabric, kind):
        self.fabric, self.kind = fabric, kind
        self.names = [f"{kind[:3]}{h}" for h in range(fabric.hosts)]

    def __enter__(self):
        planes = range(self.fabric.planes if self.kind == "metaroce" else 1)
        for ns, name in zip(self.fabric.ns, self.names):
            for p in planes:
                sh("rdma", "link", "add", name, "type", self.kind, "netdev", f"p{p}", ns=ns)
        for name in self.names:
            wait_for(lambda name=name: self._gid(name) is not None)
        return self

    def _gid(self, name):
        """Index of the IPv4 address in the GID table."""
        port = Path(f"/sys/class/infiniband/{name}/ports/1")
        for i in range(16):
            try:
                gid = (port / f"gids/{i}").read_text().strip()
                kind = (port / f"gid_attrs/types/{i}").read_text().strip()
            except OSError:
                continue
            if kind == "RoCE v2" and gid.startswith("0000:0000:0000:0000:0000:ffff"):
                return i
        return None

    def tell_inbound(self, h):
        """Tells a metaroce device what its links take: a veth says 10 Gbit/s."""
        (folder,) = Path("/sys/kernel/debug/metaroce").glob(f"{self.names[h]}*")
        (folder / "inbound").write_text(str(self.fabric.links[h, 0].rate))

    def options(self, h):
        return ["-d", self.names[h], "-x", str(self._gid(self.names[h]))]

    def counter(self, h, name):
        return counters(self.names[h]).get(name, 0)

    def counters(self, h, pattern):
        """Sum of the counters whose names match."""
        found = counters(self.names[h]).items()
        return sum(value for name, value in found if re.fullmatch(pattern, name))

    def __exit__(self, *_):
        for name in self.names:
            sh("rdma", "link", "del", name, check=False)


class Perftest:
    """A client on host `client` and a server on host `server`."""


    def __init__(self, devices, program="ib_write_bw", size=65536, seconds=4, options=(),
                 client=1, server=0, port=PORT):
        fabric = devices.fabric
        common = ["-F", "--report_gbits", "-s", str(size), "-D", str(seconds), "-p", str(port),
                  *options]
        self.size, self.seconds = size, seconds
        self.server = start(program, *devices.options(server), *common, ns=fabric.ns[server])
        wait_for(lambda: sh("ss", "-Hltn", f"sport = :{port}", ns=fabric.ns[server]))
        self.client = start(program, *devices.options(client), *common, address(server, 0),
                            ns=fabric.ns[client])

    def going(self):
        return self.client.poll() is None

    def result(self, patience=60):
        """Mbit/s; None if the program failed."""
        try:
            out, _ = self.client.communicate(timeout=patience)
            self.server.communicate(timeout=patience)
        except Exception:
            self.client.kill()
            self.server.kill()
            return None
        if self.client.returncode or self.server.returncode:
            return None
        lines = out.splitlines()
        for head, row in zip(lines, lines[1:]):
            if "#bytes" in head:
                # The rate has two digits only. What is counted leaves out a quarter of
                # the time at either end, in whole seconds.
                counted = self.seconds - 2 * (self.seconds // 4)
                return int(row.split()[1]) * self.size * 8 / counted / 1e6
        return None


def perftest(devices, **options):
    before = nonzero(devices, 1) if VERBOSE else {}
    got = Perftest(devices, **options).result()
    if VERBOSE:
        after = nonzero(devices, 1)
        told = [f"{k} {v - before.get(k, 0)}" for k, v in after.items() if v != before.get(k)]
        queues = [f"{devices.fabric.queue(0, p)}" for p in range(devices.fabric.planes)]
        print("   ", devices.kind, ", ".join(told), *queues, flush=True)
    return got


# Whether to tell after each run what the sender's counters and the queues say.
VERBOSE = False


def counters(name):
    """The counters of a device and its port."""
    device = Path(f"/sys/class/infiniband/{name}")
    folders = (f for f in (device / "hw_counters", device / "ports/1/hw_counters") if f.is_dir())
    return {
        f.name: int(f.read_text())
        for folder in folders
        for f in sorted(folder.iterdir())
        if f.name != "lifespan"
    }


def nonzero(devices, h):
    """The counters of a device that are not zero, without those of single paths."""
    values = counters(devices.names[h]).items()
    return {k: v for k, v in values if v and not k.startswith("path")}


def tcp(fabric, seconds=4, client=1, server=0, port=5201):
    """Mbit/s of iperf3; None if it failed."""
    listening = start("iperf3", "-s", "-1", "-p", str(port), ns=fabric.ns[server])
    wait_for(lambda: sh("ss", "-Hltn", f"sport = :{port}", ns=fabric.ns[server]))
    out = sh("iperf3", "-c", address(server, 0), "-p", str(port), "-t", str(seconds), "-J",
             ns=fabric.ns[client], check=False)
    listening.kill()
    listening.wait()
    try:
        return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 1e6
    except (KeyError, ValueError):
        return None


class Progress(threading.Thread):
    """Looks at what a device has received every few milliseconds, to see gaps and rates."""

    def __init__(self, devices, h, name="rx_packets", every=0.004):
        super().__init__(daemon=True)
        self.path = Path(f"/sys/class/infiniband/{devices.names[h]}/ports/1/hw_counters/{name}")
        # ib_core keeps counters for so many milliseconds.
        (self.path.parent / "lifespan").write_text("1")
        self.every, self.samples, self.going = every, [], True
        self.start()

    def run(self):
        while self.going:
            self.samples.append((time.monotonic(), int(self.path.read_text())))
            time.sleep(self.every)

    def stop(self):
        self.going = False
        self.join()
        return self

    def longest_gap(self, begin, end):
        """Longest time without change between two times, in seconds."""
        last, longest, value = None, 0.0, None
        for when, n in self.samples:
            if not begin <= when <= end:
                continue
            if n != value or last is None:
                last, value = when, n
            longest = max(longest, when - last)
        if value is None:
            raise RuntimeError("nothing was seen of the progress")
        return longest

    def rate(self, begin, end):
        """Mbit/s between two times."""
        inside = [s for s in self.samples if begin <= s[0] <= end]
        if len(inside) < 2:
            return 0.0
        (t0, n0), (t1, n1) = inside[0], inside[-1]
        return (n1 - n0) * PAYLOAD * 8 / 1e6 / (t1 - t0)
