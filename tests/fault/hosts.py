# SPDX-License-Identifier: Apache-2.0
"""Each daemon in a network namespace of its own, on one bridge, with mutual
TLS; nft cuts what a test wants cut. Needs root."""
import ctypes
import os
import pathlib
import subprocess

from asker import Asker
from bed import BIN, ROOT, Bed, check
from cluster import LIMIT
from proxy import Proxy

TAG = f"sf{os.getpid() % 100000}"
NET = "10.78.0."
HOSTS = {"coordinator": 1, "ps-0": 2, "w-0": 3, "ps-1": 4, "w-1": 5}


def ip(*words, netns=None, must=True):
    line = ["ip"] + (["-n", netns] if netns else []) + list(words)
    return subprocess.run(line, check=must, capture_output=True)


def possible(cuts=True):
    """Can hosts be had here, and, if wanted, nft to cut them off?"""
    if os.geteuid() or ip("netns", "add", f"{TAG}probe", must=False).returncode:
        return False
    works = not cuts or inside(f"{TAG}probe", "sh", "-c", "nft list ruleset",
                               must=False).returncode == 0
    ip("netns", "del", f"{TAG}probe")
    return works


def inside(netns, *words, must=True):
    return subprocess.run(["ip", "netns", "exec", netns, *words], check=must,
                          capture_output=True, text=True)


def of(name):
    return f"{TAG}{HOSTS[name]}"


def address(name):
    return f"{NET}{HOSTS[name]}"


class Window(Proxy):
    """A socket here whose other end dials from a host."""

    def __init__(self, here, name, there):
        self.netns = pathlib.Path("/run/netns") / of(name)
        super().__init__(here, there)

    def accept(self):
        with self.netns.open() as netns:  # this thread, and those it starts
            check(ctypes.CDLL(None).setns(netns.fileno(), 0) == 0, "setns")
        super().accept()


class HostBed(Bed):
    """The net job on two workers and two psservers, five hosts."""

    def __init__(self, **more):
        # Hosts in one machine: what they would share there goes by no link.
        super().__init__(programs=0, worker_args=["--shm", "off"], **more)
        self.host_address, self.window = f"{NET}1:7070", None
        self.asker = Asker(f"unix:{self.dir}/window.sock", ROOT / "proto", lambda: (
            *(self.dir / "certs" / n for n in ("ca.crt", "client.key", "client.crt")),
            address("coordinator")))

    def __enter__(self):
        try:
            ip("netns", "add", f"{TAG}sw")
            ip("link", "add", "br0", "type", "bridge", netns=f"{TAG}sw")
            ip("link", "set", "br0", "up", netns=f"{TAG}sw")
            for name in HOSTS:
                self.plug(name)
            self.window = Window(self.dir / "window.sock", "coordinator",
                                 (address("coordinator"), 7070))
        except BaseException:
            self.unplug()
            raise
        return super().__enter__()

    def __exit__(self, *why):
        try:
            return super().__exit__(*why)
        finally:
            self.unplug()

    @staticmethod
    def plug(name):
        number = HOSTS[name]
        ip("netns", "add", of(name))
        ip("link", "add", "eth0", "netns", of(name), "type", "veth",
           "peer", "name", f"v{number}", "netns", f"{TAG}sw")
        ip("link", "set", f"v{number}", "master", "br0", "up", netns=f"{TAG}sw")
        ip("addr", "add", f"{address(name)}/24", "dev", "eth0", netns=of(name))
        ip("link", "set", "eth0", "up", netns=of(name))
        ip("link", "set", "lo", "up", netns=of(name))

    def unplug(self):
        if self.window:
            self.window.__exit__()
        for name in HOSTS:
            ip("netns", "del", of(name), must=False)
        ip("netns", "del", f"{TAG}sw", must=False)

    # ---- faults

    @staticmethod
    def drop(name, *rules):
        """Rules for the host's chains: ("output", "ip daddr 10.78.0.1")."""
        text = "table inet cut {\n"
        for hook in ("input", "output"):
            text += (f"chain {hook} {{ type filter hook {hook} priority 0;\n" +
                     "".join(f"{rule} drop\n" for h, rule in rules if h == hook) +
                     "}\n")
        subprocess.run(["ip", "netns", "exec", of(name), "nft", "-f", "-"],
                       input=text + "}\n", check=True, text=True)

    def cut(self, name, *others, ways=("input", "output")):
        word = {"input": "saddr", "output": "daddr"}
        self.drop(name, *[(way, f"ip {word[way]} {address(other)}")
                          for other in others for way in ways])

    @staticmethod
    def reset(name):
        """Every connection of the host dies with a RST; until it is healed,
        none is made."""
        rule = "ip saddr != 127.0.0.1 meta l4proto tcp reject with tcp reset\n"
        text = "".join(f"chain {hook} {{ type filter hook {hook} priority 0;\n"
                       f"{rule}}}\n" for hook in ("input", "output"))
        subprocess.run(["ip", "netns", "exec", of(name), "nft", "-f", "-"],
                       input=f"table inet cut {{\n{text}}}\n", check=True, text=True)

    @staticmethod
    def heal(name):
        inside(of(name), "nft", "delete", "table", "inet", "cut")

    # ---- a cluster as ever, but each daemon in its place

    def tls(self, role, folder="certs"):
        folder = self.dir / folder
        return ["--tls-ca", str(folder / "ca.crt"),
                "--tls-cert", str(folder / f"{role}.crt"),
                "--tls-key", str(folder / f"{role}.key")]

    def command(self, name):
        role = {"c": "coordinator", "p": "psserver", "w": "worker"}[name[0]]
        line = ["ip", "netns", "exec", of(name), str(BIN / role), *self.tls(role)]
        if role == "worker":
            return line + ["--coordinator", self.host_address, "--name", name,
                           "--threads", "1", *self.data_roots(), *self.args[role]]
        line += ["--state", str(self.dir / name), "--store", str(self.dir / "store"),
                 "--listen", f"{address(name)}:7070"]
        if role == "psserver":
            line += ["--coordinator", self.host_address, "--name", name]
        return line + self.args[role]

    def start(self, name, environment=None, **options):
        # What is lost counts as lost after two seconds: so long a job is to run, and not
        # to compute.
        slow = {"SLUICE_FAULT": "task.compute=delay:20"} if name[0] == "w" else {}
        return super().start(name, environment={**slow, **(environment or {})}, **options)

    def start_all(self):
        self.make_certificates("certs")
        super().start_all()

    def make_certificates(self, folder):
        """A new authority, and one certificate per role."""
        words = [str(BIN / "sluice"), "cert", "init", str(self.dir / folder)]
        for name in HOSTS:
            words += ["--host", address(name)]
        subprocess.run(words, check=True, capture_output=True)

    def run(self, *words, limit_s=60, want=0, certs="certs"):
        done = subprocess.run(
            ["ip", "netns", "exec", of("coordinator"), str(BIN / "sluice"),
             "--coordinator", self.host_address, *self.tls("client", certs),
             *map(str, words)], capture_output=True, text=True, cwd=self.dir,
            timeout=limit_s * LIMIT, stdin=subprocess.DEVNULL, check=False)
        check(want is None or done.returncode == want,
              f"sluice {words}: exit {done.returncode}", done.stdout, done.stderr)
        return done
