# SPDX-License-Identifier: GPL-2.0
"""Hosts as network namespaces, joined by planes: a switch (bridge) each.

Every link towards a host has a rate, a delay, and faults (netem) on the switch's
port. Hosts do not segment in their "hardware", so that what comes to netem are
single packets and not bursts of a dozen.
"""

import json
import subprocess
import time

SWITCH = "mrsw"
MTU = 4300
# What a packet costs on the link beside what an RDMA program has sent: Ethernet,
# IPv4, UDP, and a header of metaroce (that of a Write).
HEADERS = 14 + 20 + 8 + 56
PAYLOAD = 4096


def sh(*args, ns=None, check=True, **kwargs):
    """Runs a command, in a namespace; returns what it prints."""
    if ns:
        args = ("ip", "netns", "exec", ns, *args)
    done = subprocess.run(args, capture_output=True, text=True, **kwargs)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout


def start(*args, ns=None):
    """Starts a command in a namespace."""
    if ns:
        args = ("ip", "netns", "exec", ns, *args)
    return subprocess.Popen(
        args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def address(host, plane):
    return f"10.{plane}.0.{host + 1}"


class Link:
    """What the link from a plane's switch to a host does."""

    def __init__(self, rate=100, delay_us=100, limit=400):
        self.rate, self.delay_us, self.limit = rate, delay_us, limit
        self.loss, self.reorder, self.jitter_us = 0.0, 0, 0
        self.mark = False

    def options(self):
        delay = ["delay", f"{self.delay_us}us"]
        if self.jitter_us:
            delay.append(f"{self.jitter_us}us")
        options = [*delay, "limit", str(self.limit)]
        if not self.reorder:
            options += ["rate", f"{self.rate}mbit"]
        if self.loss:
            options += ["loss", f"{self.loss}%"]
        if self.reorder:
            # So many do not wait, neither for netem's rate: it is the senders' links that
            # have one.
            options += ["reorder", f"{self.reorder}%"]
        return options

    def shaper(self, limit):
        return ["tbf", "rate", f"{self.rate}mbit", "burst", "9000", "limit", limit]


class Fabric:
    """`hosts` hosts on `planes` planes, host 0 and up; used as a context."""

    def __init__(self, hosts=2, planes=2, rate=100, delay_us=100, rates=None):
        self.hosts, self.planes = hosts, planes
        self.links = {
            (h, p): Link(rates[p] if rates else rate, delay_us)
            for h in range(hosts)
            for p in range(planes)
        }
        self.ns = [f"mrh{h}" for h in range(hosts)]

    def __enter__(self):
        sh("ip", "netns", "add", SWITCH)
        sh("ip", "link", "set", "lo", "up", ns=SWITCH)
        for p in range(self.planes):
            sh("ip", "link", "add", f"br{p}", "mtu", str(MTU), "type", "bridge",
               "mcast_snooping", "0", ns=SWITCH)
            sh("ip", "link", "set", f"br{p}", "up", ns=SWITCH)
        for h, ns in enumerate(self.ns):
            sh("ip", "netns", "add", ns)
            sh("ip", "link", "set", "lo", "up", ns=ns)
            for p in range(self.planes):
                self._port(h, p)
        self._neighbours()
        return self

    def _port(self, h, p):
        ns, port = self.ns[h], f"h{h}p{p}"
        sh("ip", "link", "add", f"p{p}", "mtu", str(MTU), "netns", ns, "type", "veth",
           "peer", "name", port, "mtu", str(MTU), "netns", SWITCH)
        sh("ip", "link", "set", port, "master", f"br{p}", "up", ns=SWITCH)
        sh("ethtool", "-K", f"p{p}", "tso", "off", "gso", "off",
           "tx-udp-segmentation", "off", ns=ns)
        sh("ip", "addr", "add", f"{address(h, p)}/24", "dev", f"p{p}", ns=ns)
        sh("ip", "link", "set", f"p{p}", "up", ns=ns)
        self.apply(h, p)

    def _neighbours(self):
        # ARP is not what is measured, and would get lost as well.
        for p in range(self.planes):
            macs = [
                json.loads(sh("ip", "-j", "link", "show", f"p{p}", ns=ns))[0]["address"]
                for ns in self.ns
            ]
            for ns in self.ns:
                for h, mac in enumerate(macs):
                    if ns != self.ns[h]:
                        sh("ip", "neigh", "replace", address(h, p), "lladdr", mac,
                           "dev", f"p{p}", "nud", "permanent", ns=ns)

    def apply(self, h, p):
        """Makes the switch's port do what `links` says."""
        link, port = self.links[h, p], f"h{h}p{p}"
        sh("tc", "qdisc", "del", "dev", port, "root", ns=SWITCH, check=False)
        if not link.mark:
            sh("tc", "qdisc", "add", "dev", port, "root", "handle", "1:", "netem",
               *link.options(), ns=SWITCH)
            for ns in self.ns if link.reorder else ():
                if ns != self.ns[h]:
                    sh("tc", "qdisc", "replace", "dev", f"p{p}", "root", *link.shaper("1700k"),
                       ns=ns)
            return
        # A shallow queue that marks from its threshold on, in front of the rate.
        sh("tc", "qdisc", "add", "dev", port, "root", "handle", "1:", *link.shaper("4m"),
           ns=SWITCH)
        sh("tc", "qdisc", "add", "dev", port, "parent", "1:1", "handle", "10:", "red",
           "limit", "2000000", "min", str(THRESHOLD), "max", str(THRESHOLD + 4500),
           "avpkt", "4200", "burst", str(THRESHOLD // 4200 + 1), "bandwidth",
           f"{link.rate}mbit", "probability", "1", "ecn", ns=SWITCH)

    def queue(self, h, p):
        """Statistics of the switch's port: drops, marks, and bytes that wait."""
        out = json.loads(sh("tc", "-s", "-j", "qdisc", "show", "dev", f"h{h}p{p}", ns=SWITCH))
        return {
            "drops": sum(q.get("drops", 0) for q in out),
            "marks": sum(q.get("marked", 0) for q in out),
            "backlog": max(q.get("backlog", 0) for q in out),
        }

    def change(self, which, **what):
        """Sets attributes of the links for which which(host, plane) holds."""
        for (h, p), link in self.links.items():
            if which(h, p):
                for name, value in what.items():
                    setattr(link, name, value)
                self.apply(h, p)

    def set_port(self, h, p, state):
        """Pulls a host's cable at the switch, or plugs it in."""
        sh("ip", "link", "set", f"h{h}p{p}", state, ns=SWITCH)

    def blackhole(self, p, on):
        """The plane's switch forwards nothing, while all links stay up."""
        for h in range(self.hosts):
            options = ["loss", "100%"] if on else self.links[h, p].options()
            sh("tc", "qdisc", "replace", "dev", f"h{h}p{p}", "root", "handle", "1:",
               "netem", *options, ns=SWITCH)

    def __exit__(self, *_):
        for ns in [*self.ns, SWITCH]:
            sh("ip", "netns", "del", ns, check=False)


# Queue at which the marking link begins to mark, in bytes.
THRESHOLD = 60_000


def wait_for(what, seconds=20):
    """Waits until what() is true."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise RuntimeError(f"waited in vain for {what}")
        time.sleep(0.05)
