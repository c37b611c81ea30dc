# SPDX-License-Identifier: Apache-2.0
"""The fabric: what reaches a real psserver, and is applied and counted there,
against what a socket carries when nobody looks at it."""
import os
import subprocess

import cluster
from bed import Bed
from table import MIB, at_least, at_most, row

NEEDS = ["psserver", "ps_load", "raw_stream"]
OUTSTANDING = 4


def raw(bench, *floor):
    """GB/s of a floor with messages as ours."""
    done = bench.program(*floor, *bench.timed(), "--bytes", MIB, "--outstanding",
                         OUTSTANDING, "--far-cpu", bench.server_cpu,
                         "--near-cpu", bench.client_cpu)
    return done["bytes_per_s"] / 1e9


def loaded(bench, over, mode, floor, shm="off"):
    """GB/s of ps_load and of a floor, in turn, message by message the same."""
    with bench.cluster(over=over) as c:
        _, target = c.place(elements=MIB // 4, shards=1)

        def ours():
            done = bench.program("ps_load", *target, *bench.timed(), "--mode", mode,
                                 "--outstanding", OUTSTANDING, "--shm", shm,
                                 "--cpu", bench.client_cpu)
            return done["bytes_per_s"] / 1e9
        return bench.alternate(ours, lambda: raw(bench, *floor))


def stream(bench, mode, over):
    return loaded(bench, over, mode, ["raw_stream", "--mode", mode, "--over", over])


@row("push-tcp", unit="GB/s", peer="raw TCP", bar=at_least(0.80), needs=NEEDS)
def push_tcp(bench):
    """Push of 1 MiB, 4 outstanding, applied with SGD and counted."""
    return stream(bench, "push", "tcp")


@row("pull-tcp", unit="GB/s", peer="raw TCP", bar=at_least(0.85), needs=NEEDS)
def pull_tcp(bench):
    """Pull of 1 MiB, 4 outstanding, into the client's tensor."""
    return stream(bench, "pull", "tcp")


@row("pushpull-tcp", unit="GB/s", peer="raw TCP both ways", bar=at_least(0.70),
     needs=NEEDS)
def pushpull_tcp(bench):
    """PushPull of 1 MiB each way, 4 outstanding; bytes of both directions."""
    return stream(bench, "pushpull", "tcp")


@row("push-unix", unit="GB/s", peer="raw unix socket", bar=at_least(0.6),
     needs=NEEDS)
def push_unix(bench):
    """Push of 1 MiB, 4 outstanding, over a unix socket."""
    return stream(bench, "push", "unix")


@row("push-shm", unit="GB/s", peer="memory: copy, apply", bar=at_least(0.8),
     needs=["psserver", "ps_load", "raw_memory", "raw_stream"])
def push_shm(bench):
    """Push of 1 MiB, 4 outstanding, through memory shared on one host, into
    which each gradient is copied as the worker does it; calls over a unix
    socket, as `sluice up` has it."""
    ours, floor = loaded(bench, "unix", "push", ["raw_memory"], shm="copy")
    tcp = raw(bench, "raw_stream", "--mode", "push", "--over", "tcp")
    bench.note(f"raw TCP carries {tcp:.1f} GB/s here")
    return ours, floor


class Guarded(Bed):
    """Its psserver asks for certificates, and shows one."""

    def __init__(self, **options):
        super().__init__(over="tcp", coordinator_args=["--job-tokens", "accept"],
                         **options)
        self.certs = self.dir / "certs"
        subprocess.run([str(cluster.BIN / "sluice"), "cert", "init", str(self.certs),
                        "--host", "127.0.0.1"], check=True, capture_output=True)

    def tls(self, role):
        return ["--tls-ca", self.certs / "ca.crt",
                "--tls-cert", self.certs / f"{role}.crt",
                "--tls-key", self.certs / f"{role}.key"]

    def command(self, name):
        line = super().command(name)
        return line + [str(word) for word in self.tls("psserver")] \
            if name.startswith("ps") else line

    def cpu_s(self, name):
        """Seconds of a core that a process has spent."""
        with open(f"/proc/{self.processes[name].pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@row("push-tls", unit="CPU s/GB", peer="raw TLS", bar=at_most(2), needs=NEEDS)
def push_tls(bench):
    """What both sides of a Push of 1 MiB over mutual TLS, 4 outstanding, take of
    their cores for each GB, against both ends of OpenSSL's stream with the same
    certificates and cipher."""
    with Guarded(cpu=bench.server_cpu) as c:
        _, target = c.place(elements=MIB // 4, shards=1)
        tls = c.tls("worker")

        def ours():
            before = c.cpu_s("ps-0")
            done = bench.program("ps_load", *target, *bench.timed(), *tls,
                                 "--mode", "push", "--outstanding", OUTSTANDING,
                                 "--cpu", bench.client_cpu)
            spent = c.cpu_s("ps-0") - before + done["cpu_s"]
            return spent / done["all_bytes"] * 1e9

        def raw():
            done = bench.program("raw_stream", *bench.timed(), *tls, "--mode", "push",
                                 "--bytes", MIB, "--outstanding", OUTSTANDING,
                                 "--far-cpu", bench.server_cpu,
                                 "--near-cpu", bench.client_cpu)
            return done["cpu_s"] / done["all_bytes"] * 1e9
        return bench.alternate(ours, raw)


@row("rpc", unit="calls/s", peer="bare C-core echo", bar=at_least(0.8),
     needs=["psserver", "ps_load", "rpc_echo"])
def rpc(bench):
    """Ask, the small unary call of a worker, 16 outstanding, over TCP."""
    with bench.cluster(over="tcp") as c:
        _, target = c.place(elements=1024, shards=1)

        def ours():
            return bench.program("ps_load", *target, *bench.timed(), "--mode", "ask",
                                 "--outstanding", 16,
                                 "--cpu", bench.client_cpu)["per_s"]

        def echo():
            return bench.program("rpc_echo", *bench.timed(), "--outstanding", 16,
                                 "--far-cpu", bench.server_cpu,
                                 "--near-cpu", bench.client_cpu)["per_s"]
        return bench.alternate(ours, echo)
