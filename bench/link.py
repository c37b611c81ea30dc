# SPDX-License-Identifier: Apache-2.0
"""Two hosts on this machine with a cable of a chosen rate between them: network
namespaces, a veth pair, and tc's token bucket at both ends, so each direction
has the rate. Needs root; whatever was made is gone when the `with` ends.
"""
import os
import re
import signal
import subprocess
import sys

from bed import check

# As a switch has it: what 10 ms take, then packets are dropped.
QUEUE = ["burst", "128kb", "latency", "10ms"]


def run(*words, must=True):
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    check(done.returncode == 0 or not must,
          f"{' '.join(words)}: exit {done.returncode}; a shaped link needs root, "
          "ip and tc, and a kernel with veth and tbf", done.stderr.strip())
    return done


def sweep():
    """Removes what those left who were killed."""
    listed = run("ip", "netns", "list").stdout
    for name, owner in re.findall(r"^(sb(\d+)\w+)", listed, re.M):
        if not os.path.exists(f"/proc/{owner}"):
            run("ip", "netns", "del", name, must=False)


class Link:
    """with Link("1gbit") as link: link.near, link.far are namespaces, and
    link.address["near"], link.address["far"] their addresses."""

    def __init__(self, rate):
        tag = f"sb{os.getpid()}"
        self.rate = rate
        self.near, self.far = f"{tag}n", f"{tag}f"
        self.address = {self.near: "10.79.0.1", self.far: "10.79.0.2"}

    def __enter__(self):
        # A `with` is left only by those signals that Python makes exceptions of.
        self.on_term = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        sweep()
        try:
            for name in self.address:
                run("ip", "netns", "add", name)
            run("ip", "link", "add", "eth0", "netns", self.near, "type", "veth",
                "peer", "name", "eth0", "netns", self.far)
            for name, address in self.address.items():
                self.plug(name, address)
        except BaseException:
            self.unplug()
            raise
        return self

    def plug(self, name, address):
        run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", name, "link", "set", device, "up")
        run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf",
            "rate", self.rate, *QUEUE)

    def unplug(self):
        for name in self.address:
            run("ip", "netns", "del", name, must=False)
        signal.signal(signal.SIGTERM, self.on_term)

    def __exit__(self, *_):
        self.unplug()

    @staticmethod
    def inside(name):
        """What goes before a command line."""
        return ["ip", "netns", "exec", name]


class Switch(Link):
    """with Switch("1gbit", 4) as s: s.hosts are namespaces, each behind a cable
    of the rate to one switch; s.address[host] its address."""

    def __init__(self, rate, hosts):
        super().__init__(rate)
        self.tag = f"sb{os.getpid()}"
        self.switch = f"{self.tag}s"
        self.hosts = [f"{self.tag}h{i}" for i in range(hosts)]
        self.address = {name: f"10.79.0.{i + 1}"
                        for i, name in enumerate(self.hosts)}

    def __enter__(self):
        self.on_term = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        sweep()
        try:
            run("ip", "netns", "add", self.switch)
            run("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
            run("ip", "-n", self.switch, "link", "set", "bridge", "up")
            for i, (name, address) in enumerate(self.address.items()):
                run("ip", "netns", "add", name)
                run("ip", "link", "add", "eth0", "netns", name, "type", "veth",
                    "peer", "name", f"port{i}", "netns", self.switch)
                run("ip", "-n", self.switch, "link", "set", f"port{i}", "master",
                    "bridge", "up")
                run("tc", "-n", self.switch, "qdisc", "add", "dev", f"port{i}",
                    "root", "tbf", "rate", self.rate, *QUEUE)
                self.plug(name, address)
        except BaseException:
            self.unplug()
            raise
        return self

    def unplug(self):
        run("ip", "netns", "del", self.switch, must=False)
        super().unplug()
